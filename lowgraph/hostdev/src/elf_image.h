// A module image is a pointer without a length: what its ELF headers say about it.
#pragma once
#include <string>
#include <vector>

#include "entry.h"

namespace lowgraph {

// SUCCESS and the image's size for a shared object of this machine; 209 for GPU code; 200 for
// neither.
CUresult measure_image(const void* image, size_t* bytes);

// Names of the kernels that the image exports, sorted, without "lowgraph_kernel_".
std::vector<std::string> exported_kernels(const void* image);

}  // namespace lowgraph
