// Cooperative groups: NVRTC takes the toolkit's header, the host device its own of the same name.
// Launch: one block of n threads, a multiple of the tile where a tile is used.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

struct Wide {
    double a, b;
};

// out: [threads of the grid, 6]: rank and size of the block, thread and block index along x, rank
// in the grid, blocks of the grid.
extern "C" __global__ void block_and_grid(int* out) {
    cg::thread_block block = cg::this_thread_block();
    cg::grid_group grid = cg::this_grid();
    int* row = out + 6 * (int)grid.thread_rank();
    block.sync();
    row[0] = (int)block.thread_rank();
    row[1] = (int)block.size();
    row[2] = (int)block.thread_index().x;
    row[3] = (int)block.group_index().x;
    row[4] = (int)grid.thread_rank();
    row[5] = (int)(grid.size() / block.size());
    cg::sync(block);
}

// out: [n, 12], x: [n]. Everything a tile of `lanes` threads offers.
template <unsigned lanes>
__device__ void tile_operations(int* out, const int* x) {
    auto tile = cg::tiled_partition<lanes>(cg::this_thread_block());
    int t = threadIdx.x, v = x[t], equal = -1, *row = out + 12 * t;
    tile.sync();
    row[0] = (int)tile.thread_rank();
    row[1] = (int)tile.size();
    row[2] = (int)tile.meta_group_rank();
    row[3] = tile.shfl(v, lanes / 2);
    row[4] = tile.shfl_up(v, 1);
    row[5] = tile.shfl_down(v, 1);
    row[6] = tile.shfl_xor(v, lanes - 1);
    row[7] = (int)tile.ballot(v & 1);
    row[8] = tile.any(v & 1) != 0;
    row[9] = tile.all(v & 1) != 0;
    row[10] = (int)tile.match_any(v);
    row[11] = (int)tile.match_all(v & 0, equal) + equal;
}
extern "C" __global__ void tile_1(int* out, const int* x) { tile_operations<1>(out, x); }
extern "C" __global__ void tile_2(int* out, const int* x) { tile_operations<2>(out, x); }
extern "C" __global__ void tile_4(int* out, const int* x) { tile_operations<4>(out, x); }
extern "C" __global__ void tile_8(int* out, const int* x) { tile_operations<8>(out, x); }
extern "C" __global__ void tile_16(int* out, const int* x) { tile_operations<16>(out, x); }
extern "C" __global__ void tile_32(int* out, const int* x) { tile_operations<32>(out, x); }

// out: [n, 9]: reductions over tiles of 8 (sum, least, greatest, and, or, xor), inclusive and
// exclusive sums over tiles of 16, rank of a tile of 4 within one of 16.
extern "C" __global__ void tile_reductions(int* out, const int* x) {
    auto block = cg::this_thread_block();
    auto eight = cg::tiled_partition<8>(block);
    cg::thread_block_tile<16, cg::thread_block> sixteen = cg::tiled_partition<16>(block);
    auto four = cg::tiled_partition<4>(sixteen);
    int v = x[threadIdx.x], *row = out + 9 * threadIdx.x;
    row[0] = cg::reduce(eight, v, cg::plus<int>());
    row[1] = cg::reduce(eight, v, cg::less<int>());
    row[2] = cg::reduce(eight, v, cg::greater<int>());
    row[3] = cg::reduce(eight, v, cg::bit_and<int>());
    row[4] = cg::reduce(eight, v, cg::bit_or<int>());
    row[5] = cg::reduce(eight, v, cg::bit_xor<int>());
    row[6] = cg::inclusive_scan(sixteen, v, cg::plus<int>());
    row[7] = cg::exclusive_scan(sixteen, v, cg::plus<int>());
    row[8] = (int)four.meta_group_rank();
}

// A sum of doubles over a whole warp, and a struct of 16 bytes from the last lane. out: [n, 3].
extern "C" __global__ void wide_values(double* out, const double* x) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    double v = x[threadIdx.x], *row = out + 3 * threadIdx.x;
    row[0] = cg::reduce(warp, v, cg::plus<double>());
    Wide last = warp.shfl(Wide{v, -v}, 31);
    row[1] = last.a;
    row[2] = last.b;
}

// Lanes of half a warp in two parts by parity of x, lanes of a warp in parts by x. out: [n, 6] =
// size, rank and sum of x of the one; size, rank, and x plus a ballot of the other.
extern "C" __global__ void partitions(int* out, const int* x) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int v = x[threadIdx.x], *row = out + 6 * threadIdx.x;
    auto half = cg::tiled_partition<16>(warp);
    auto part = cg::binary_partition(half, (v & 1) != 0);
    row[0] = (int)part.size();
    row[1] = (int)part.thread_rank();
    row[2] = cg::reduce(part, v, cg::plus<int>());
    auto same = cg::labeled_partition(warp, v);
    row[3] = (int)same.num_threads();
    row[4] = (int)same.thread_rank();
    row[5] = same.shfl(v, same.size() - 1) + (int)same.ballot(1);
}

// Each group of lanes that run together takes its places at once. count: [1]; places: [n].
extern "C" __global__ void aggregated_places(int* count, int* places, const int* x, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n || x[t] == 0) return;
    cg::coalesced_group active = cg::coalesced_threads();
    int base = 0;
    if (active.thread_rank() == 0) base = atomicAdd(count, (int)active.size());
    places[t] = active.shfl(base, 0) + (int)active.thread_rank();
}
