#include "unchecked.h"

#include <map>
#include <tuple>

#include "check_bits.h"
#include "control.h"
#include "json_text.h"

namespace lowgraph {
namespace {

struct Unchecked {
    std::mutex lock;
    std::map<std::tuple<std::string, std::string, std::string>, uint64_t> launches;
};

Unchecked& unchecked() {
    static auto* const instance = new Unchecked;
    return *instance;
}

}  // namespace

void note_unchecked(const Function& function) {
    const Module& home = *function.module;
    const std::lock_guard<std::mutex> hold(unchecked().lock);
    ++unchecked().launches[{function.name, home.path, home.source}];
    stop_device_bits();
}

}  // namespace lowgraph

using namespace lowgraph;

size_t lowgraph_host_unchecked(char* out, size_t size) {
    std::string text;
    {
        const std::lock_guard<std::mutex> hold(unchecked().lock);
        for (const auto& [which, count] : unchecked().launches) {
            const auto& [kernel, image, source] = which;
            text += "{\"kernel\": " + quoted(kernel) + ", \"image\": " + quoted_or_null(image) +
                    ", \"source\": " + quoted_or_null(source) +
                    ", \"launches\": " + std::to_string(count) + "}\n";
        }
    }
    return give_text(text, out, size);
}
