"""Seeded bugs in the tensor cores' kernels: attention and linear layers in bfloat16."""

from __future__ import annotations

from tests.check.bugs.bug import Bug

_COPIES = ("start_tiles", "start_tile_ahead", "start_copy")
_PRODUCTS = ("multiply_rows", "add_weighted", "load_matrices", "load_transposed")
_AHEAD = "start_numbers(numbers, stage_before(stage), lse, delta, ahead, T);"
_READ_NUMBERS = ("ds[n][0] = ds[n][2] = -numbers.delta[slot + 8 * n];",
                 "ds[n][1] = ds[n][3] = -numbers.delta[slot + 8 * n + 1];",
                 "float base = numbers.lse[slot + 8 * n + r % 2] * LOG2_E;")  # fmt: skip
_SLAB = "store_quad(dweight + slab + (size_t)row * K + column, quad, 4);"

ATTENTION = (
    Bug(
        name="attention_mma_keys_not_awaited",
        file="attention_mma.cu", kernel="attention_mma_forward", kind="uninitialised-read",
        scenario="attention_mma",
        old="        wait_for_tile();\n        start_tile_ahead(tiles, stage, keys, first);\n"
            "        const Tile &k",
        new="        __syncthreads();\n        start_tile_ahead(tiles, stage, keys, first);\n"
            "        const Tile &k",
        at=("forward_tile<false>(sums", "forward_tile<true>(sums"),
        through=(*_PRODUCTS, "forward_tile"),
        other_kinds=(("shared-race", "the copy under way writes what the products read"),),
        why="The barrier does not wait for the asynchronous copies: a tile is read before its bytes"
            " have come.",
    ),
    Bug(
        name="attention_mma_numbers_before_the_barrier",
        file="attention_mma.cu", kernel="attention_mma_backward_key", kind="shared-race",
        scenario="attention_mma_backward",
        old=f"        wait_for_tile();\n        int ahead = first + (STAGES - 1) * TILE;\n"
            f"        {_AHEAD}\n",
        new=f"        int ahead = first + (STAGES - 1) * TILE;\n        {_AHEAD}\n"
            f"        wait_for_tile();\n",
        at=(_AHEAD, *_READ_NUMBERS), through=("start_numbers", "start_copy_word"),
        why="The numbers of a tile ahead are copied over those of the tile before, which slower"
            " warps still read: the barrier comes after.",
    ),
    Bug(
        name="attention_mma_whole_tiles",
        file="attention_mma.cu", kernel="attention_mma_forward", kind="out-of-bounds",
        scenario="attention_mma",
        old="    int end = block_row + ROWS < T ? block_row + ROWS : T;\n"
            "    Source keys = {k_at, h.stride, k_at + h.C, h.stride, end};\n"
            "    start_first_tiles(tiles, keys, 0);\n\n    unsigned q[DEPTH][4];\n",
        new="    int end = block_row + ROWS;\n"
            "    Source keys = {k_at, h.stride, k_at + h.C, h.stride, end};\n"
            "    start_first_tiles(tiles, keys, 0);\n\n    unsigned q[DEPTH][4];\n",
        at=("start_tile_ahead(tiles, stage, keys, first);\n        const Tile &k",
            "start_first_tiles(tiles, keys, 0);\n\n    unsigned q[DEPTH][4];\n"),
        through=(*_COPIES, "start_first_tiles"),
        why="Whole tiles of keys and values are copied, past the end of qkv.",
    ),
    Bug(
        name="attention_mma_sum_by_rows_that_exist",
        file="attention_mma.cu", kernel="attention_mma_forward", kind="shuffle-mask",
        scenario="attention_mma",
        old="        total[half] = row_sum(total[half]);\n        int row = me.row + 8 * half;\n"
            "        if (row < T && me.column == 0) {\n",
        new="        int row = me.row + 8 * half;\n        if (row >= T) break;\n"
            "        total[half] = row_sum(total[half]);\n        if (me.column == 0) {\n",
        at=("total[half] = row_sum(total[half]);", "store_rows(out + h.out_first"),
        through=("row_sum", "store_rows", "joined_quad"),
        why="The last warp's lanes without a row leave the loop, and the others shuffle with a mask"
            " that names them.",
    ),
)  # fmt: skip

LINEAR = (
    Bug(
        name="linear_mma_one_split_more",
        file="gemm_mma.cu", kernel="linear_mma_reduce", kind="out-of-bounds",
        scenario="linear_mma",
        old="for (int z = 0; z < splits; z++)", new="for (int z = 0; z <= splits; z++)",
        through=("load_quad",),
        why="One part more is summed than the workspace holds.",
    ),
    Bug(
        name="linear_mma_whole_chunks",
        file="gemm_mma.cu", kernel="linear_mma_backward", kind="out-of-bounds",
        scenario="linear_mma",
        old="end = M - first < chunk ? M : first + chunk;", new="end = first + chunk;",
        at=("multiply_tiles<true, true>(sums",),
        through=("start_operand", "start_copy", "start_stage", "multiply_tiles"),
        why="The last part has 44 rows, and dy and x are read as if it had all of its chunk.",
    ),
    Bug(
        name="linear_mma_slabs_overlap",
        file="gemm_mma.cu", kernel="linear_mma_backward", kind="global-race",
        scenario="linear_mma",
        old="size_t slab = split * ((size_t)N * K + N);",
        new="size_t slab = split * (size_t)N * K;",
        at=(_SLAB, "{ dbias[slab + row] = sum; }"), through=("store_quad",),
        why="A slab's part of dbias lies where the next slab's part of dweight begins: two blocks"
            " write there.",
    ),
    Bug(
        name="linear_mma_gradient_not_zeroed",
        file="gemm_mma.cu", kernel="linear_mma_reduce", kind="uninitialised-read",
        scenario="linear_mma", old="", new="", fault="added to nothing",
        at=("float4 sum = accumulate ? load_quad(to, 4) : same_quad(0.0f);",),
        through=("load_quad",),
        why="The weight's gradient is added to memory that nobody has written.",
    ),
)  # fmt: skip

MMA = ATTENTION + LINEAR
