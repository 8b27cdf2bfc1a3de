// What is said of a wait for a word that nobody stores.
#include <cstdio>

#include "check.h"
#include "context.h"
#include "exec.h"
#include "memory.h"
#include "queue.h"
#include "watchdog.h"
#include "words.h"

namespace lowgraph {
namespace {

using Operation = CUstreamBatchMemOpParams;

bool is_wide(const Operation& given) {
    return given.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
           given.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

bool writes(const ExecNode& node, uint64_t address) {
    const auto* const words = std::get_if<WordsWork>(&node.work);
    if (words == nullptr || !node.enabled) return false;
    for (const Operation& given : words->operations) {
        const bool is_write = given.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 ||
                              given.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
        if (is_write && given.writeValue.address == address) return true;
    }
    return false;
}

// Whether a path leads from one node of the image to a later one.
bool is_behind(const ExecImage& image, size_t earlier, size_t later) {
    std::vector<bool> behind(image.nodes.size());
    behind[earlier] = true;
    for (size_t place = earlier + 1; place <= later; ++place)
        for (const uint32_t before : image.nodes[place]->before)
            if (behind[before]) behind[place] = true;
    return behind[later];
}

std::string number(uint64_t value, const char* format) {
    char text[32];
    std::snprintf(text, sizeof text, format, static_cast<unsigned long long>(value));
    return text;
}

// "stream 0x55...: node 2 of a graph: "
std::string where_of(const ExecImage* image, size_t place) {
    std::string text = "stream " + number(running_stream(), "0x%llx") + ": ";
    if (image != nullptr) text += "node " + std::to_string(image->nodes[place]->id) + " of a graph: ";
    return text;
}

std::string condition_of(const Operation& wait) {
    const bool wide = is_wide(wait);
    const uint64_t value = wide ? wait.waitValue.value64 : wait.waitValue.value;
    const std::string told = number(value, "%llu"), mask = number(value, "0x%llx");
    switch (wait.waitValue.flags) {
        case CU_STREAM_WAIT_VALUE_EQ: return "to be " + told;
        case CU_STREAM_WAIT_VALUE_AND: return "to have a bit of " + mask;
        case CU_STREAM_WAIT_VALUE_NOR: return "to lack a bit of " + mask;
        default: return "to be at least " + told;
    }
}

std::string value_of(const Operation& wait) {
    const uint64_t address = wait.waitValue.address;
    std::string gone;
    if (!check_access(address, is_wide(wait) ? 8 : 4, &gone)) return "not there any more";
    return number(is_wide(wait)
                      ? __atomic_load_n(reinterpret_cast<const cuuint64_t*>(address), __ATOMIC_ACQUIRE)
                      : __atomic_load_n(reinterpret_cast<const cuuint32_t*>(address), __ATOMIC_ACQUIRE),
                  "%llu");
}

// A node of the same launch that would have stored a value, and why it has not.
std::string writer_text(const ExecImage& image, size_t place, uint64_t address) {
    for (size_t later = place + 1; later < image.nodes.size(); ++later) {
        if (!writes(*image.nodes[later], address)) continue;
        const std::string node = "node " + std::to_string(image.nodes[later]->id);
        if (is_behind(image, place, later))
            return "; " + node + " writes it, and comes behind this one: put it in front";
        if (checking())
            return "; " + node + " writes it, and the check build runs the nodes of a launch in one "
                   "order, in which that one is later: give it an edge to this one, or make it first";
    }
    return "";
}

std::string text_of(const Operation& wait, const ExecImage* image, size_t place) {
    char word[240], seconds[32];
    describe_address(wait.waitValue.address, word, sizeof word);
    std::snprintf(seconds, sizeof seconds, "%g", kernel_seconds());
    std::string text = where_of(image, place) + "a wait for the word " + word + " " +
                       condition_of(wait) + " was ended here: it is " +
                       value_of(wait) + ", and for " + seconds +
                       " s the device had nothing else to do (LOWGRAPH_HOST_KERNEL_SECONDS)";
    return image == nullptr ? text : text + writer_text(*image, place, wait.waitValue.address);
}

}  // namespace

CUresult end_wait(const WordsWork& work, size_t next, const ExecImage* image, size_t place) {
    const Operation& wait = work.operations[next];
    const std::lock_guard<std::mutex> hold(big_lock);  // the word stays where it is
    const std::string text = text_of(wait, image, place);
    if (checking()) {
        Site site;
        site.what = "wait";
        report(kind::endless_wait, site, nullptr, wait.waitValue.address, text);
        return CUDA_SUCCESS;
    }
    set_context_error(CUDA_ERROR_LAUNCH_TIMEOUT, text.c_str());
    return CUDA_ERROR_LAUNCH_TIMEOUT;
}

}  // namespace lowgraph
