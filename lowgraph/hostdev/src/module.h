// Modules: ELF images made by hostdev.kernel_build, and the kernels found in them.
#pragma once
#include <optional>

#include "engine.h"
#include "entry.h"

namespace lowgraph {

struct Module {
    Context* context = nullptr;  // null: a library's, which every context can use
    void* library = nullptr;  // from dlopen; null once unloaded
    int file = -1;            // the memfd: kept open, since dlopen tells images apart by its name
    bool checks = false;      // compiled for the check build
    std::string path;         // of the image's file; empty: it was given as bytes
    std::string source;       // that it was compiled from; empty: not known
    std::unordered_map<std::string, Function*> functions;  // those asked for
    std::vector<std::string> kernels;                      // all, sorted
    std::vector<uint64_t> globals;                         // addresses registered with memory.h
};

// A CUfunction (and, unlike on a GPU, a CUkernel too). Never freed, so that a graph node or a
// handle that outlives its module is seen (`module` is null) instead of followed.
struct Function {
    std::string name;
    Module* module = nullptr;  // null: its module was unloaded
    const KernelEntry* entry = nullptr;
    std::optional<unsigned> max_dynamic_shared;  // set by cuFuncSetAttribute; else what is left of the default
    bool resident = false;
    std::optional<std::vector<SharedGap>> gaps;  // beside its static shared memory

    size_t arg_bytes() const;  // all parameters at their offsets
    unsigned dynamic_shared_limit() const;  // bytes that a launch may ask for
    bool takes_shared(size_t dynamic) const;
};

// INVALID_IMAGE for what is no image at all, NO_BINARY_FOR_GPU for a GPU's cubin, fat binary or
// PTX, and for an image with checks where nothing checks. path: of its file, empty without one.
CUresult load_module(const void* image, const std::string& path, Context* context, Module** module);
bool read_image_file(const char* path, std::string* image);       // false: it cannot be read
void unload_module(Module& module);                               // nothing may be in flight
Module* find_module(CUmodule handle);                             // null: not a loaded module
Function* get_function(Module& module, const std::string& name);  // null: no such kernel
std::vector<std::string> kernel_names(const Module& module);      // sorted
// A __device__ or __constant__ variable; false: there is none of that name.
bool get_global(Module& module, const std::string& name, uint64_t* address, size_t* bytes);
Function* find_function(CUfunction handle);  // null: not a kernel of a loaded module
CUresult read_attribute(const Function& function, CUfunction_attribute attribute, int* value);
CUresult write_attribute(Function& function, CUfunction_attribute attribute, int value);
CUresult read_parameter(const Function& function, size_t index, size_t* offset, size_t* size);
// The context of a kernel's module; null: a library's, or gone.
const Context* home_of(const KernelWork& kernel);
// Of one context both, or of none in particular: a library's kernel, memory of a pool.
bool share_context(const Context* now, const Context* next);
void destroy_modules(const Context* context);  // context teardown; null: the libraries

}  // namespace lowgraph
