"""Seeded bugs: races between blocks, and between threads in device memory."""

from __future__ import annotations

from tests.check.bugs.bug import Bug

_SLAB = ("VECTOR for (int j = 0; j < SIDE; j++) to[j] = sum[i][j];",
         "to[j] = accumulate ? widened(to[j]) + sum[i][j] : sum[i][j];")  # fmt: skip

GLOBAL = (
    Bug(
        name="gemm_slabs_collide",
        file="gemm.cu", kernel="gemm_nt", kind="global-race", scenario="gemm_split",
        old="out_t* slab = out + (size_t)blockIdx.z * m * n;", new="out_t* slab = out;",
        at=_SLAB,
        other_kinds=(("uninitialised-read", "gemm_reduce then reads slabs that nobody wrote"),),
        why="All slabs of the split product are written to the first one's place by blocks that"
            " nothing orders.",
    ),
    Bug(
        name="gemm_in_place",
        file="gemm.cu", kernel="gemm_nn", kind="global-race", scenario="gemm_square",
        old="", new="", fault="in place",
        at=(*_SLAB, "else load_columns(a_tile",
            "q = load_quad(source + (size_t)(i0 + i) * ld + k0 + k, quad_valid(k0 + k"),
        through=("load_quad",),
        why="The output is the left factor: a block overwrites rows that its neighbour reads.",
    ),
    Bug(
        name="column_sum_chunks_collide",
        file="bias.cu", kernel="column_sum_partial", kind="global-race", scenario="column_sum",
        old="store_quad(partial + (size_t)blockIdx.y * C + c, sum, valid);",
        new="store_quad(partial + c, sum, valid);",
        through=("store_quad",),
        other_kinds=(("uninitialised-read", "column_sum_final then reads unwritten chunks"),),
        why="The blocks of all chunks write their sums to the same place.",
    ),
    Bug(
        name="layernorm_partial_stride",
        file="layernorm_backward.cu", kernel="layernorm_backward", kind="global-race",
        scenario="layernorm_parameters",
        old="float* own = partial + (size_t)blockIdx.x * stride;",
        new="float* own = partial + (size_t)blockIdx.x * C;",
        at=("store_quad(partial + c, dweight, quad_valid(c, C));",
            "store_quad(partial + C + c, dbias, quad_valid(c, C));"),
        through=("store_quad", "column_sums", "add_slots"),
        other_kinds=(("uninitialised-read", "layernorm_parameters then reads unwritten sums"),),
        why="A chunk has two rows of sums and the stride is one: a block writes dbias where the"
            " next block writes dweight.",
    ),
    Bug(
        name="attention_heads_share_lse",
        file="attention.cu", kernel="attention_forward", kind="global-race", scenario="attention",
        old="h.lse_first = ((size_t)b * heads + head) * T;", new="h.lse_first = (size_t)b * T;",
        at=("lse[h.lse_first + row] = peak + logf(total);",),
        other_kinds=(("uninitialised-read", "the copy to the host reads the other head's part"),),
        why="The offset leaves the head out: the blocks of all heads write the same lse.",
    ),
    Bug(
        name="copy_bytes_overlapping",
        file="copy.cu", kernel="copy_bytes", kind="global-race", scenario="copy_bytes",
        old="", new="", fault="overlaps",
        at=("*reinterpret_cast<float4*>(out + i) = *reinterpret_cast<const float4*>(in + i);",
            "for (long long end = i + 16"),
        why="In and out overlap: each thread writes what the thread before it reads.",
    ),
    Bug(
        name="transpose_in_place",
        file="vectors.cu", kernel="transpose", kind="global-race", scenario="transpose",
        old="", new="", fault="in place",
        at=("tile[threadIdx.y + k][threadIdx.x] = in[", "out[(y + k) * rows + x] = tile["),
        why="Out is in: a block overwrites the tile across the diagonal, another block's input.",
    ),
    Bug(
        name="random_advance_by_a_warp",
        file="dropout.cu", kernel="random_advance", kind="global-race", scenario="dropout",
        old="", new="", fault="a warp of threads",
        at=("random->offset += (unsigned long long)counters;",),
        why="A kernel for one thread is launched with 32, which all add to the same number.",
    ),
    Bug(
        name="scatter_plain_add",
        file="scatter.cu", kernel="scatter_add", kind="global-race", scenario="scatter_add",
        old="atomicAdd(&table[index[i / C] * C + i % C], x[i]);",
        new="table[index[i / C] * C + i % C] += x[i];",
        why="Rows with the same index are added by different threads and blocks without an atomic.",
    ),
    Bug(
        name="histogram_plain_increment",
        file="scatter.cu", kernel="histogram", kind="global-race", scenario="histogram",
        old="atomicAdd(&counts[values[i]], 1);", new="counts[values[i]]++;",
        why="Threads and blocks count into the same bins without an atomic.",
    ),
    Bug(
        name="sum_all_plain_add",
        file="reduce.cu", kernel="sum_all", kind="global-race", scenario="sum_all",
        old="if (threadIdx.x == 0) atomicAdd(total, sum);",
        new="if (threadIdx.x == 0) *total += sum;",
        why="One thread of each block adds to the same float without an atomic.",
    ),
    Bug(
        name="last_block_no_fence",
        file="reduce.cu", kernel="last_block_sum", kind="global-race", scenario="last_block_sum",
        old="    __threadfence();  // the partial sum before the ticket\n", new="",
        at=("partial[blockIdx.x] = sum;", "total += partial[b];"),
        why="Nothing orders a block's partial sum before its relaxed ticket, so the last block may"
            " read what was there before.",
    ),
    Bug(
        name="last_block_plain_ticket",
        file="reduce.cu", kernel="last_block_sum", kind="global-race", scenario="last_block_sum",
        old="atomicAdd(ticket, 1u) == gridDim.x - 1;", new="(*ticket)++ == gridDim.x - 1;",
        at=("bool last = (*ticket)++", "partial[blockIdx.x] = sum;", "total += partial[b];",
            "atomicExch(ticket, 0u);"),
        why="Blocks take their tickets without an atomic: two may get the same, and none be last.",
    ),
    Bug(
        name="locked_sum_no_lock",
        file="reduce.cu", kernel="locked_sum", kind="global-race", scenario="locked_sum",
        old="    while (atomicCAS(lock, 0u, 1u) != 0u) {\n    }\n",
        new="    while (*(volatile unsigned*)lock != 0u) {\n    }\n    *lock = 1u;\n",
        at=("while (*(volatile unsigned*)lock != 0u) {", "*lock = 1u;", "atomicExch(lock, 0u);",
            "total[0] = total[0] + sum;"),
        why="The lock is tested and taken in two steps: two blocks may find it free at once.",
    ),
)  # fmt: skip
