"""Seeded bugs in the backward kernels of a Mamba-2 block, its state space layer excepted."""

from __future__ import annotations

from tests.check.bugs.bug import Bug

MAMBA_BACKWARD = (
    Bug(
        name="conv1d_sums_over_rows",
        file="conv1d.cu", kernel="conv1d_backward", kind="shared-race",
        scenario="conv1d_backward",
        old="        if (at.valid) store_quad(to, sum, at.valid);\n    }\n    __syncthreads();\n}",
        new="        if (at.valid) store_quad(to, sum, at.valid);\n    }\n}",
        at=("w.sums[k][at.lane][at.quad] = sums[k];",),
        through=("add_steps", "convolved", "load_rows"),
        why="The sums lie where the rows were, and so do the next turn's rows: both are written"
            " while slower warps still read.",
    ),
    Bug(
        name="conv1d_partial_given_back",
        file="conv1d.cu", kernel="conv1d_backward_final", kind="use-after-free",
        scenario="conv1d_backward", old="", new="", fault="workspace given back",
        at=("sum += partial[((size_t)chunk * (CONV_WIDTH + 1) + k) * C + c];",),
        why="The workspace is given back between the launch that fills it and the one that sums.",
    ),
    Bug(
        name="gated_norm_gate_rows_not_asked",
        file="gated_norm.cu", kernel="gated_norm_backward", kind="misaligned",
        scenario="gated_norm_backward",
        old="whole_rows(z, z_row, C) && quad_aligned(weight) &&\n",
        new="whole_rows(z, C, C) && quad_aligned(weight) &&\n",
        through=("load_held", "load_quad_of", "load_quad", "write_row", "store_quad", "load_row"),
        why="Rows of z are 41 floats apart, so only every fourth begins at a multiple of 16 bytes,"
            " and the kernel asks about rows of 40.",
    ),
    Bug(
        name="gated_update_stride_of_gates",
        file="gated_update.cu", kernel="gated_update_backward", kind="out-of-bounds",
        scenario="gated_update_backward",
        old="float4 g = load_quad(dnext + at.h, at.valid)",
        new="float4 g = load_quad(dnext + at.gate, at.valid)",
        through=("load_quad",),
        why="dnext has rows of C, and is read as if they were 2C apart like those of gates.",
    ),
    Bug(
        name="gated_update_numpy_gradient",
        file="gated_update.cu", kernel="gated_update_bias_final", kind="host-pointer",
        scenario="gated_update_backward", old="", new="", fault="host gradient",
        at=("*to = sum;",),
        why="The gate's bias gradient is to go into an array of NumPy's.",
    ),
    Bug(
        name="gated_loop_sums_not_guarded",
        file="gated_loop.cu", kernel="gated_loop_backward", kind="shared-race",
        scenario="gated_loop",
        old="if (c < C) *reinterpret_cast<float2*>(&w.sums[me.g][i / 2 * C + c]) = sums[i];",
        new="*reinterpret_cast<float2*>(&w.sums[me.g][i / 2 * C + c]) = sums[i];",
        why="Lanes behind the last of 40 columns put zeros where other warps put the candidate's"
            " sums.",
    ),
    Bug(
        name="readout_bias_in_the_columns",
        file="readout.cu", kernel="readout_bce", kind="global-race",
        scenario="readout_backward",
        old="float* dbias = partial + (size_t)gridDim.x * C + blockIdx.x;",
        new="float* dbias = partial + (size_t)blockIdx.x * C + C;",
        at=("if (c == 0) *dbias = adds ? *dbias + total : total;",
            "store_quad(partial + c, adds ? add_quad(load_quad(partial + c, valid), sum) : sum,"
            " valid);"),
        through=("store_quad", "backward_rows"),
        other_kinds=(("uninitialised-read", "readout_backward_final reads sums not written"),),
        why="A chunk's sum of dy is written behind its columns, where the next block's columns"
            " begin.",
    ),
    Bug(
        name="readout_gradient_before_it_is_there",
        file="readout.cu", kernel="readout_bce", kind="shared-race", scenario="readout_backward",
        old="                dy[row] = element_slope(y, target) * scale;\n            }\n"
            "            __syncthreads();\n",
        new="                dy[row] = element_slope(y, target) * scale;\n            }\n",
        at=("dy[row] = element_slope(y, target) * scale;", "float g = dy[row];"),
        through=("backward_rows",),
        other_kinds=(("uninitialised-read", "dy is read before any thread wrote it"),),
        why="The warps of the rows read dy with no barrier after the ninth warp wrote it.",
    ),
    Bug(
        name="readout_loss_without_a_fence",
        file="readout.cu", kernel="readout_bce", kind="global-race", scenario="readout_backward",
        old="        losses[blockIdx.x] = sum;\n        __threadfence();\n",
        new="        losses[blockIdx.x] = sum;\n",
        at=("losses[blockIdx.x] = sum;",
            "all += b + lane < blocks ? __ldcg(losses + b + lane) : 0.0;"),
        through=("finish_loss",),
        why="A block takes its ticket before its sum is there for others: the last one may add what"
            " was in its place.",
    ),
    Bug(
        name="readout_sums_not_joined",
        file="readout.cu", kernel="readout_backward_final", kind="node-race",
        scenario="readout_backward", old="", new="", fault="no event",
        why="The chunks are summed on a side stream that does not wait for the launch that makes"
            " them.",
    ),
    Bug(
        name="rms_norm_backward_early_return",
        file="rms_norm.cu", kernel="rms_norm_backward", kind="divergent-barrier",
        scenario="rms_norm_backward",
        old="    products[me.slot][me.lane] = product;\n    __syncthreads();\n"
            "    if (me.columns == 0) return;\n",
        new="    if (me.columns == 0) return;\n"
            "    products[me.slot][me.lane] = product;\n    __syncthreads();\n",
        at=("if (me.columns == 0) return;\n    products",
            "__syncthreads();\n\n    float average = 0.0f"),
        why="In the last block 15 of 16 rows do not exist, and their lanes return before the"
            " barrier.",
    ),
    Bug(
        name="rms_norm_in_place_beside_its_sums",
        file="rms_norm.cu", kernel="rms_norm_backward_partial", kind="node-race",
        scenario="rms_norm_backward", old="", new="", fault="in place beside",
        why="dx takes the place of dy while the weight's sums on a side stream still read dy.",
    ),
    Bug(
        name="bce_final_early_return",
        file="bce.cu", kernel="bce_final", kind="divergent-barrier", scenario="bce_blocks",
        old="    sums[threadIdx.x] = (int)threadIdx.x < blocks ? partial[threadIdx.x] : 0.0f;\n"
            "    __syncthreads();\n    if (threadIdx.x > 0) return;\n    double sum = 0.0;\n"
            "    UNROLL for (int t = 0; t < MOST_BLOCKS; t++) sum += sums[t];\n",
        new="    if ((int)threadIdx.x >= blocks) return;\n"
            "    sums[threadIdx.x] = partial[threadIdx.x];\n"
            "    __syncthreads();\n    if (threadIdx.x > 0) return;\n    double sum = 0.0;\n"
            "    for (int t = 0; t < blocks; t++) sum += sums[t];\n",
        why="The threads without a partial sum return before the barrier that three others reach.",
    ),
)  # fmt: skip
