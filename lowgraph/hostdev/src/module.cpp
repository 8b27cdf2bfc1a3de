#include "module.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "check.h"
#include "context.h"
#include "elf_image.h"
#include "images.h"
#include "memory.h"
#include "shared_gaps.h"

namespace lowgraph {
namespace {

struct Table {
    std::unordered_map<const Module*, std::unique_ptr<Module>> modules;
    std::unordered_map<const Function*, std::unique_ptr<Function>>
        functions;  // of unloaded ones too
};

Table& table() {
    static Table* const instance = new Table;
    return *instance;
}

bool write_all(int file, const char* bytes, size_t count) {
    while (count != 0) {
        const ssize_t written = write(file, bytes, count);
        if (written <= 0) return false;
        bytes += written;
        count -= static_cast<size_t>(written);
    }
    return true;
}

// An image calls back into this library (barriers, warp operations), which may have been loaded
// without RTLD_GLOBAL: by a linked program's loader, or by someone's plain dlopen.
void make_self_global() {
    Dl_info self{};
    if (dladdr(reinterpret_cast<void*>(&make_self_global), &self) != 0)
        dlopen(self.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

void* open_image(const void* image, size_t bytes, int* file) {
    *file = memfd_create("lowgraph-module", MFD_CLOEXEC);
    if (*file < 0) return nullptr;
    void* library = nullptr;
    if (write_all(*file, static_cast<const char*>(image), bytes)) {
        make_self_global();
        // With the process's number instead of "self", a debugger finds the image too.
        const std::string path =
            "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(*file);
        library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    }
    if (library == nullptr) close(*file);
    return library;
}

// What an image says of itself (hostdev/image.py). False, and told: it has checks, and nothing
// checks here, so that it would be slow for nothing and look as if nothing had been found.
bool read_facts(Module& module) {
    module.checks = dlsym(module.library, "lowgraph_image_checks") != nullptr;
    const void* source = dlsym(module.library, "lowgraph_image_source");
    if (source != nullptr)
        module.source = static_cast<const char*>(source) + std::strlen("lowgraph source ");
    if (!module.checks || checking()) return true;
    const std::string title = module.path.empty() ? "a module image" : module.path;
    note(title + " was compiled with checks, and this process runs without");
    std::fprintf(stderr,
                 "lowgraph host device: %s was compiled with checks (compile --check): run the "
                 "program by `python -m lowgraph check`, or compile the image without\n",
                 title.c_str());
    return false;
}

}  // namespace

CUresult load_module(const void* image, const std::string& path, Context* context, Module** out) {
    if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
    size_t bytes = 0;
    if (const CUresult code = measure_image(image, &bytes); code != CUDA_SUCCESS) return code;
    auto module = std::make_unique<Module>();
    module->context = context;
    module->kernels = exported_kernels(image);
    module->library = open_image(image, bytes, &module->file);
    if (module->library == nullptr) {
        const char* why = dlerror();
        note(std::string("module image not loaded: ") + (why != nullptr ? why : "no memory file"));
        return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
    }
    module->path = path;
    if (!read_facts(*module)) {
        dlclose(module->library);
        close(module->file);
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    add_image(module->library, image, bytes);
    *out = module.get();
    table().modules[*out] = std::move(module);
    return CUDA_SUCCESS;
}

bool read_image_file(const char* path, std::string* image) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return false;
    image->assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    image->append(sizeof(Elf64_Ehdr), '\0');  // a header is read before its size is known
    return true;
}

void unload_module(Module& module) {
    for (const auto& [name, function] : module.functions) function->module = nullptr;
    for (const uint64_t address : module.globals) unregister_global(address);
    if (!checking()) {  // else findings may name its code
        remove_image(module.library);
        dlclose(module.library);
        close(module.file);
    }
    table().modules.erase(&module);
}

Module* find_module(CUmodule handle) {
    const auto spot = table().modules.find(reinterpret_cast<const Module*>(handle));
    return spot == table().modules.end() ? nullptr : spot->second.get();
}

Function* get_function(Module& module, const std::string& name) {
    const auto known = module.functions.find(name);
    if (known != module.functions.end()) return known->second;
    if (!std::binary_search(module.kernels.begin(), module.kernels.end(), name)) return nullptr;
    const void* entry = dlsym(module.library, ("lowgraph_kernel_" + name).c_str());
    if (entry == nullptr) return nullptr;
    auto function = std::make_unique<Function>();
    function->name = name;
    function->module = &module;
    function->entry = static_cast<const KernelEntry*>(entry);
    function->gaps = shared_gaps(*function->entry);
    Function* made = function.get();
    table().functions[made] = std::move(function);
    return module.functions[name] = made;
}

std::vector<std::string> kernel_names(const Module& module) { return module.kernels; }

bool get_global(Module& module, const std::string& name, uint64_t* address, size_t* bytes) {
    void* start = dlsym(module.library, name.c_str());
    if (start == nullptr) return false;
    Dl_info where{};
    void* found = nullptr;
    if (dladdr1(start, &where, &found, RTLD_DL_SYMENT) == 0) return false;
    const auto* symbol = static_cast<const ElfW(Sym)*>(found);
    if (symbol == nullptr || ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT) return false;
    *address = reinterpret_cast<uint64_t>(start);
    *bytes = symbol->st_size;
    register_global(*address, *bytes, name);
    module.globals.push_back(*address);
    return true;
}

Function* find_function(CUfunction handle) {
    const auto spot = table().functions.find(reinterpret_cast<const Function*>(handle));
    if (spot == table().functions.end() || spot->second->module == nullptr) return nullptr;
    return spot->second.get();
}

void destroy_modules(const Context* context) {
    std::vector<Module*> gone;
    for (const auto& [key, module] : table().modules)
        if (module->context == context) gone.push_back(module.get());
    for (Module* module : gone) unload_module(*module);
}

}  // namespace lowgraph
