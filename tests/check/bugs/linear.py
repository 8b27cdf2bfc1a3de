"""Seeded bugs in the linear layers of tensor cores, in bfloat16 and in TF32."""

from __future__ import annotations

from tests.check.bugs.bug import Bug

_COPIES = ("multiply_tiles", "start_stage", "start_operand", "start_copy")
_WITH_HIDDEN = """hidden, int M,
    int N, int K, int chunk, int input_blocks)
{
    __shared__ Stages shared;
    int block = blockIdx.x;
    """
_ADD = "    float4 add = load_valid<false>(bias + own.column, own.valid);\n"
_PRODUCT = """    Sums<Lines, Lines> sums = {};
    multiply_slices(sums, slice, a, nullptr, b, K);
    float4 z = add_quad(add_warps(room, sums), add);
"""
_LINES = "    if (owns_dbias) put_lines(room, sums);\n"
_WARPS = "    float4 quad = add_warps(room, sums);\n"
_LEAVE = "    if (!own.valid) return;\n"

MMA = (
    Bug(
        name="linear_mma_numpy_weight",
        file="gemm_mma.cu", kernel="linear_mma_forward", kind="host-pointer",
        scenario="linear_mma_plain", old="", new="", fault="host weight", through=_COPIES,
        why="The weight is an array of NumPy's, and an asynchronous copy is to read it.",
    ),
    Bug(
        name="linear_mma_room_for_narrow_results",
        file="gemm_mma.cu", kernel="linear_mma_forward_wide", kind="out-of-bounds",
        scenario="linear_mma_wide", old="", new="", fault="narrow room",
        at=("store_quad(y_wide + at, q, 4);",), through=("store_quad",),
        why="The results are float, and the buffer has room for as many bfloat16 numbers.",
    ),
    Bug(
        name="linear_mma_bias_as_float",
        file="gemm_mma.cu", kernel="linear_mma_forward_bias", kind="out-of-bounds",
        scenario="linear_mma_bias",
        old="weight, const __nv_bfloat16* __restrict__ bias, int M, int N,",
        new="weight, const float* __restrict__ bias, int M, int N,",
        through=("load_pair", "start_sums"),
        why="The bias is bfloat16 and is read as float: its second half lies past the end.",
    ),
    Bug(
        name="linear_mma_active_over_its_input",
        file="gemm_mma.cu", kernel="linear_mma_forward_gelu", kind="global-race",
        scenario="linear_mma_gelu", old="", new="", fault="in place",
        at=("store_packed(active + at, q.active);",), through=("store_packed", *_COPIES),
        why="The layer is as wide as its input and overwrites it: a block writes rows that its"
            " neighbour reads.",
    ),
    Bug(
        name="linear_mma_residual_not_copied",
        file="gemm_mma.cu", kernel="linear_mma_forward_residual", kind="uninitialised-read",
        scenario="linear_mma_residual", old="", new="", fault="residual not copied",
        at=("return load_quad(residual + (size_t)row * N + column, 4);",), through=("load_quad",),
        why="out is its own residual, and nobody has copied the stream into it.",
    ),
    Bug(
        name="linear_mma_first_tile_of_nobody",
        file="gemm_mma.cu", kernel="linear_mma_reduce", kind="uninitialised-read",
        scenario="linear_mma_backward_gelu",
        old=_WITH_HIDDEN + "if (block >= input_blocks) {",
        new=_WITH_HIDDEN + "if (block > input_blocks) {",
        at=("for (int z = 0; z < splits; z++) sum = add_quad(sum, load_quad(partial",),
        through=("load_quad",),
        why="The first block of the weight's gradient takes itself for one of dx, behind its last"
            " row: linear_mma_reduce sums a tile that nobody has written.",
    ),
)  # fmt: skip

TF32 = (
    Bug(
        name="linear_tf32_bias_by_whole_quads",
        file="linear_tf32.cu", kernel="linear_tf32_forward", kind="out-of-bounds",
        scenario="linear_tf32",
        old="load_valid<false>(bias + own.column, own.valid)",
        new="load_valid<true>(bias + own.column, own.valid)",
        through=("load_valid", "load_whole_quad"),
        why="The last of 19 columns' quads has three, and four of the bias are read.",
    ),
    Bug(
        name="linear_tf32_early_return",
        file="linear_tf32.cu", kernel="linear_tf32_forward_relu", kind="divergent-barrier",
        scenario="linear_tf32_relu",
        old=_ADD + _PRODUCT + _LEAVE, new=_LEAVE + _ADD + _PRODUCT,
        at=("if (!own.valid) return;", "multiply_slices(sums, slice, a, nullptr, b, K);",
            "float4 z = add_quad(add_warps(room, sums), add);"),
        through=("add_warps", "multiply_slices", "multiply_add_tf32"),
        other_kinds=(("uninitialised-read", "those that left have not put their sums into room"),
                     ("shuffle-mask", "a product of tensor cores wants all lanes of the warp")),
        why="Threads that finish no result leave before the barrier, and six of eight warps with"
            " them whose sums the others add.",
    ),
    Bug(
        name="linear_tf32_odd_rows_taken_for_whole",
        file="linear_tf32.cu", kernel="linear_tf32_backward", kind="misaligned",
        scenario="linear_tf32_backward",
        old="backward<false, false>(", new="backward<false, true>(",
        at=("slice.load(a, y, b, slice.first_depth(), N);",),
        through=("load_valid", "load_whole_quad", "load_sixteen"),
        other_kinds=(("out-of-bounds", "the quad of dy's last number ends behind it"),),
        why="Both branches are the one for rows of whole quads; those of dy are 19 floats long.",
    ),
    Bug(
        name="linear_tf32_lines_behind_the_barrier",
        file="linear_tf32.cu", kernel="linear_tf32_backward_relu", kind="shared-race",
        scenario="linear_tf32_backward_relu",
        old=_LINES + _WARPS, new=_WARPS + _LINES,
        at=("VECTOR for (int w = 0; w < WARPS; w++) sum += room.lines[w][line];",),
        through=("put_lines",),
        why="The warps put their sums of dy down after the barrier, and the first warp adds them"
            " up with none in between.",
    ),
)  # fmt: skip

LINEAR = MMA + TF32
