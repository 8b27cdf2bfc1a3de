"""Seeded bugs in a transformer's kernels that came after the first table: fused norms, attention's
backward by tensor cores, the embedding's gradient, wide cross-entropy."""

from __future__ import annotations

from tests.check.bugs.bug import Bug

_NUMBERS = ("ds[n][0] = ds[n][2] = -numbers.delta[slot + 8 * n];",
            "ds[n][1] = ds[n][3] = -numbers.delta[slot + 8 * n + 1];",
            "float base = numbers.lse[slot + 8 * n + r % 2] * LOG2_E;")  # fmt: skip

ATTENTION = (
    Bug(
        name="attention_mma_numbers_end_with_the_rows",
        file="attention_mma.cu", kernel="attention_mma_backward", kind="uninitialised-read",
        scenario="attention_mma_fused",
        old="if (block_row + i / TILE * TILE >= T) break;", new="if (block_row + i >= T) break;",
        at=_NUMBERS,
        why="Numbers are made up to the last rows that exist, and the last tile reads 64: its rest"
            " of shared memory was never written.",
    ),
    Bug(
        name="attention_mma_delta_by_rows_that_exist",
        file="attention_mma.cu", kernel="attention_mma_backward_query", kind="shuffle-mask",
        scenario="attention_mma_backward",
        old="own_delta[half] = row_delta(g_at + at, out + h.out_first + at, row < T);",
        new="own_delta[half] = row < T ? row_delta(g_at + at, out + h.out_first + at, true)"
            " : 0.0f;",
        through=("row_delta", "row_sum"),
        why="Lanes without a row leave out a function that shuffles with a mask naming them.",
    ),
)  # fmt: skip

ELEMENTS = (
    Bug(
        name="relu_forward_whole_quads",
        file="relu.cu", kernel="bias_relu_forward", kind="global-race", scenario="relu_forward",
        old="store_quad(to, x, valid);", new="store_quad(to, x, 4);",
        at=("store_quad(to, x, 4);", "float4 x = add_quad(load_quad(to, valid)"),
        through=("store_quad", "load_quad"),
        other_kinds=(("out-of-bounds", "the last row's quad ends behind the matrix"),),
        why="Rows have 37 columns, and the last quad's thread writes three of the next row, which"
            " another thread turns into its own results.",
    ),
    Bug(
        name="adamw_shadow_of_a_view",
        file="adamw.cu", kernel="adamw_shadow", kind="misaligned", scenario="adamw_shadow",
        old="first + TURN <= n && quad_aligned(param));", new="first + TURN <= n);",
        through=("load_turn",),
        why="The parameters begin at a second float, and a whole turn is read by quads.",
    ),
)  # fmt: skip

EMBEDDING = (
    Bug(
        name="embedding_ranks_warp_barrier",
        file="embedding.cu", kernel="embedding_order", kind="shared-race",
        scenario="embedding_backward",
        old="    ranks[share][lane] = rank;\n    __syncthreads();\n",
        new="    ranks[share][lane] = rank;\n    __syncwarp();\n",
        at=("ranks[share][lane] = rank;", "rank += ranks[other][lane];"),
        why="The first warp adds what the seven others have counted, with a barrier for itself"
            " alone.",
    ),
    Bug(
        name="embedding_last_bound_not_read",
        file="embedding.cu", kernel="embedding_finish", kind="uninitialised-read",
        scenario="embedding_backward",
        old="if ((int)threadIdx.x <= own) bounds", new="if ((int)threadIdx.x < own) bounds",
        at=("Run run = run_of(bounds[list], bounds[list + 1]);\n        shared",
            "Run run = run_of(bounds[list], bounds[list + 1]);\n        if (run"),
        why="Lists have one bound more than there are lists, and the last one's end is not put into"
            " shared memory.",
    ),
)  # fmt: skip

ROWS = (
    Bug(
        name="layernorm_residual_pivot_not_guarded",
        file="layernorm.cu", kernel="layernorm_residual_forward", kind="out-of-bounds",
        scenario="layernorm_residual",
        old="float pivot = me.columns ? residual[at] + (branch[at] + branch_bias[0]) : 0.0f;",
        new="float pivot = residual[at] + (branch[at] + branch_bias[0]);",
        at=("float pivot = residual[at] + (branch[at] + branch_bias[0]);",
            # A macro's lines are where it is used.
            "    FOR_HELD(C, whole, NORM)\n#undef NORM\n}\n\n// Overwrites x[row] = token_table"),
        why="The lanes of 15 rows behind the last read those rows' first elements.",
    ),
    Bug(
        name="layernorm_embedding_padding_token",
        file="layernorm.cu", kernel="layernorm_embedding_forward", kind="out-of-bounds",
        scenario="layernorm_embedding", old="", new="", fault="padding token",
        at=("float pivot = me.columns ? token[0] + position[0] : 0.0f;",),
        through=("load_held", "filled_quad", "load_quad", "load_whole_quad"),
        why="A token of -1, for padding, takes the row in front of the table.",
    ),
    Bug(
        name="cross_entropy_wide_one_element_more",
        file="cross_entropy_wide.cu", kernel="cross_entropy_wide_forward", kind="out-of-bounds",
        scenario="cross_entropy_wide_forward",
        old="row.edge = place < V ? place : -1;", new="row.edge = place <= V ? place : -1;",
        at=("float edge[1] = {",),
        why="Behind each row's last element another one is taken along, and behind the last row"
            " there is none.",
    ),
    Bug(
        name="cross_entropy_wide_less_room",
        file="cross_entropy_wide.cu", kernel="cross_entropy_wide_forward_backward",
        kind="out-of-bounds", scenario="cross_entropy_wide_room",
        old="", new="", fault="bytes of half the vectors",
        through=("start_copy", "add_turn", "widen_vector", "write_gradients"),
        why="The launch gives 8 bytes of dynamic shared memory for a vector of 16.",
    ),
)  # fmt: skip

TRANSFORMER = ATTENTION + ELEMENTS + EMBEDDING + ROWS
