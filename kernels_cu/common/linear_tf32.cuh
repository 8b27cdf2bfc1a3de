// A block's tile of a product of float matrices in TF32 by tensor cores, for linear_tf32.cu.
//
// product[i,j] = sum over d of a[i,d] b[j,d]: both operands are lines over the summed depth, or
// TURNED, stored [d][i]. Eight warps sum the whole tile, each every eighth slice of the depth, and
// the block adds their sums in the order of the warps. So no number is wanted by two warps: it goes
// from memory to the lane that multiplies it, past shared memory, and all those of a slice are
// under way at once.
// Which line of a tile is which row of a fragment, and which depth which column, is free as long as
// all agree. Here a lane, with g = lane / 4 and t = lane % 4, has lines LINES g .. +LINES at depths
// 4t .. 4t+3 of each sixteen: neighbours in memory as they are stored and turned, and so are the
// numbers of the result that it gets.
#pragma once

#include "common/mma.cuh"     // products of fragments
#include "common/quad.cuh"    // quads
#include "common/unroll.cuh"  // VECTOR

#define WARPS 8
#define MOST_QUADS 8  // of a result, in a lane
#define MOST_LINES 32

// A tile of 8 LINES lines, from `first`, of the lines up to `end` of a matrix. pitch: from one row
// of memory to the next. What lies outside reads as zeros. WHOLE: rows of memory are a multiple of
// four numbers long, and begin at multiples of 16 bytes.
template <int LINES_, bool TURNED_, bool WHOLE_>
struct Operand {
    static const int LINES = LINES_;
    static const int QUADS = TURNED_ ? 4 : LINES_;  // that a lane loads of sixteen depths
    static const bool TURNED = TURNED_, WHOLE = WHOLE_;
    const float* at;
    int pitch;
    int first;
    int end;
};

// What a warp has summed. lines: of the lane's lines of a alone, at its own depths, not rounded.
template <class A, class B>
struct Sums {
    float tile[A::LINES / 2][B::LINES][4];
    float lines[A::LINES];
};

struct Room {
    float4 quads[WARPS][MOST_QUADS][32];
    float lines[WARPS][MOST_LINES];
};

// How many of i .. i+3 lie before `end`, at most 0 if none.
__device__ __forceinline__ int valid_of(int i, int end)
{
    return end - i < 4 ? end - i : 4;
}

// Words where rows are not whole: four loads under way at once, without a branch between them.
template <bool WHOLE>
__device__ __forceinline__ float4 load_valid(const float* from, int valid)
{
    if (WHOLE) return valid > 0 ? load_whole_quad(from) : same_quad(0.0f);
    return make_float4(
        valid > 0 ? from[0] : 0.0f, valid > 1 ? from[1] : 0.0f, valid > 2 ? from[2] : 0.0f,
        valid > 3 ? from[3] : 0.0f);
}

// The lane's numbers of sixteen depths from `depth` on, at `at` in the place of of.at: a line's
// depths, or if TURNED a depth's lines. Zeros past the depth's end; past the last line anything,
// for nobody sees what it gives: fewer conditions, and so fewer instructions before a load.
template <class Of>
__device__ __forceinline__ void load_sixteen(
    float (&numbers)[Of::QUADS][4], const Of& of, const float* at, int depth, int depth_end)
{
    int line = of.first + Of::LINES * (threadIdx.x % 32 / 4), last = of.end - (Of::TURNED ? 4 : 1);
    depth += threadIdx.x % 4 * 4;
    bool clamps = !Of::TURNED || Of::WHOLE;
    int valid = Of::TURNED ? (Of::WHOLE ? 4 : valid_of(line, of.end)) : valid_of(depth, depth_end);
    VECTOR for (int i = 0; i < Of::QUADS; i++) {
        int own = line + (Of::TURNED ? 0 : i);
        if (clamps && own > last) own = last;
        int row = Of::TURNED ? depth + i : own, column = Of::TURNED ? own : depth;
        int exist = !Of::TURNED || row < depth_end ? valid : 0;
        float4 quad = load_valid<Of::WHOLE>(at + (row * of.pitch + column), exist);
        numbers[i][0] = quad.x;
        numbers[i][1] = quad.y;
        numbers[i][2] = quad.z;
        numbers[i][3] = quad.w;
    }
}

template <class Of>
__device__ __forceinline__ float number_at(
    const float (&numbers)[Of::QUADS][4], int line, int depth)
{
    return Of::TURNED ? numbers[depth][line] : numbers[line][depth];
}

template <int QUADS>
__device__ __forceinline__ void round_numbers(float (&numbers)[QUADS][4])
{
    VECTOR for (int e = 0; e < QUADS * 4; e++) {
        numbers[e / 4][e % 4] = rounded_tf32(numbers[e / 4][e % 4]);
    }
}

// A NaN stays one.
template <int QUADS>
__device__ __forceinline__ void close_gates(
    float (&numbers)[QUADS][4], const float (&gates)[QUADS][4])
{
    VECTOR for (int e = 0; e < QUADS * 4; e++) {
        if (gates[e / 4][e % 4] <= 0.0f) numbers[e / 4][e % 4] = 0.0f;
    }
}

template <class A, class B>
__device__ __forceinline__ void add_sixteen(
    Sums<A, B>& sums, float (&a)[A::QUADS][4], float (&b)[B::QUADS][4])
{
    VECTOR for (int line = 0; line < A::LINES; line++) {
        VECTOR for (int d = 0; d < 4; d++) sums.lines[line] += number_at<A>(a, line, d);
    }
    round_numbers(a);
    round_numbers(b);
    VECTOR for (int d = 0; d < 4; d += 2) {
        VECTOR for (int i = 0; i < A::LINES; i += 2) {
            float left[4] = {number_at<A>(a, i, d), number_at<A>(a, i + 1, d),
                             number_at<A>(a, i, d + 1), number_at<A>(a, i + 1, d + 1)};
            VECTOR for (int j = 0; j < B::LINES; j++) {
                float low = number_at<B>(b, j, d), high = number_at<B>(b, j, d + 1);
                multiply_add_tf32(sums.tile[i / 2][j], left, low, high);
            }
        }
    }
}

// What a warp multiplies at once, SIXTEENS times 16 deep. GATED: a's numbers count as 0 where
// `gates`, which lies as a does, is not positive.
template <int SIXTEENS, bool GATED, class A, class B>
struct Slice {
    static const int DEEP = 16 * SIXTEENS;
    float a[SIXTEENS][A::QUADS][4];
    float gates[GATED ? SIXTEENS : 1][A::QUADS][4];
    float b[SIXTEENS][B::QUADS][4];

    __device__ __forceinline__ static int first_depth()
    {
        return threadIdx.x / 32 * DEEP;
    }

    __device__ __forceinline__ void load(
        const A& from_a, const float* from_gates, const B& from_b, int depth, int depth_end)
    {
        VECTOR for (int s = 0; s < SIXTEENS; s++) {
            int at = depth + 16 * s;
            load_sixteen(a[s], from_a, from_a.at, at, depth_end);
            if (GATED) load_sixteen(gates[s], from_a, from_gates, at, depth_end);
            load_sixteen(b[s], from_b, from_b.at, at, depth_end);
        }
    }

    __device__ __forceinline__ void add_to(Sums<A, B>& sums)
    {
        VECTOR for (int s = 0; s < SIXTEENS; s++) {
            if (GATED) close_gates(a[s], gates[s]);
            add_sixteen(sums, a[s], b[s]);
        }
    }
};

// The warp's share of the product over depth 0 .. depth_end, whose first slice is loaded. The
// barrier keeps all loads before the first product: else the compiler saves registers and
// predicates by loading some of them late, and each such group is another wait. It orders only
// loads that may see another thread's stores, so no kernel here says __restrict__.
template <int SIXTEENS, bool GATED, class A, class B>
__device__ __forceinline__ void multiply_slices(
    Sums<A, B>& sums, Slice<SIXTEENS, GATED, A, B>& slice, const A& a, const float* gates,
    const B& b, int depth_end)
{
    int depth = slice.first_depth();
    while (true) {
        __syncwarp();
        slice.add_to(sums);
        depth += WARPS * slice.DEEP;
        if (depth >= depth_end) break;
        slice.load(a, gates, b, depth, depth_end);
    }
}

// Four neighbours of the product, which thread `threadIdx.x` finishes; valid: how many exist.
struct Place {
    int row;
    int column;
    int valid;
};

template <class A, class B>
__device__ __forceinline__ Place own_place(const A& a, const B& b)
{
    const int across = B::LINES / 2;  // quads of a lane in a row
    int quad = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    int row = a.first + A::LINES * g + quad / across;
    int column = b.first + 2 * B::LINES * t + quad % across * 4;
    bool exists = quad < A::LINES * across && row < a.end && column < b.end;
    Place place = {row, column, exists ? valid_of(column, b.end) : 0};
    return place;
}

// The sum of all warps at the thread's own place; what else was put into `room` is seen after it.
template <class A, class B>
__device__ __forceinline__ float4 add_warps(Room& room, const Sums<A, B>& sums)
{
    const int across = B::LINES / 2, count = A::LINES * across;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    VECTOR for (int quad = 0; quad < count; quad++) {
        float numbers[4];
        VECTOR for (int e = 0; e < 4; e++) {
            int line = quad / across, column = quad % across * 4 + e;
            int of = line % 2 * 2 + column / B::LINES;
            numbers[e] = sums.tile[line / 2][column % B::LINES][of];
        }
        room.quads[warp][quad][lane] =
            make_float4(numbers[0], numbers[1], numbers[2], numbers[3]);
    }
    __syncthreads();
    float4 sum = same_quad(0.0f);
    if (warp < count) {
        VECTOR for (int w = 0; w < WARPS; w++) sum = add_quad(sum, room.quads[w][warp][lane]);
    }
    return sum;
}

// Puts the warp's sums of a's lines into `room`, for after the block's next barrier.
template <class A, class B>
__device__ __forceinline__ void put_lines(Room& room, const Sums<A, B>& sums)
{
    int lane = threadIdx.x % 32;
    VECTOR for (int l = 0; l < A::LINES; l++) {
        float sum = sums.lines[l];
        sum += __shfl_xor_sync(ALL_LANES, sum, 1);
        sum += __shfl_xor_sync(ALL_LANES, sum, 2);
        if (lane % 4 == 0) room.lines[threadIdx.x / 32][A::LINES * (lane / 4) + l] = sum;
    }
}
