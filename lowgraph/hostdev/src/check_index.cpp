#include "check_index.h"

#include "check_findings.h"
#include "images.h"

namespace lowgraph {
namespace {

struct Held {
    bool any = false;
    Site site;
    std::string text;
};

Held& held() {
    static auto* const instance = new Held;  // one launch runs at a time, on one OS thread
    return *instance;
}

}  // namespace

void hold_index(const char* file, int line, const char* type, int64_t index) {
    Held& all = held();
    const bool same_line = all.any && all.site.line == line;
    if (all.any && !same_line) tell_index();
    const std::string text = "index " + std::to_string(index) + " of an array of type " + type;
    all.text = same_line ? all.text + ", " + text : text;
    all.any = true;
    all.site = here(file, line);
}

void tell_local_index(const char* file, int line, const char* type, int64_t index) {
    tell_index();
    const std::string both = type;
    const size_t space = both.find(' ');
    const std::string name = both.substr(0, space);
    report_named(kind::out_of_bounds, here(file, line), name,
                 "index " + std::to_string(index) + " of the local array '" + name + "' of type " +
                     both.substr(space + 1));
}

std::string index_of(const Access& access) {
    Held& all = held();
    if (!all.any) return "";
    if (source_line(access.pc - 1).line != all.site.line) {
        tell_index();
        return "";
    }
    all.any = false;
    return all.text;
}

void tell_index() {
    Held& all = held();
    if (!all.any) return;
    all.any = false;
    report_named(kind::out_of_bounds, all.site, "", all.text);
}

}  // namespace lowgraph
