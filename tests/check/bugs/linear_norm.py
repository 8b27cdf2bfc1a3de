"""Seeded bugs in the linear layers with the norm behind them in one launch."""

from __future__ import annotations

from tests.check.bugs.bug import Bug

_DONE = "    __syncthreads();  // all are done with the last stage\n"
_READ = "load_matrices", "load_a", "load_b", "add_stage", "multiply_tiles"

LINEAR_NORM = (
    Bug(
        name="linear_norm_sums_over_the_last_stage",
        file="gemm_mma_norm.cu", kernel="linear_mma_norm_forward", kind="shared-race",
        scenario="linear_norm", old=_DONE, new="",
        at=("*reinterpret_cast<float2*>(to + 8 * i * PITCH + 8 * j) =",), through=_READ,
        why="A warp puts its sums down where slower ones still read operands of the last stage.",
    ),
    Bug(
        name="linear_norm_rows_past_the_end",
        file="gemm_mma_norm.cu", kernel="linear_mma_norm_forward", kind="out-of-bounds",
        scenario="linear_norm",
        old="q[k] = me.columns ? load_whole_quad(at) : same_quad(0.0f);",
        new="q[k] = load_whole_quad(at);", through=("load_whole_quad",),
        why="The last block has six rows, and the residual of all its rows is read.",
    ),
    Bug(
        name="linear_norm_early_return",
        file="gemm_mma_norm.cu", kernel="linear_mma_norm_forward", kind="divergent-barrier",
        scenario="linear_norm",
        old="    take_row(q, tiles, me);\n    float first =",
        new="    if (me.columns == 0) return;\n    take_row(q, tiles, me);\n    float first =",
        at=("    if (me.columns == 0) return;\n    take_row(q, tiles, me);",
            "    ROW_BARRIER();\n    float2 both = added_sums(row_sums, me);\n"
            "    if (me.columns == 0) return;\n    float away"),
        why="Threads without a row have left before the barrier that the others of their warp wait"
            " at.",
    ),
)  # fmt: skip
