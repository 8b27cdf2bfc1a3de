"""Seeded bugs: races in the shared memory of a block."""

from __future__ import annotations

from tests.check.bugs.bug import Bug

_TILE_WRITES = ("columns[d + 0][row] = q.x;", "columns[d + 1][row] = q.y;",
                "columns[d + 2][row] = q.z;", "columns[d + 3][row] = q.w;",
                "if (rows) store_quad(&rows[row][d], q, 4);")  # fmt: skip
_TILE_READS = (
    "VECTOR for (int j = 0; j < GROUP; j++) products[j] = fmaf(x, column[j]",
    "VECTOR for (int d = 0; d < HEAD_SIZE; d++) sums[d] = fmaf(weight, row[d]",
)
_FORWARD_CALLS = ("load_tile(k_columns, nullptr, q_at + h.C",
                  "load_tile(nullptr, v_rows, q_at + 2 * h.C",
                  "add_scaled(sums, p, v_rows[j0 + j]);")  # fmt: skip
_QUERY_CALLS = ("load_tile(k_columns, k_rows, q_at + h.C",
                "load_tile(v_columns, nullptr, q_at + 2 * h.C",
                "group_dot(dp, g, v_columns, j0);",
                "add_scaled(dq, p * (dp[j] - own_delta), k_rows[j0 + j]);")  # fmt: skip
_GEMM = ("tile[k + 0][i] = q.x;", "tile[k + 1][i] = q.y;", "tile[k + 2][i] = q.z;",
         "tile[k + 3][i] = q.w;", "store_quad(&tile[k][i], q, 4);", "float x = left[i];",
         "VECTOR for (int j = 0; j < SIDE; j++) sum[i][j] = fmaf(",
         "if (TRANS_A) load_rows(a_tile", "else load_columns(a_tile",
         "if (TRANS_B) load_columns(b_tile", "else load_rows(b_tile")  # fmt: skip
_REUSED = "every pass overwrites the tile that slower warps still read."

SHARED = (
    Bug(
        name="relu_backward_no_barrier",
        file="relu.cu", kernel="bias_relu_backward", kind="shared-race",
        scenario="relu_backward",
        old="    sums[lane][quad] = sum;\n    __syncthreads();\n",
        new="    sums[lane][quad] = sum;\n",
        at=("sums[lane][quad] = sum;",
            "for (int l = 1; l < ROW_STRIDE; l++) sum = add_quad(sum, sums[l][quad]);"),
        why="The first lane of a column adds the sums of the others with no barrier after their"
            " writes.",
    ),
    Bug(
        name="layernorm_forward_no_barrier",
        file="layernorm.cu", kernel="layernorm_forward", kind="shared-race",
        scenario="layernorm_forward",
        old="    set_sums(sums, me, sum, squares);\n    ROW_BARRIER();\n",
        new="    set_sums(sums, me, sum, squares);\n",
        at=("set_sums(sums, me, sum, squares);", "float2 both = added_sums(sums, me);"),
        through=("set_sums", "added_sums", "normalise"),
        why="The lanes of a row read one another's sums with no barrier in between; that they are"
            " in one warp orders nothing since Volta.",
    ),
    Bug(
        name="cross_entropy_no_barrier",
        file="cross_entropy.cu", kernel="cross_entropy_forward_backward", kind="shared-race",
        scenario="cross_entropy_both",
        old="    peaks[me.slot][me.lane] = own_peak;\n    sums[me.slot][me.lane] = sum;\n"
            "    __syncthreads();\n",
        new="    peaks[me.slot][me.lane] = own_peak;\n    sums[me.slot][me.lane] = sum;\n",
        at=("peaks[me.slot][me.lane] = own_peak;",
            "peaks[me.slot][me.lane] = own_peak;\n    sums[me.slot][me.lane] = sum;",
            "    sums[me.slot][me.lane] = sum;\n    if (me.columns == 0) return;",
            "float top = peaks[0], total = 0.0f;", "top = fmaxf(top, peaks[l]);",
            "total += sums[l] * expf(peaks[l] - top);",
            "    merge_softmax(&peak, &sum, peaks[me.slot], sums[me.slot]);\n    float4 factor"),
        why="Each lane merges the peaks and sums of the others with no barrier after their writes.",
    ),
    Bug(
        name="cross_entropy_wide_warp_barrier",
        file="cross_entropy_wide.cu", kernel="cross_entropy_wide_forward_backward",
        kind="shared-race", scenario="cross_entropy_wide",
        old="    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = own;\n    __syncthreads();\n",
        new="    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = own;\n    __syncwarp();\n",
        at=("if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = own;",
            "return lanes_softmax<WARPS>(warps[threadIdx.x % WARPS]);"),
        through=("block_softmax",),
        why="Each warp merges what the 15 others found, with a barrier for itself alone.",
    ),
    Bug(
        name="mean_loss_warp_barrier",
        file="cross_entropy.cu", kernel="mean_loss", kind="shared-race", scenario="mean_loss",
        old="    sums[t] = sum;\n    __syncthreads();",
        new="    sums[t] = sum;\n    __syncwarp();",
        at=("sums[t] = sum;", "u += MEAN_SUMS) sum += sums[u];"),
        why="The block has 16 warps: a barrier of the warp does not order the other ones' sums.",
    ),
    Bug(
        name="attention_no_first_barrier",
        file="attention.cu", kernel="attention_forward", kind="shared-race", scenario="attention",
        old="        __syncthreads();  // the last tile has been read\n", new="",
        at=_TILE_WRITES + _TILE_READS + _FORWARD_CALLS, through=("store_quad",),
        why="Without a barrier at the loop's begin " + _REUSED,
    ),
    Bug(
        name="attention_query_no_second_barrier",
        file="attention.cu", kernel="attention_backward_query", kind="shared-race",
        scenario="attention_backward",
        old="        load_tile(v_columns, nullptr, q_at + 2 * h.C, h.stride, first, T, 1.0f);\n"
            "        __syncthreads();\n",
        new="        load_tile(v_columns, nullptr, q_at + 2 * h.C, h.stride, first, T, 1.0f);\n",
        at=_TILE_WRITES + _TILE_READS + _QUERY_CALLS, through=("store_quad",),
        why="The tile is read before the other warp has filled its half.",
    ),
    Bug(
        name="attention_key_late_tiles",
        file="attention.cu", kernel="attention_backward_key", kind="shared-race",
        scenario="attention_backward",
        old="""        if (threadIdx.x < TILE) {
            int i = first + threadIdx.x;
            lse_tile[threadIdx.x] = i < T ? lse[h.lse_first + i] : 0.0f;
            delta_tile[threadIdx.x] = i < T ? delta[h.lse_first + i] : 0.0f;
        }
        __syncthreads();
""",
        new="""        __syncthreads();
        if (threadIdx.x < TILE) {
            int i = first + threadIdx.x;
            lse_tile[threadIdx.x] = i < T ? lse[h.lse_first + i] : 0.0f;
            delta_tile[threadIdx.x] = i < T ? delta[h.lse_first + i] : 0.0f;
        }
""",
        at=("lse_tile[threadIdx.x] =", "delta_tile[threadIdx.x] =",
            "float p = i0 + i >= begin ? expf(s[i] - lse_tile[i0 + i]) : 0.0f;",
            "add_scaled(dk, p * (dp[i] - delta_tile[i0 + i]), q_rows[i0 + i]);"),
        why="The first warp fills two small tiles after the barrier that was to cover them, and the"
            " second warp reads them.",
    ),
    Bug(
        name="gemm_no_first_barrier",
        file="gemm.cu", kernel="gemm_nn", kind="shared-race", scenario="gemm_nn",
        old="        __syncthreads();\n        int depth =", new="        int depth =",
        at=_GEMM, through=("store_quad",),
        why="The products start before the other threads have filled their part of the tiles.",
    ),
    Bug(
        name="gemm_no_second_barrier",
        file="gemm.cu", kernel="gemm_tn", kind="shared-race", scenario="gemm_tn",
        old="        __syncthreads();  // the next pass overwrites the tiles\n", new="",
        at=_GEMM, through=("store_quad",),
        why="Without a barrier at the loop's end " + _REUSED,
    ),
    Bug(
        name="block_sum_one_barrier",
        file="reduce.cu", kernel="block_sum", kind="shared-race", scenario="block_sum",
        old="""            tree[t] += tree[t + s];
        }
        __syncthreads();
    }
""",
        new="""            tree[t] += tree[t + s];
        }
    }
    __syncthreads();
""",
        at=("            tree[t] += tree[t + s];\n",),
        why="A level of the tree reads what the level before has not finished: the barrier stands"
            " behind the loop.",
    ),
    Bug(
        name="row_stats_tree_reused",
        file="reduce.cu", kernel="row_stats", kind="shared-race", scenario="row_stats",
        old="    __syncthreads();  // every thread has its sum\n", new="",
        at=("    tree[t] = x;\n", "return tree[0];", "float average = tree_sum(tree, sum) / C;",
            "squares = tree_sum(tree, squares);"),
        why="The second sum overwrites tree[0] while slower warps still read the first one's.",
    ),
    Bug(
        name="transpose_no_barrier",
        file="vectors.cu", kernel="transpose", kind="shared-race", scenario="transpose",
        old="    __syncthreads();\n    x = blockIdx.y", new="    x = blockIdx.y",
        at=("tile[threadIdx.y + k][threadIdx.x] = in[", "= tile[threadIdx.x][threadIdx.y + k];"),
        why="Every warp reads columns of the tile that other warps have written rows of.",
    ),
)  # fmt: skip
