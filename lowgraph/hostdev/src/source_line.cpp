#include "source_line.h"

#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <sstream>

extern char** environ;

namespace lowgraph {
namespace {

// What a program writes to its standard output; empty if it does not run.
std::string output_of(const char* const* command) {
    int ends[2];
    if (pipe(ends) != 0) return "";
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", 1, 0);
    pid_t child = 0;
    const bool runs = posix_spawnp(&child, command[0], &actions, nullptr,
                                   const_cast<char* const*>(command), environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    std::string text;
    std::array<char, 4096> part;
    for (ssize_t count = 0; runs && (count = read(ends[0], part.data(), part.size())) > 0;)
        text.append(part.data(), static_cast<size_t>(count));
    close(ends[0]);
    if (runs) waitpid(child, nullptr, 0);
    return text;
}

// Of a line of addr2line, "/home/me/layernorm.cu:10 (discriminator 2)".
std::string short_place(const std::string& line) {
    const size_t name = line.rfind('/', line.find(' '));
    return line.substr(name == std::string::npos ? 0 : name + 1, line.find(' ') - name - 1);
}

bool is_users(const std::string& line) {
    return line.find('?') == std::string::npos && line.find("/cuda_on_host") == std::string::npos;
}

}  // namespace

std::string source_line(uint64_t instruction) {
    Dl_info image{};
    const bool known = dladdr(reinterpret_cast<void*>(instruction), &image) != 0;
    if (instruction == 0 || !known || image.dli_fname == nullptr) return "";
    char offset[24];
    std::snprintf(offset, sizeof offset, "0x%llx",
                  static_cast<unsigned long long>(
                      instruction - reinterpret_cast<uint64_t>(image.dli_fbase)));
    // -i: after the line of an inlined function comes the line that it was called from.
    const char* const command[] = {"addr2line", "-i", "-e", image.dli_fname, offset, nullptr};
    std::istringstream lines(output_of(command));
    for (std::string line; std::getline(lines, line);)
        if (is_users(line)) return short_place(line);
    return "";
}

}  // namespace lowgraph
