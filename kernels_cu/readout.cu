// A linear layer with one output, float32, y[r] = x[r] . weight + bias, and binary cross-entropy of
// it, mean over the rows.
//
//   loss = average of max(y, 0) - y * target + log(1 + exp(-|y|))
//   dy[r] = (sigmoid(y[r]) - target[r]) * scale
//   dx[r,c] = dy[r] weight[c],  dweight[c] = sum over rows of dy[r] x[r,c],  dbias = sum of dy[r]
//
// Shapes: x, dx [rows,C]; y, targets [rows]; weight, dweight [C]; bias, dbias, loss [1]; partial
// [chunks,C] and behind it [chunks]: the sums over each chunk of rows, added up in order; losses
// [chunks], the same of the loss; ticket [1]. No sum is atomic.

#include "common/bce.cuh"     // element_loss, element_slope
#include "common/quad.cuh"    // quads
#include "common/unroll.cuh"  // UNROLL, IN_FLIGHT

#define THREADS 256
#define LANES 16                      // threads a row, forward
#define BLOCK_ROWS (THREADS / LANES)
#define STRETCH 64       // rows of which a block holds dy at one time
#define WARP_COLUMNS 16  // four quads, backward
#define ROW_LANES 8      // of a warp, backward
#define TILE (THREADS / 32 * WARP_COLUMNS)
#define MOST_CHUNKS 128
#define ALL_LANES 0xffffffffu

__device__ __forceinline__ bool whole_rows(const float* from, int C)
{
    return C % 4 == 0 && quad_aligned(from);
}

// A lane's part of a row's product; four loads are under way at once.
template <bool WHOLE>
__device__ __forceinline__ float part_of(const float* x, const float* weight, int lane, int C)
{
    float sum = 0.0f;
    for (int c = lane * 4; c < C; c += 2 * LANES * 4) {
        int d = c + LANES * 4;
        int valid = quad_valid(c, C), more = d < C ? quad_valid(d, C) : 0;
        float4 a = load_quad_of<WHOLE>(x + c, valid), e = quad_or_zeros<WHOLE>(x + d, more);
        float4 b = load_quad_of<WHOLE>(weight + c, valid);
        float4 f = quad_or_zeros<WHOLE>(weight + d, more);
        sum += dot_quad(a, b);
        sum += dot_quad(e, f);
    }
    return sum;
}

// The part of row `row`; nothing of those from `rows` on.
__device__ __forceinline__ float row_part(
    const float* x, const float* weight, long long row, long long rows, int lane, int C)
{
    if (row >= rows) return 0.0f;
    const float* from = x + row * C;
    bool whole = whole_rows(x, C) && quad_aligned(weight);
    return whole ? part_of<true>(from, weight, lane, C) : part_of<false>(from, weight, lane, C);
}

// y of a row, of all its parts.
__device__ __forceinline__ float output_of(float (*parts)[BLOCK_ROWS], int slot, float bias)
{
    float sum = bias;
    UNROLL for (int l = 0; l < LANES; l++) sum += parts[l][slot];
    return sum;
}

// Overwrites y.
// Launch: block 256, grid ceil(rows/16).
extern "C" __global__ void __launch_bounds__(256) readout_forward(
    float* __restrict__ y, const float* __restrict__ x, const float* __restrict__ weight,
    const float* __restrict__ bias, int rows, int C)
{
    __shared__ float parts[LANES][BLOCK_ROWS];
    int slot = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    long long first = (long long)blockIdx.x * BLOCK_ROWS;
    parts[lane][slot] = row_part(x, weight, first + slot, rows, lane, C);
    __syncthreads();
    int own = threadIdx.x;
    if (own < BLOCK_ROWS && first + own < rows) y[first + own] = output_of(parts, own, bias[0]);
}

// Adds the row lanes of a quad of columns, in their order; the result is row lane 0's.
__device__ __forceinline__ float add_row_lanes(float own, int quad)
{
    float sum = own;
    UNROLL for (int l = 1; l < ROW_LANES; l++) sum += __shfl_sync(ALL_LANES, own, quad + 4 * l);
    return sum;
}

// Overwrites dx of `count` rows, of which x is the first, and these rows' sums of dweight, in
// partial, and of dbias; or adds to the sums what was there. A warp has 16 columns, and no two a
// sum in common: nothing here waits for another warp.
template <bool WHOLE>
__device__ __forceinline__ void backward_rows(
    float* dx, float* partial, float* dbias, const float* dy, const float* x, const float* weight,
    int count, int C, bool adds)
{
    int quad = threadIdx.x % 4, row_lane = threadIdx.x % 32 / 4;
    for (int begin = threadIdx.x / 32 * WARP_COLUMNS; begin < C; begin += TILE) {
        int c = begin + quad * 4, valid = c < C ? quad_valid(c, C) : 0;
        float4 scale = quad_or_zeros<false>(weight + c, valid), sum = same_quad(0.0f);
        float total = 0.0f;
        for (int row = row_lane; row < count && valid; row += ROW_LANES) {
            float g = dy[row];
            size_t at = (size_t)row * C + c;
            sum = fma_quad(same_quad(g), load_quad_of<WHOLE>(x + at, valid), sum);
            total += g;
            store_quad(dx + at, multiply_quad(same_quad(g), scale), valid);
        }
        sum = make_float4(
            add_row_lanes(sum.x, quad), add_row_lanes(sum.y, quad), add_row_lanes(sum.z, quad),
            add_row_lanes(sum.w, quad));
        total = add_row_lanes(total, quad);
        if (row_lane > 0 || !valid) continue;
        store_quad(partial + c, adds ? add_quad(load_quad(partial + c, valid), sum) : sum, valid);
        if (c == 0) *dbias = adds ? *dbias + total : total;
    }
}

__device__ __forceinline__ double warp_total(double sum)
{
    UNROLL for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, step);
    return sum;
}

// Overwrites losses[block] with a warp's sum; the block that comes last adds those of all blocks,
// in their order, whichever it is, and overwrites loss. The last ticket sets the ticket back to 0.
__device__ __forceinline__ void finish_loss(
    float* loss, double* losses, unsigned* ticket, double sum, int lane, int rows)
{
    sum = warp_total(sum);
    int blocks = gridDim.x;
    bool last = false;
    if (lane == 0) {
        losses[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(ticket, blocks - 1) == blocks - 1;
        if (last) __threadfence();
    }
    if (!__shfl_sync(ALL_LANES, (int)last, 0)) return;
    __syncwarp();
    double all = 0.0;
    UNROLL for (int b = 0; b < MOST_CHUNKS; b += 32) {
        // Other blocks wrote them: read past L1.
        all += b + lane < blocks ? __ldcg(losses + b + lane) : 0.0;
    }
    all = warp_total(all);
    if (lane == 0) loss[0] = (float)(all / rows);
}

// Overwrites loss, dx and partial, and uses losses. A ninth warp has the loss: while the others
// make dx and the sums of the gradients, it waits for its fence and its ticket.
// Launch: block 288, grid `chunks`, up to 128; ticket 0 before the first launch, and no two
// launches at a time share it. No multiprocessor has two of 128 blocks: not told so, the
// compiler keeps to 56 registers, and spills.
extern "C" __global__ void __launch_bounds__(288, 1) readout_bce(
    float* __restrict__ loss, float* __restrict__ dx, float* __restrict__ partial, double* losses,
    unsigned* ticket, const float* __restrict__ x, const float* __restrict__ weight,
    const float* __restrict__ bias, const float* __restrict__ targets, int rows, int C,
    int chunk_rows, float scale)
{
    __shared__ float parts[LANES][BLOCK_ROWS];
    __shared__ float dy[STRETCH];
    int t = threadIdx.x, own = t - THREADS;  // own: of the ninth warp, at least 0
    long long first = (long long)blockIdx.x * chunk_rows, last = first + chunk_rows;
    if (last > rows) last = rows;
    float* sums = partial + (size_t)blockIdx.x * C;
    float* dbias = partial + (size_t)gridDim.x * C + blockIdx.x;
    bool whole = whole_rows(x, C);
    double sum = 0.0;
    for (long long from = first; from < last; from += STRETCH) {
        int count = last - from < STRETCH ? (int)(last - from) : STRETCH;
        for (int group = 0; group < count; group += BLOCK_ROWS) {
            int row = group + own;
            bool mine = own >= 0 && own < BLOCK_ROWS && row < count;
            // On their way while the other warps read x.
            float offset = mine ? bias[0] : 0.0f, target = mine ? targets[from + row] : 0.0f;
            int slot = t / LANES, lane = t % LANES;
            if (own < 0) {
                parts[lane][slot] = row_part(x, weight, from + group + slot, last, lane, C);
            }
            __syncthreads();
            if (mine) {
                float y = output_of(parts, own, offset);
                sum += element_loss(y, target);
                dy[row] = element_slope(y, target) * scale;
            }
            __syncthreads();
        }
        if (own >= 0) continue;
        const float* rows_x = x + from * C;
        float* rows_dx = dx + from * C;
        bool adds = from > first;
        if (whole) {
            backward_rows<true>(rows_dx, sums, dbias, dy, rows_x, weight, count, C, adds);
        } else {
            backward_rows<false>(rows_dx, sums, dbias, dy, rows_x, weight, count, C, adds);
        }
    }
    if (own >= 0) finish_loss(loss, losses, ticket, sum, own, rows);
}

// Overwrites dweight and dbias with the sums over chunks, or adds them where accumulate is 1.
// Launch: block 64, grid ceil((C+1)/64); a thread owns a column, the one behind the last dbias.
extern "C" __global__ void __launch_bounds__(64) readout_backward_final(
    float* __restrict__ dweight, float* __restrict__ dbias, const float* __restrict__ partial,
    int chunks, int C, int accumulate)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c > C) return;
    float* to = c < C ? dweight + c : dbias;
    const float* from = c < C ? partial + c : partial + (size_t)chunks * C;
    int stride = c < C ? C : 1;
    float sum = accumulate ? *to : 0.0f;
    IN_FLIGHT for (int chunk = 0; chunk < chunks; chunk++) sum += from[(size_t)chunk * stride];
    *to = sum;
}
