"""Seeded bugs: barriers, shuffles, loops without an end, and work that nothing orders."""

from __future__ import annotations

from tests.check.bugs.bug import Bug

_FULL = "v += __shfl_down_sync(0xffffffffu, v, d);"

BARRIERS = (
    Bug(
        name="layernorm_backward_early_return",
        file="layernorm_backward.cu", kernel="layernorm_backward", kind="divergent-barrier",
        scenario="layernorm_backward",
        old="    float m = me.columns ? mean[me.row] : 0.0f, r =",
        new="    if (me.columns == 0) return;\n"
            "    float m = me.columns ? mean[me.row] : 0.0f, r =",
        at=("if (me.columns == 0) return;\n    float m =",
            "    ROW_BARRIER();\n    float2 both = added_sums(sums, me);"),
        through=("row_gradients",),
        why="In the last block the threads without a row have returned before the barrier that the"
            " others of their warp wait at.",
    ),
    Bug(
        name="cross_entropy_barrier_in_branch",
        file="cross_entropy.cu", kernel="cross_entropy_forward", kind="divergent-barrier",
        scenario="cross_entropy",
        old="    peaks[me.slot][me.lane] = peak;\n    sums[me.slot][me.lane] = sum;\n"
            "    __syncthreads();\n    if (me.columns == 0 || me.lane != 0) return;",
        new="    if (me.columns > 0) {\n        peaks[me.slot][me.lane] = peak;\n"
            "        sums[me.slot][me.lane] = sum;\n        __syncthreads();\n    }\n"
            "    if (me.columns == 0 || me.lane != 0) return;",
        at=("    if (me.columns > 0) {", "        __syncthreads();\n    }",
            "if (me.columns == 0 || me.lane != 0) return;"),
        why="Only the threads that have a row come to the barrier; in the last block 112 of 128 do"
            " not.",
    ),
    Bug(
        name="attention_loop_by_own_row",
        file="attention.cu", kernel="attention_forward", kind="divergent-barrier",
        scenario="attention",
        old="    for (int first = 0; first < block_row + ROWS && first < T; first += TILE) {\n"
            "        __syncthreads();  // the last tile has been read",
        new="    for (int first = 0; first <= row && first < T; first += TILE) {\n"
            "        __syncthreads();  // the last tile has been read",
        at=("for (int first = 0; first <= row && first < T; first += TILE) {",
            "__syncthreads();  // the last tile has been read",
            "        __syncthreads();\n        int stop = row >= T ? 0"),
        other_kinds=(("shared-race", "half of the tile is then the one before, read and written"),),
        why="Each thread leaves the loop after its own last key, while the block's later rows still"
            " wait at the barriers inside.",
    ),
    Bug(
        name="block_sum_barrier_in_branch",
        file="reduce.cu", kernel="block_sum", kind="divergent-barrier", scenario="block_sum",
        old="            tree[t] += tree[t + s];\n        }\n        __syncthreads();\n",
        new="            tree[t] += tree[t + s];\n            __syncthreads();\n        }\n",
        at=("        if (t < s) {", "            __syncthreads();\n        }"),
        other_kinds=(("shared-race", "nothing orders the levels of the tree any more"),),
        why="The barrier of each level is reached by its adding threads alone, from 16 down by a"
            " part of a warp.",
    ),
    Bug(
        name="warp_sum_half_mask",
        file="reduce.cu", kernel="warp_sum", kind="shuffle-mask", scenario="warp_sum",
        old=_FULL, new="v += __shfl_down_sync(0x0000ffffu, v, d);",
        why="Lanes 16 to 31 take part in a shuffle whose mask does not name them.",
    ),
    Bug(
        name="warp_sum_early_return",
        file="reduce.cu", kernel="warp_sum", kind="shuffle-mask", scenario="warp_sum",
        old="    float v = i < n ? x[i] : 0.0f;\n    for",
        new="    if (i >= n) return;\n    float v = x[i];\n    for",
        at=(_FULL,),
        why="In the last warp five lanes have returned, and the full mask names them: what is read"
            " from them is undefined.",
    ),
    Bug(
        name="warp_sum_in_branch",
        file="reduce.cu", kernel="warp_sum", kind="shuffle-mask", scenario="warp_sum",
        old=_FULL, new="if (lane < d) v += __shfl_down_sync(0xffffffffu, v, d);",
        why="Only the lower lanes shuffle, and the mask names all 32: the lanes that are read from"
            " take no part.",
    ),
    Bug(
        name="warp_sum_half_a_warp",
        file="reduce.cu", kernel="warp_sum", kind="shuffle-mask", scenario="warp_sum",
        old="", new="", fault="half a warp", at=(_FULL,),
        why="With 112 threads the last warp has 16 lanes, and the mask names 32.",
    ),
    Bug(
        name="from_first_mask_short",
        file="reduce.cu", kernel="from_first", kind="shuffle-mask", scenario="from_first",
        old="__ballot_sync(0xffffffffu, i < n);", new="__ballot_sync(0xffffffffu, i + 1 < n);",
        at=("float first = __shfl_sync(members, x[i], 0);",),
        why="The mask leaves out the last element's lane, which takes part in the shuffle.",
    ),
)  # fmt: skip

ENDLESS = (
    Bug(
        name="block_sum_unsigned_countdown",
        file="reduce.cu", kernel="block_sum", kind="endless-kernel", scenario="block_sum",
        old="for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {",
        new="for (unsigned s = blockDim.x / 2; s >= 0; s >>= 1) {",
        span=("for (unsigned s = blockDim.x / 2; s >= 0; s >>= 1) {",
              "    if (t == 0) out[blockIdx.x] = tree[0];"),
        why="An unsigned number is never below zero, so the loop with the barrier goes on.",
    ),
    Bug(
        name="attention_step_of_zero",
        file="attention.cu", kernel="attention_forward", kind="endless-kernel",
        scenario="attention",
        old="first < T; first += TILE) {\n        __syncthreads();  // the last tile has been read",
        new="first < T; first += TILE / ROWS) {\n"
            "        __syncthreads();  // the last tile has been read",
        span=("first < T; first += TILE / ROWS) {", "    if (row >= T) return;"),
        through=("load_tile", "group_dot", "add_scaled", "load_quad", "store_quad"),
        why="32 / 64 is 0 in integers: the first tile is gone through again and again.",
    ),
    Bug(
        name="locked_sum_never_released",
        file="reduce.cu", kernel="locked_sum", kind="endless-kernel", scenario="locked_sum",
        old="    total[0] = total[0] + sum;\n    __threadfence();\n    atomicExch(lock, 0u);",
        new="    total[0] = total[0] + sum;\n    __threadfence();",
        span=("while (atomicCAS(lock, 0u, 1u) != 0u) {", "    total[0] = total[0] + sum;"),
        why="The first block keeps the lock, and all others wait for it.",
    ),
    Bug(
        name="hash_insert_table_full",
        file="scatter.cu", kernel="hash_insert", kind="endless-kernel", scenario="hash_insert",
        old="", new="", fault="table too small",
        span=("while (true) {", "slot = (slot + 1)"),
        why="The table is full, and the search for a free place goes round in it.",
    ),
)  # fmt: skip

NODES = (
    Bug(
        name="graph_joined_late",
        file="residual.cu", kernel="residual_add", kind="node-race", scenario="graph_branches",
        old="", new="", fault="joined late",
        why="The branch is joined behind the addition that reads its result: the two nodes have no"
            " path between them.",
    ),
    Bug(
        name="graph_zeroed_in_a_branch",
        file="gemm.cu", kernel="gemm_nn", kind="node-race", scenario="graph_zeroed",
        old="", new="", fault="in a branch of its own",
        why="The memset node and the product that adds to the same memory are in two branches.",
    ),
    Bug(
        name="graph_shared_workspace",
        file="gemm.cu", kernel="gemm_nt", kind="node-race", scenario="graph_workspace",
        old="", new="", fault="one workspace",
        why="Two products in two branches of a graph keep their slabs in one workspace.",
    ),
    Bug(
        name="replays_unordered",
        file="residual.cu", kernel="residual_add", kind="node-race", scenario="two_replays",
        old="", new="", fault="unordered",
        why="One graph reads what another makes, launched on a second stream that nothing orders.",
    ),
    Bug(
        name="streams_no_event",
        file="residual.cu", kernel="residual_add", kind="node-race", scenario="stream_order",
        old="", new="", fault="no event",
        why="The addition reads what another stream's kernel makes and waits for no event.",
    ),
    Bug(
        name="streams_early_event",
        file="residual.cu", kernel="residual_add", kind="node-race", scenario="stream_order",
        old="", new="", fault="event before the work",
        why="The event was recorded before the producer's launch, so waiting for it waits for"
            " nothing.",
    ),
    Bug(
        name="legacy_stream_taken_to_wait",
        file="residual.cu", kernel="residual_add", kind="node-race", scenario="legacy_stream",
        old="", new="", fault="taken to wait",
        why="The producer is on the legacy stream, with which a non-blocking stream does not"
            " synchronise.",
    ),
    Bug(
        name="next_batch_too_early",
        file="residual.cu", kernel="residual_add", kind="node-race", scenario="next_batch",
        old="", new="", fault="copied at once",
        why="The copy stream overwrites the input while the kernel on the other stream reads it.",
    ),
    Bug(
        name="loss_fetched_too_early",
        file="cross_entropy.cu", kernel="mean_loss", kind="node-race", scenario="fetch_loss",
        old="", new="", fault="no event",
        why="The copy to the host is on another stream and does not wait for the kernel that"
            " writes the loss.",
    ),
)  # fmt: skip

WAITS = BARRIERS + ENDLESS + NODES
