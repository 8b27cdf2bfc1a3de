"""Seeded bugs: memory that was given up, and memory that nobody has written."""

from __future__ import annotations

from tests.check.bugs.bug import Bug

_ADD = "store_quad(out + i, add_quad(load_quad(a + i, valid), load_quad(b + i, valid)), valid);"
_REDUCE = "sum = add_quad(sum, load_quad(partial + z * count + first, valid));"

STALE = (
    Bug(
        name="add_freed_input",
        file="residual.cu", kernel="residual_add", kind="use-after-free", scenario="residual_add",
        old="", new="", fault="freed", at=(_ADD,), through=("load_quad",),
        why="The input was given back before the launch; its address was kept as a number.",
    ),
    Bug(
        name="add_input_handed_out_again",
        file="residual.cu", kernel="residual_add", kind="use-after-free", scenario="residual_add",
        old="", new="", fault="handed out again", at=(_ADD,), through=("load_quad",),
        why="The input was given back and its memory belongs to another tensor by now, whose"
            " numbers are added.",
    ),
    Bug(
        name="split_k_workspace_given_back",
        file="gemm.cu", kernel="gemm_reduce", kind="use-after-free", scenario="gemm_split",
        old="", new="", fault="workspace given back", at=(_REDUCE,), through=("load_quad",),
        why="The workspace is given back between the launch that fills it and the one that sums.",
    ),
    Bug(
        name="gelu_graph_freed_input",
        file="gelu.cu", kernel="gelu_backward", kind="use-after-free",
        scenario="gelu_backward_graph", old="", new="", fault="freed before a replay",
        at=("float4 g = load_quad(dactivation + i, valid), x = load_quad(pre + i, valid);",),
        through=("load_quad",),
        why="The recorded graph holds the address of a buffer that is freed before the replay.",
    ),
    Bug(
        name="gather_stale_row",
        file="scatter.cu", kernel="gather_rows", kind="use-after-free", scenario="gather_rows",
        old="", new="", fault="row freed", at=("out[blockIdx.y * C + c] = row[c];",),
        why="A table in device memory still holds the address of a row that was freed.",
    ),
)  # fmt: skip

UNWRITTEN = (
    Bug(
        name="gemm_added_to_nothing",
        file="gemm.cu", kernel="gemm_nn", kind="uninitialised-read", scenario="gemm_nn",
        old="", new="", fault="added to nothing",
        at=("to[j] = accumulate ? widened(to[j]) + sum[i][j] : sum[i][j];",),
        why="With accumulate 1 the product is added to an output that nobody has written.",
    ),
    Bug(
        name="layernorm_gradient_not_zeroed",
        file="layernorm_backward.cu", kernel="layernorm_parameters", kind="uninitialised-read",
        scenario="layernorm_parameters", old="", new="", fault="added to what is there",
        at=("gradients[place] = accumulate ? gradients[place] + sum : sum;",),
        why="The parameters' gradients are accumulated into memory that was never set to zero.",
    ),
    Bug(
        name="embedding_gradient_not_zeroed",
        file="embedding.cu", kernel="embedding_windows", kind="uninitialised-read",
        scenario="embedding_backward",
        old="if (accumulate) sum = add_quad(load_quad(to, valid), sum);",
        new="sum = add_quad(load_quad(to, valid), sum);",
        through=("load_quad",),
        why="The kernel adds to its output although it was asked to overwrite it.",
    ),
    Bug(
        name="adamw_moments_not_zeroed",
        file="adamw.cu", kernel="adamw", kind="uninitialised-read", scenario="adamw",
        old="", new="", fault="moments not zeroed",
        at=("load_turn(a, m, first, n, whole);", "load_turn(b, v, first, n, whole);"),
        through=("load_turn", "load_quad"),
        why="The first step reads moments that were allocated and never set to zero.",
    ),
    Bug(
        name="dropout_state_not_saved",
        file="dropout.cu", kernel="dropout_backward", kind="uninitialised-read",
        scenario="dropout", old="    if (quad == 0) *saved = at;\n", new="",
        at=("float4 q = masked_quad(load_quad(dy + quad * 4, valid), *saved, quad, threshold",),
        why="Forward does not save its counter, and backward reads what nobody has written.",
    ),
    Bug(
        name="column_sum_chunks_rounded_down",
        file="bias.cu", kernel="column_sum_final", kind="uninitialised-read",
        scenario="column_sum", old="", new="", fault="rounded down",
        at=("for (int chunk = 0; chunk < chunks; chunk++) sum +=",),
        why="The first launch rounds the number of chunks down, the second sums a chunk that was"
            " never written.",
    ),
    Bug(
        name="mean_loss_shared_not_written",
        file="cross_entropy.cu", kernel="mean_loss", kind="uninitialised-read",
        scenario="mean_loss_few", old="    sums[t] = sum;", new="    if (t < rows) sums[t] = sum;",
        at=("u += MEAN_SUMS) sum += sums[u];",),
        why="Threads without a row leave their place of shared memory unwritten, and it is summed.",
    ),
    Bug(
        name="attention_tile_tail_not_written",
        file="attention.cu", kernel="attention_forward", kind="uninitialised-read",
        scenario="attention_short",
        old="        if (first + row < T) q = load_quad(from + (first + row) * stride + d, 4);",
        new="        if (first + row >= T) continue;\n"
            "        q = load_quad(from + (first + row) * stride + d, 4);",
        at=("VECTOR for (int j = 0; j < GROUP; j++) products[j] = fmaf(x, column[j]",
            "VECTOR for (int d = 0; d < HEAD_SIZE; d++) sums[d] = fmaf(weight, row[d]",
            "group_dot(s, q, k_columns, j0);\n"
            "            UNROLL for (int j = 0; j < GROUP; j++) {\n                if",
            "add_scaled(sums, p, v_rows[j0 + j]);"),
        why="Rows of the tile past the sequence stay unwritten and are multiplied by a weight of"
            " 0, which a NaN in shared memory survives.",
    ),
    Bug(
        name="window_sum_end_not_written",
        file="vectors.cu", kernel="window_sum", kind="uninitialised-read", scenario="window_sum",
        old="if (t == 0) tile[0] = i > 0 ? x[i - 1] : 0.0f;",
        new="if (t == 0 && i > 0) tile[0] = x[i - 1];",
        at=("if (i < n) y[i] = tile[t] + tile[t + 1] + tile[t + 2];",),
        why="The first block has no left neighbour and leaves that place of dynamic shared memory"
            " unwritten.",
    ),
)  # fmt: skip

MEMORY = STALE + UNWRITTEN
