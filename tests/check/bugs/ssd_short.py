"""Seeded bugs in the state space layer's kernels for short sequences."""

from __future__ import annotations

from tests.check.bugs.bug import Bug

FORWARD = (
    Bug(
        name="ssd_short_decay_no_barrier",
        file="ssd_short.cu", kernel="ssd_short_forward", kind="shared-race",
        scenario="ssd_short",
        old="    make_factors(w.x);\n    __syncthreads();\n",
        new="    make_factors(w.x);\n",
        at=("w.decay[t] = sum;",
            "float weight = seen ? expf(w.decay[t] - w.decay[s]) * w.dt[s] : 0.0f;",
            "if (has_step) sum_decay("),
        why="All warps read the decays that two of them have summed, with no barrier in between.",
    ),
    Bug(
        name="ssd_short_step_past_the_end",
        file="ssd_short.cu", kernel="ssd_short_forward", kind="out-of-bounds",
        scenario="ssd_short",
        old="bool has_step = step >= 0 && step < T;", new="bool has_step = step >= 0 && step <= T;",
        at=("float u = raw[(first + step) * raw_row + h] + dt_bias[h];",
            "if (has_step) sum_decay(", "dt[step + (size_t)t * H] = w.dt[t];",
            "decay[step + (size_t)t * H] = sum;"),
        other_kinds=(("global-race", "behind a sequence's last step is the next one's first"),),
        why="One step too many is read and written: behind the last sequence there is none.",
    ),
    Bug(
        name="ssd_short_early_return",
        file="ssd_short.cu", kernel="ssd_short_forward", kind="divergent-barrier",
        scenario="ssd_short",
        old="    __syncthreads();\n\n    part = empty_part();\n"
            "    if (part.row >= T || part.column >= P) return;\n",
        new="    part = empty_part();\n"
            "    if (part.row >= T || part.column >= P) return;\n    __syncthreads();\n\n",
        why="Warps without rows or columns of the result leave before the block's last barrier.",
    ),
)  # fmt: skip

BACKWARD = (
    Bug(
        name="ssd_short_bound_no_barrier",
        file="ssd_short_backward.cu", kernel="ssd_short_backward", kind="shared-race",
        scenario="ssd_short",
        old="    run_stripe(w, own, stripe, T);\n    __syncthreads();\n",
        new="    run_stripe(w, own, stripe, T);\n",
        at=("run_stripe(w, own, stripe, T);",
            "w.bound[stripe][own] = sum_column(w, own, stripe * STRIPE, T);"),
        through=("run_stripe", "sum_column", "load_stripe", "load_quad", "store_quad"),
        why="A column of running sums is read with no barrier after other threads have put them in"
            " their rows.",
    ),
    Bug(
        name="ssd_short_totals_not_zeroed",
        file="ssd_short_backward.cu", kernel="ssd_short_backward", kind="uninitialised-read",
        scenario="ssd_short",
        old="        w.totals[2][own] = 0.0f;\n", new="",
        at=("for (int i = 0; i < SIDE; i += 4) total = add_quad(",), through=("load_quad",),
        why="Steps past the sequence's end leave their place of dynamic shared memory unwritten,"
            " and it is summed.",
    ),
    Bug(
        name="ssd_short_heads_collide",
        file="ssd_short_backward.cu", kernel="ssd_short_backward", kind="global-race",
        scenario="ssd_short",
        old="by_head + ((size_t)h * gridDim.y * T + first) * 2 * N;",
        new="by_head + ((size_t)h * T + first) * 2 * N;",
        at=("store_part(to + N, 2 * (size_t)N, part, T, N);",
            "store_part(to, 2 * (size_t)N, part, T, N);"),
        through=("store_part", "store_pair"),
        why="The second head's part of the first sequence lies where the first head's part of the"
            " second one does: two blocks write there.",
    ),
    Bug(
        name="ssd_short_one_sequence_more",
        file="ssd_short_backward.cu", kernel="ssd_short_sum", kind="out-of-bounds",
        scenario="ssd_short",
        old="for (int i = threadIdx.x; i < B; i += SQUARE_THREADS)",
        new="for (int i = threadIdx.x; i <= B; i += SQUARE_THREADS)",
        at=("sum += partial[((size_t)i * 3 + q) * H + h];",),
        why="One sequence more is summed than there are.",
    ),
)  # fmt: skip

SSD_SHORT = FORWARD + BACKWARD
