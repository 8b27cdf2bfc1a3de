#include "check_settings.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "check.h"
#include "check_report.h"
#include "control.h"
#include "watchdog.h"

namespace lowgraph {
namespace {

constexpr double default_seconds = 60;  // of a launch, while checking; check.py has the same

const char* variable(const char* name) {
    const char* text = std::getenv(name);
    return text != nullptr ? text : "";
}

bool read_seconds(double* seconds) {
    const char* text = variable("LOWGRAPH_HOST_KERNEL_SECONDS");
    *seconds = checking() ? default_seconds : 0;
    if (*text == '\0') return true;
    char* end = nullptr;
    *seconds = std::strtod(text, &end);
    return *end == '\0' && *seconds >= 0 && *seconds < 1e300;
}

CUresult refuse(const char* why) {
    std::fprintf(stderr, "lowgraph host device: %s\n", why);
    return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

// Once: what a Python program has set by itself since stays.
CUresult begin_check() {
    static bool begun = false;
    if (begun) return CUDA_SUCCESS;
    const char* on = variable("LOWGRAPH_HOST_CHECK");
    if (std::strcmp(on, "1") == 0) lowgraph_host_set_check();
    else if (*on != '\0' && std::strcmp(on, "0") != 0)
        return refuse("LOWGRAPH_HOST_CHECK must be 1 (check kernels) or 0");
    double seconds = 0;
    if (!read_seconds(&seconds))
        return refuse("LOWGRAPH_HOST_KERNEL_SECONDS must be seconds, or 0 for no limit");
    set_kernel_seconds(seconds);
    begun = true;
    if (checking()) begin_report();
    return CUDA_SUCCESS;
}

}  // namespace lowgraph
