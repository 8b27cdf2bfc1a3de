// Rows shared by ROW_LANES neighbouring threads, for kernels that reduce along a row.
//
// With eight lanes, lane l of a row owns the quads l, l+8, l+16 ... of its columns, so the lanes
// read 128 neighbouring bytes at a time. Partial results meet in shared memory after ONE barrier
// and every lane adds them in lane order: the same bits in all lanes, every time. A warp a row with
// shuffles would suit a GPU as well, but a shuffle costs the host device a fiber switch for each
// lane (layernorm: 4x).
#pragma once

#include "common/quad.cuh"  // quads

#ifndef ROW_LANES
#define ROW_LANES 8
#endif
#ifndef ROW_THREADS
#define ROW_THREADS 128                          // block
#endif
#define BLOCK_ROWS (ROW_THREADS / ROW_LANES)     // rows a block; grid = ceil(rows / BLOCK_ROWS)

struct RowLane {
    int slot;       // row within the block
    int lane;
    long long row;  // row of the matrix
    int columns;    // to walk: 0 for a lane past the last row, which still must reach the barrier
};

__device__ __forceinline__ RowLane row_lane(int rows, int columns)
{
    RowLane me;
    me.slot = threadIdx.x / ROW_LANES;
    me.lane = threadIdx.x % ROW_LANES;
    me.row = (long long)blockIdx.x * BLOCK_ROWS + me.slot;
    me.columns = me.row < rows ? columns : 0;
    return me;
}

// for (c = first_column(me); c < me.columns; c += COLUMN_STEP) ... valid_columns(me, c)
#define COLUMN_STEP (4 * ROW_LANES)

__device__ __forceinline__ int first_column(const RowLane& me)
{
    return 4 * me.lane;
}

__device__ __forceinline__ int valid_columns(const RowLane& me, int column)
{
    return quad_valid(column, me.columns);
}

// How many of `columns` lane `lane` owns.
__device__ __forceinline__ int lane_count(int lane, int columns)
{
    int tail = columns % COLUMN_STEP - 4 * lane;
    return columns / COLUMN_STEP * 4 + (tail < 0 ? 0 : tail > 4 ? 4 : tail);
}
