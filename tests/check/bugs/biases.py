"""Seeded bugs in the sums of several layers' bias gradients, and in the backward of a linear layer
behind a GELU."""

from __future__ import annotations

from tests.check.bugs.bug import Bug

_PAIR_PUT = "    sums[lane][quad] = sum;\n"
_PAIR_ADD = "UNROLL for (int l = 1; l < LANES; l++) sum = add_quad(sum, sums[l][quad]);"
_FINAL_PUT = "    sums[group][own] = sum;\n"
_FINAL_ADD = "UNROLL for (int other = 1; other < FINAL_GROUPS; other++) sum += sums[other][own];"
_HIDDEN_SIZES = "__restrict__ hidden, int M,\n    int N, int K, int chunk, int input_blocks)\n"
_HIDDEN_BLOCK = """{
    __shared__ Stages shared;
    int block = blockIdx.x;
    if (block >= input_blocks) {
        backward_weight(shared, dweight, dbias, dy, x, M, N, K, chunk, """
_HIDDEN_READ = "return *reinterpret_cast<const uint2*>(hidden + (size_t)row * K + column);"
_COPIES = "multiply_tiles", "start_stage", "start_operand", "start_copy"

PAIR = (
    Bug(
        name="bias_pair_whole_chunks",
        file="bias.cu", kernel="bias_pair_partial", kind="out-of-bounds", scenario="bias_sums",
        old="    if (last > rows) last = rows;\n", new="",
        at=("sum = whole ? lane_sum<true>(", ": lane_sum<false>(from + c, first + lane"),
        through=("lane_sum", "load_quad_of", "load_quad"),
        why="The last chunk has one row of 128, and as many rows are read as a whole one has.",
    ),
    Bug(
        name="bias_pair_warp_barrier",
        file="bias.cu", kernel="bias_pair_partial", kind="shared-race", scenario="bias_sums",
        old=f"{_PAIR_PUT}    __syncthreads();\n", new=f"{_PAIR_PUT}    __syncwarp();\n",
        at=(_PAIR_PUT, _PAIR_ADD),
        why="A warp has two of sixteen lanes of rows, and waits for no other warp's.",
    ),
    Bug(
        name="bias_pair_second_layer_over_the_first",
        file="bias.cu", kernel="bias_pair_partial", kind="global-race", scenario="bias_sums",
        old="        before = C;\n", new="",
        at=("store_quad(partial + (size_t)blockIdx.y * stride + before + c, sum, valid);",),
        through=("store_quad",),
        other_kinds=(("uninitialised-read", "nobody writes the columns behind the first layer's"),),
        why="Both layers' sums begin at the first column: two blocks write there.",
    ),
)  # fmt: skip

FINAL = (
    Bug(
        name="bias_sums_places_of_whole_blocks",
        file="bias.cu", kernel="bias_sums_final", kind="out-of-bounds", scenario="bias_sums",
        old="int place = c < columns ? places[c] : 0;", new="int place = places[c];",
        why="The last block of 64 has 42 columns, and places are read for all of its threads.",
    ),
    Bug(
        name="bias_sums_no_barrier",
        file="bias.cu", kernel="bias_sums_final", kind="shared-race", scenario="bias_sums",
        old=f"{_FINAL_PUT}    __syncthreads();\n", new=_FINAL_PUT, at=(_FINAL_PUT, _FINAL_ADD),
        why="The four groups of a column are of different warps, and the first waits for none.",
    ),
    Bug(
        name="bias_sums_group_without_a_chunk",
        file="bias.cu", kernel="bias_sums_final", kind="uninitialised-read", scenario="bias_sums",
        old=_FINAL_PUT, new="    if (group < last) sums[group][own] = sum;\n", at=(_FINAL_ADD,),
        why="There are three chunks: the fourth group puts nothing into shared memory, and its sum"
            " is added.",
    ),
    Bug(
        name="bias_sums_layer_left_out",
        file="bias.cu", kernel="bias_sums_final", kind="uninitialised-read", scenario="bias_sums",
        old="", new="", fault="a layer left out",
        at=("found[u] = chunk < last ? partial[(size_t)chunk * columns + c] : 0.0f;",),
        why="The columns of the third layer are added up, and no launch has filled them.",
    ),
    Bug(
        name="bias_sums_places_given_twice",
        file="bias.cu", kernel="bias_sums_final", kind="global-race", scenario="bias_sums",
        old="", new="", fault="places given twice", at=("    gradients[place] = sum;",),
        other_kinds=(("uninitialised-read", "the copy to the host reads places of nobody"),),
        why="Columns of two blocks are written to one place.",
    ),
)  # fmt: skip

GELU = (
    Bug(
        name="linear_mma_gelu_hidden_as_float",
        file="gemm_mma.cu", kernel="linear_mma_backward_gelu", kind="out-of-bounds",
        scenario="linear_mma_backward_gelu",
        old=f"const __nv_bfloat16* {_HIDDEN_SIZES}", new=f"const float* {_HIDDEN_SIZES}",
        at=(_HIDDEN_READ,), through=("load_quads",),
        why="hidden is bfloat16 and is read as float: its second half lies past the end.",
    ),
    Bug(
        name="linear_mma_gelu_blocks_from_dhidden_on",
        file="gemm_mma.cu", kernel="linear_mma_backward_gelu", kind="out-of-bounds",
        scenario="linear_mma_backward_gelu",
        old=f"{_HIDDEN_SIZES}{_HIDDEN_BLOCK}block - input_blocks);",
        new=f"{_HIDDEN_SIZES}{_HIDDEN_BLOCK}block);",
        at=("store_quad(dweight + slab + (size_t)row * K + column, quad, 4);",
            "{ dbias[slab + row] = sum; }"),
        through=("store_quad",),
        why="The blocks of the weight's gradient are numbered behind those of dhidden: they write"
            " parts that the workspace does not have.",
    ),
    Bug(
        name="linear_mma_gelu_over_its_input",
        file="gemm_mma.cu", kernel="linear_mma_backward_gelu", kind="global-race",
        scenario="linear_mma_backward_gelu", old="", new="", fault="over active",
        at=("store_packed(dx + (size_t)row * K + column, q);",),
        through=("store_packed", *_COPIES),
        why="dhidden takes the place of the layer's input, which other blocks of the launch read"
            " for the weight's gradient.",
    ),
    Bug(
        name="linear_mma_gelu_hidden_not_kept",
        file="gemm_mma.cu", kernel="linear_mma_backward_gelu", kind="uninitialised-read",
        scenario="linear_mma_backward_gelu", old="", new="", fault="hidden not kept",
        at=(_HIDDEN_READ,), through=("load_quads",),
        why="Forward has kept what is active alone: nobody has written hidden.",
    ),
    Bug(
        name="linear_mma_gelu_hidden_of_a_view",
        file="gemm_mma.cu", kernel="linear_mma_backward_gelu", kind="misaligned",
        scenario="linear_mma_backward_gelu", old="", new="", fault="hidden of a view",
        at=(_HIDDEN_READ,), through=("load_quads",),
        why="hidden begins at the second number of a buffer, and 8 bytes are read at once.",
    ),
)  # fmt: skip

BIASES = PAIR + FINAL + GELU
