// What the module calls and the library calls do alike: with one device a CUlibrary is its CUmodule
// and a CUkernel its CUfunction. Need big_lock.
#pragma once
#include "module.h"

namespace lowgraph {

// Into a context, or, as a library, into none. path: of the image's file, if it has one.
CUresult load_image(const void* image, Context* context, CUmodule* out,
                    const std::string& path = {});
CUresult load_image_file(const char* path, Context* context, CUmodule* out);
CUresult unload(Entry& entry, CUmodule handle);  // waits for the device
CUresult name_kernel(CUmodule handle, const char* name, CUfunction* out);
CUresult count_kernels(CUmodule handle, unsigned* count);
CUresult list_kernels(CUmodule handle, unsigned room, CUfunction* out);
CUresult name_global(CUmodule handle, const char* name, CUdeviceptr* address, size_t* bytes);

CUresult name_of(CUfunction handle, const char** name);
CUresult home_of(CUfunction handle, CUmodule* module);
CUresult parameter_of(CUfunction handle, size_t index, size_t* offset, size_t* size);
CUresult attribute_of(CUfunction handle, CUfunction_attribute attribute, int* value);
CUresult set_attribute_of(CUfunction handle, CUfunction_attribute attribute, int value);
CUresult prefer_cache(CUfunction handle);  // a preference: only the handle is looked at

}  // namespace lowgraph
