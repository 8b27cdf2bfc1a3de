#include "check_report.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "check_findings.h"
#include "check_launch.h"
#include "context.h"
#include "control.h"

namespace lowgraph {
namespace {

// Read at the load, so that `check` can name a folder to the children of its own process alone.
const char* const folder = std::getenv("LOWGRAPH_HOST_CHECK_REPORT");

pid_t process = 0;  // a forked child tells nothing: it has no device
int file = -1;      // open from the begin, since the folder may be gone at the end

std::string text_of(size_t (*give)(char*, size_t)) {
    std::string text(give(nullptr, 0), '\0');
    text.resize(give(text.data(), text.size()) - 1);
    return text;
}

bool write_all(const std::string& text) {
    size_t done = 0;
    while (done < text.size()) {
        const ssize_t count = write(file, text.data() + done, text.size() - done);
        if (count <= 0) return false;
        done += static_cast<size_t>(count);
    }
    return true;
}

void tell_people() {
    const std::string unchecked = text_of(lowgraph_host_unchecked);
    const uint64_t found = findings_so_far();
    if (findings_were_read() || (found == 0 && unchecked.empty())) return;
    std::fprintf(stderr,
                 "lowgraph host device: %s in %llu checked launches%s; `python -m lowgraph check "
                 "--exec PROGRAM` prints them\n",
                 found == 0 ? "nothing found" : "kernels did something wrong",
                 static_cast<unsigned long long>(launches_checked()),
                 unchecked.empty() ? "" : ", others were not checked");
}

// The last line tells a whole report from that of a process which was killed.
void tell() {
    if (getpid() != process) return;
    if (!in_host_function()) lowgraph_host_finish();  // there the work would wait for itself
    if (file < 0) return tell_people();
    const std::string end = "{\"launches\": " + std::to_string(launches_checked()) + "}\n";
    if (!write_all(text_of(lowgraph_host_findings) + text_of(lowgraph_host_unchecked) + end))
        std::fprintf(stderr, "lowgraph host device: the report of the checks cannot be written\n");
    close(file);
}

}  // namespace

void begin_report() {
    process = getpid();
    if (folder != nullptr && *folder != '\0') {
        const std::string path = std::string(folder) + "/" + std::to_string(process);
        file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (file < 0)
            std::fprintf(stderr, "lowgraph host device: cannot write the report of the checks, %s\n",
                         path.c_str());
    }
    std::atexit(tell);
}

}  // namespace lowgraph
