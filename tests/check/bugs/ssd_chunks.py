"""Seeded bugs in the state space layer's kernels for long sequences, chunk by chunk."""

from __future__ import annotations

from tests.check.bugs.bug import Bug

FORWARD = (
    Bug(
        name="ssd_decay_eight_steps_at_a_time",
        file="ssd.cu", kernel="ssd_decay", kind="global-race", scenario="ssd",
        old="            if (first + j >= rows) break;\n", new="",
        at=("dt[at] = softplus;", "decay[at] = sum;"),
        other_kinds=(("out-of-bounds", "behind the last sequence's last chunk there is nothing"),),
        why="The last chunk has 13 steps, and 16 are written: the three behind them are the next"
            " sequence's, which another thread writes.",
    ),
    Bug(
        name="ssd_weights_warp_barrier",
        file="ssd.cu", kernel="ssd_chunk_states", kind="shared-race",
        scenario="ssd_two_warps",
        old="        weights[s] = expf(last - decay[at]) * dt[at];\n    }\n    __syncthreads();\n",
        new="        weights[s] = expf(last - decay[at]) * dt[at];\n    }\n    __syncwarp();\n",
        at=("weights[s] = expf(last - decay[at]) * dt[at];",), through=("sum_outer",),
        why="The first warp makes all 32 weights, and the second one, which reads them, has a"
            " barrier for itself alone.",
    ),
    Bug(
        name="ssd_scan_last_step_of_a_whole_chunk",
        file="ssd.cu", kernel="ssd_state_scan", kind="out-of-bounds", scenario="ssd",
        old="int last = (chunk + 1) * CHUNK < T ? (chunk + 1) * CHUNK - 1 : T - 1;",
        new="int last = (chunk + 1) * CHUNK - 1;",
        at=("float keep = expf(decay[((size_t)b * T + last) * H + h]);",),
        why="The last chunk of the last sequence has no step 95: decay ends at step 76.",
    ),
)  # fmt: skip

BACKWARD = (
    Bug(
        name="ssd_gradients_of_heads_collide",
        file="ssd_backward.cu", kernel="ssd_backward_states", kind="global-race", scenario="ssd",
        old="float* to = dstates + k.state * P * N;", new="float* to = dstates + k.scores * P * N;",
        at=("sum_outer(to, weights, dy + k.head_step * P", "float4 own = load_quad(at, valid);"),
        through=("sum_outer", "store_tile", "store_quad", "load_quad"),
        other_kinds=(("uninitialised-read", "ssd_backward_scan then reads states not written"),),
        why="The place is that of a chunk without its heads: the blocks of both write there.",
    ),
    Bug(
        name="ssd_inputs_one_step_more",
        file="ssd_backward.cu", kernel="ssd_backward_inputs", kind="out-of-bounds", scenario="ssd",
        old="for (int i = 0; i < rows; i++) {", new="for (int i = 0; i <= rows; i++) {",
        at=("float4 b_quad = load_quad(b + (step + i) * bc_row + n, n_valid);",
            "float4 c_quad = load_quad(c + (step + i) * bc_row + n, n_valid);",
            "add_outer(dc_sum, load_quad(&by_s[i][own], 4), b_quad);",
            "add_outer(db_sum, load_quad(&by_t[i][own], 4), c_quad);"),
        through=("load_quad",),
        why="A whole chunk reads row 32 of shared matrices of 32 rows, and the last one a step"
            " behind the end of b and c.",
    ),
    Bug(
        name="ssd_final_four_sums",
        file="ssd_backward.cu", kernel="ssd_backward_final", kind="out-of-bounds", scenario="ssd",
        old="if (kind >= 3) return;", new="if (kind > 3) return;",
        at=("for (int t = 0; t < CHUNK_THREADS; t++) total += sums[kind][t];",
            "*to = (float)(accumulate ? *to + total : total);"),
        other_kinds=(("global-race", "threads 2 and 3 both write dD"),),
        why="There are three rows of sums, and thread 3 adds up the one behind them.",
    ),
    Bug(
        name="ssd_final_step_of_zero",
        file="ssd_backward.cu", kernel="ssd_backward_final", kind="endless-kernel", scenario="ssd",
        old="i < chunks; i += CHUNK_THREADS) {", new="i < chunks; i += chunks / CHUNK_THREADS) {",
        span=("for (int i = threadIdx.x; i < chunks;", "sums[q][threadIdx.x] = sum;"),
        why="Six chunks are fewer than the threads: 6 / 64 is 0 in integers, and a thread adds the"
            " same sum again and again.",
    ),
)  # fmt: skip

SSD_CHUNKS = FORWARD + BACKWARD
