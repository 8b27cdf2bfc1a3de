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
    Bug(
        name="linear_norm_chunks_of_whole_tiles",
        file="gemm_mma_norm.cu", kernel="linear_mma_norm_backward", kind="out-of-bounds",
        scenario="linear_norm_backward",
        old="        if (first >= M && first > 0) return;", new="        if (first < 0) return;",
        at=("partial[(size_t)(first / CHUNK) * stride + part * TILE_N + column] = sum;",),
        through=("store_chunks",),
        why="The last tile of 32 rows has six, one chunk of 16, and the sums of two are written.",
    ),
    Bug(
        name="linear_norm_chunks_before_the_barrier",
        file="gemm_mma_norm.cu", kernel="linear_mma_norm_backward", kind="shared-race",
        scenario="linear_norm_backward",
        old="    set_sums(row_sums, me, sum, product * r);\n    __syncthreads();\n",
        new="    set_sums(row_sums, me, sum, product * r);\n    __syncwarp();\n",
        at=("*tile_quad(tiles, 0, me, k) = share;", "*tile_quad(tiles, 1, me, k) = g[k];"),
        through=("store_chunks", "tile_quad"),
        why="A row's lanes are of one warp, and wait for each other alone: the sums of chunks read"
            " rows that other warps have not put down.",
    ),
    Bug(
        name="linear_norm_gradient_not_there",
        file="gemm_mma_norm.cu", kernel="linear_mma_norm_backward", kind="uninitialised-read",
        scenario="linear_norm_backward", old="", new="", fault="added to nothing",
        at=("load_row(old, dx + at, adding);",), through=("load_row", "load_whole_quad"),
        why="dx is added to, and the gradient of the residual branch was not put there.",
    ),
    Bug(
        name="linear_norm_chunks_share_a_row",
        file="gemm_mma_norm.cu", kernel="linear_mma_norm_backward", kind="global-race",
        scenario="linear_norm_backward",
        old="partial[(size_t)(first / CHUNK) * stride +", new="partial[(size_t)chunk * stride +",
        other_kinds=(("uninitialised-read", "the copy to the host reads rows nobody has written"),),
        why="The row of a chunk leaves the block out: all blocks write the same two.",
    ),
)  # fmt: skip
