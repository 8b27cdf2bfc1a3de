#include "images.h"

#include <cxxabi.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "engine.h"

namespace lowgraph {
namespace {

struct Images {
    std::mutex lock;
    std::map<uint64_t, std::pair<void*, std::unique_ptr<Image>>> by_start;  // and its library
};

Images& images() {
    static Images* const instance = new Images;  // leaked: kernels may outlive static destructors
    return *instance;
}

template <typename T>
const T* table(const Image& image, uint64_t offset) {
    return reinterpret_cast<const T*>(image.bytes.data() + offset);
}

// Calls visit(section, name) for each section of the file.
template <typename Visit>
void for_each_section(const Image& image, Visit visit) {
    const auto* header = table<Elf64_Ehdr>(image, 0);
    const auto* sections = table<Elf64_Shdr>(image, header->e_shoff);
    const char* names = table<char>(image, sections[header->e_shstrndx].sh_offset);
    for (int i = 0; i < header->e_shnum; ++i) visit(sections[i], names + sections[i].sh_name);
}

void read_segments(Image& image) {
    const auto* header = table<Elf64_Ehdr>(image, 0);
    const auto* segments = table<Elf64_Phdr>(image, header->e_phoff);
    image.start = UINT64_MAX;
    for (int i = 0; i < header->e_phnum; ++i) {
        const Elf64_Phdr& segment = segments[i];
        if (segment.p_type == PT_TLS) image.shared_bytes = segment.p_memsz;
        if (segment.p_type != PT_LOAD) continue;
        image.start = std::min(image.start, image.bias + segment.p_vaddr);
        image.end = std::max(image.end, image.bias + segment.p_vaddr + segment.p_memsz);
    }
}

void read_symbols(Image& image, const Elf64_Shdr& section) {
    const auto* sections = table<Elf64_Shdr>(image, table<Elf64_Ehdr>(image, 0)->e_shoff);
    const auto* symbols = table<Elf64_Sym>(image, section.sh_offset);
    const char* names = table<char>(image, sections[section.sh_link].sh_offset);
    for (uint64_t i = 0; i < section.sh_size / sizeof(Elf64_Sym); ++i) {
        const Elf64_Sym& symbol = symbols[i];
        const int type = ELF64_ST_TYPE(symbol.st_info);
        const bool known = symbol.st_shndx != SHN_UNDEF && symbol.st_size != 0;
        Variable variable{symbol.st_value, symbol.st_size, names + symbol.st_name};
        if (!known || (type != STT_TLS && type != STT_OBJECT)) continue;
        if (type == STT_OBJECT) {
            variable.value += image.bias;
            image.data.push_back(std::move(variable));
        } else if (variable.symbol.find("lowgraph_shared_tail") != std::string::npos) {
            image.probe = symbol.st_value;
        } else {
            image.shared.push_back(std::move(variable));
        }
    }
}

void sort(std::vector<Variable>& variables) {
    std::sort(variables.begin(), variables.end(),
              [](const Variable& a, const Variable& b) { return a.value < b.value; });
}

std::string_view debug_lines(const Image& image) {
    std::string_view found;
    for_each_section(image, [&](const Elf64_Shdr& section, const std::string& name) {
        if (name != ".debug_line" || (section.sh_flags & SHF_COMPRESSED)) return;
        found = std::string_view(image.bytes).substr(section.sh_offset, section.sh_size);
    });
    return found;
}

}  // namespace

std::string Variable::name() const {
    int status = 0;
    char* plain = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
    std::string text = status == 0 ? plain : symbol;
    std::free(plain);
    const size_t scope = text.rfind("::");
    return scope == std::string::npos ? text : text.substr(scope + 2);
}

bool Variable::is_foreign(const char* kernel) const {
    const std::string own = "_ZZ" + std::to_string(std::strlen(kernel)) + kernel + "E";
    if (symbol.rfind(own, 0) == 0) return false;
    const size_t digits = symbol.find_first_not_of("0123456789", 3);
    if (symbol.rfind("_ZZ", 0) != 0 || digits == 3 || digits == std::string::npos) return false;
    const size_t length = std::stoul(symbol.substr(3, digits - 3));
    // A plain name and nothing else before the E: a kernel, whose name has no argument types.
    return digits + length < symbol.size() && symbol[digits + length] == 'E';
}

void add_image(void* library, const void* file, size_t bytes) {
    auto image = std::make_unique<Image>();
    image->bytes.assign(static_cast<const char*>(file), bytes);
    image->bias = static_cast<const link_map*>(library)->l_addr;
    read_segments(*image);
    for_each_section(*image, [&](const Elf64_Shdr& section, const char* name) {
        if (section.sh_type == SHT_SYMTAB) read_symbols(*image, section);
        if (std::string_view(name) != "lowgraph_hooks") return;
        image->hooks_start = image->bias + section.sh_addr;
        image->hooks_end = image->hooks_start + section.sh_size;
    });
    sort(image->shared);
    sort(image->data);
    const std::lock_guard<std::mutex> hold(images().lock);
    const uint64_t start = image->start;
    images().by_start[start] = {library, std::move(image)};
}

void remove_image(void* library) {
    const std::lock_guard<std::mutex> hold(images().lock);
    std::erase_if(images().by_start,
                  [library](const auto& entry) { return entry.second.first == library; });
}

Image* image_of(uint64_t address) {
    const std::lock_guard<std::mutex> hold(images().lock);
    auto spot = images().by_start.upper_bound(address);
    if (spot == images().by_start.begin()) return nullptr;
    Image* image = std::prev(spot)->second.second.get();
    return address < image->end ? image : nullptr;
}

// Under the lock.
const LineTable& lines_of(Image& image) {
    if (!image.lines) image.lines = std::make_unique<LineTable>(debug_lines(image));
    return *image.lines;
}

SourceLine source_line(uint64_t pc) {
    Image* image = image_of(pc);
    if (image == nullptr) return {};
    const std::lock_guard<std::mutex> hold(images().lock);
    return lines_of(*image).find(pc - image->bias);
}

bool is_users_code(uint64_t pc) {
    Image* image = image_of(pc);
    if (image == nullptr) return false;
    const std::lock_guard<std::mutex> hold(images().lock);
    return lines_of(*image).is_users(pc - image->bias);
}

KernelCode kernel_code(uint64_t address) {
    const Image* image = image_of(address);
    if (image == nullptr) return {};
    return {image->start, image->end, image->hooks_start, image->hooks_end};
}

void place_of_code(uint64_t pc, char* out, size_t n) {
    const SourceLine found = source_line(pc);
    const std::string file = found.file.substr(found.file.rfind('/') + 1);
    if (file.empty()) out[0] = '\0';
    else std::snprintf(out, n, "%s:%d", file.c_str(), found.line);
}

}  // namespace lowgraph
