// Figures of the one device: the limits that attributes report and launches are held to.
#pragma once
#include <cuda.h>

namespace lowgraph {

constexpr int driver_version = 13000;  // of the driver whose answers were recorded

constexpr int max_block_threads = 1024;
constexpr int max_block_dim[3] = {1024, 1024, 64};
constexpr int max_grid_dim[3] = {2147483647, 65535, 65535};
constexpr int default_shared_limit = 48 << 10;  // bytes a block, static and dynamic
constexpr int max_window_bytes = 128 << 20;     // of a stream's access policy window
constexpr int shared_limit = 227 << 10;         // after cuFuncSetAttribute
constexpr int shared_per_multiprocessor = 228 << 10;
constexpr int threads_per_multiprocessor = 2048;
constexpr int blocks_per_multiprocessor = 32;
constexpr int max_cluster_blocks = 8;
constexpr int memory_domains = 4;
constexpr int least_priority = 0, greatest_priority = -5;  // of streams; kept, not acted on

int multiprocessors();  // the machine's cores
int device_attribute(CUdevice_attribute attribute);

}  // namespace lowgraph
