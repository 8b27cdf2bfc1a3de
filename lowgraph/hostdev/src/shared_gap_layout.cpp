// Where the gaps of an image are: between the variables of its thread-local memory.
#include <algorithm>

#include "images.h"
#include "shared_gaps.h"

namespace lowgraph {
namespace {

constexpr uint64_t smallest_gap = 256;  // RED_ZONE of assembly.py
constexpr uint64_t tail_share = 1024;   // of the tail, which lies behind the last variable's own gap

std::string title(const Variable* variable, const char* kernel) {
    if (variable == nullptr || variable->is_foreign(kernel)) return "";
    return variable->name();
}

}  // namespace

std::optional<std::vector<SharedGap>> shared_gaps(const KernelEntry& kernel) {
    const Image* image = image_of(reinterpret_cast<uint64_t>(kernel.run));
    if (image == nullptr) return {};
    std::vector<SharedGap> gaps;
    uint64_t from = 0;
    const Variable* behind = nullptr;
    const auto add = [&](uint64_t to, const Variable* before) {
        if (to < from + smallest_gap) return false;
        const int64_t offset = static_cast<int64_t>(from) - static_cast<int64_t>(image->probe);
        const uint64_t bytes = std::min(to - from, largest_gap);
        SharedGap gap{offset, static_cast<uint32_t>(bytes), title(behind, kernel.name),
                      title(before, kernel.name)};
        if (!gap.behind.empty() || !gap.before.empty()) gaps.push_back(std::move(gap));
        return true;
    };
    for (const Variable& variable : image->shared) {
        if (!add(variable.value, &variable)) return {};
        from = variable.value + variable.bytes;
        behind = &variable;
    }
    if (!add(image->probe + tail_share, nullptr)) return {};
    return gaps;
}

}  // namespace lowgraph
