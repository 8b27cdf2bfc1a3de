// Sums of two numbers along a row whose threads are its lanes (common/row_lanes.cuh).
//
//   set_sums(sums, me, first, second);  // a lane's own
//   ROW_BARRIER();
//   float2 both = added_sums(sums, me); // in lane order, the same bits in all lanes
#pragma once

#include "common/row_lanes.cuh"  // RowLane
#include "common/unroll.cuh"     // UNROLL

// Orders the lanes of a row. Of one that has a warp to itself no other row waits for the memory.
#if ROW_LANES == 32
#define ROW_BARRIER() __syncwarp()
#else
#define ROW_BARRIER() __syncthreads()
#endif

typedef float4 RowSums[BLOCK_ROWS][ROW_LANES / 2];  // of two lanes each

__device__ __forceinline__ void set_sums(
    RowSums& sums, const RowLane& me, float first, float second)
{
    float2* own = reinterpret_cast<float2*>(sums[me.slot]) + me.lane;
    *own = make_float2(first, second);
}

__device__ __forceinline__ float2 added_sums(const RowSums& sums, const RowLane& me)
{
    float2 sum = make_float2(0.0f, 0.0f);
    UNROLL for (int l = 0; l < ROW_LANES / 2; l++) {
        float4 pair = sums[me.slot][l];
        sum.x = sum.x + pair.x + pair.z;
        sum.y = sum.y + pair.y + pair.w;
    }
    return sum;
}
