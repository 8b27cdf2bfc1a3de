"""Seeded bugs in the kernels between the gradients and the update."""

from __future__ import annotations

from tests.check.bugs.bug import Bug

OPTIMIZER = (
    Bug(
        name="grad_norm_last_turn_whole",
        file="grad_norm.cu",
        kernel="grad_norm_partial",
        kind="out-of-bounds",
        scenario="grad_norm",
        old="first + TURN <= n && quad_aligned(grad));",
        new="quad_aligned(grad));",
        through=("load_turn",),
        why="The last turn has fewer than 2048 gradients, and all of its quads are read.",
    ),
    Bug(
        name="grad_norm_no_barrier",
        file="grad_norm.cu",
        kernel="grad_norm_partial",
        kind="shared-race",
        scenario="grad_norm",
        old="    shared[threadIdx.x] = own;\n    __syncthreads();\n",
        new="    shared[threadIdx.x] = own;\n",
        at=(
            "shared[threadIdx.x] = own;",
            "own.squares += shared[t].squares;",
            "own.masked += shared[t].masked;",
        ),
        why="Thread 0 adds the sums of the others with no barrier after their writes.",
    ),
    Bug(
        name="grad_norm_totals_not_zeroed",
        file="grad_norm.cu",
        kernel="grad_norm_final",
        kind="uninitialised-read",
        scenario="grad_norm",
        old="",
        new="",
        fault="totals not zeroed",
        at=("stats->masked_total += own.masked;", "stats->masked_steps += own.masked > 0;"),
        why="The totals of a run are added to memory that was allocated and never set to zero.",
    ),
    Bug(
        name="accumulate_first_adds",
        file="accumulate.cu",
        kernel="accumulate",
        kind="uninitialised-read",
        scenario="accumulate",
        old="",
        new="",
        fault="added to nothing",
        at=(
            "*loss_sum = fmaf(scale, *loss, overwrite ? 0.0f : *loss_sum);",
            "if (!overwrite) load_turn(s, sum, first, n, whole);",
        ),
        through=("load_turn", "load_quad"),
        why="The first micro-batch adds to a sum that nobody has written.",
    ),
    Bug(
        name="accumulate_tail_in_turns",
        file="accumulate.cu",
        kernel="accumulate",
        kind="out-of-bounds",
        scenario="accumulate",
        old="bool whole = first + TURN <= n &&",
        new="bool whole = first < n &&",
        at=(
            "load_turn(g, grad, first, n, whole);",
            "store_turn(sum, s, first, n, whole);",
            "if (!overwrite) load_turn(s, sum, first, n, whole);",
        ),
        through=("load_turn", "store_turn"),
        why="The last block takes a whole turn of 2048 where 453 elements are left.",
    ),
    Bug(
        name="sgd_last_turn_whole",
        file="sgd.cu",
        kernel="sgd",
        kind="out-of-bounds",
        scenario="sgd",
        old="store_turn(param, p, first, n, whole);",
        new="store_turn(param, p, first, n, true);",
        through=("store_turn",),
        why="The last block stores 1024 parameters where 133 are left.",
    ),
)
