"""Seeded bugs in the kernels of a Mamba-2 block."""

from __future__ import annotations

from tests.check.bugs.bug import Bug

MAMBA = (
    Bug(
        name="conv1d_before_the_first_step",
        file="conv1d.cu", kernel="conv1d_forward", kind="out-of-bounds", scenario="conv1d",
        old="row < COUNT && t >= 0 && t < T", new="row < COUNT && t < T",
        through=("load_quad", "load_quad_of"),
        why="The first sequence's window reaches three steps back, in front of x.",
    ),
    Bug(
        name="gated_norm_no_barrier",
        file="gated_norm.cu", kernel="gated_norm_forward", kind="shared-race",
        scenario="gated_norm",
        old="    squares[me.slot][me.lane] = square;\n    __syncthreads();\n",
        new="    squares[me.slot][me.lane] = square;\n",
        at=("squares[me.slot][me.lane] = square;",), through=("sum_lanes",),
        why="The lanes of a row read one another's sums with no barrier in between.",
    ),
    Bug(
        name="bce_one_sum_more",
        file="bce.cu", kernel="bce_partial", kind="out-of-bounds", scenario="bce",
        old="for (int t = 1; t < THREADS; t++) sum += sums[t];",
        new="for (int t = 1; t <= THREADS; t++) sum += sums[t];",
        why="Thread 0 reads one sum past the shared array of 64.",
    ),
    Bug(
        name="ssd_scores_whole_chunks",
        file="ssd.cu", kernel="ssd_scores", kind="out-of-bounds", scenario="ssd",
        old="load_tile(c + origin, bc_row, t, rows, n, valid);",
        new="load_tile(c + origin, bc_row, t, CHUNK, n, valid);",
        through=("load_tile", "load_quad"),
        why="The last chunk has 13 steps: rows of the next sequence are read, or past the end.",
    ),
    Bug(
        name="ssd_output_no_barrier",
        file="ssd.cu", kernel="ssd_output", kind="shared-race", scenario="ssd",
        old="        mix[s][t] = weight * scores[k.scores * CHUNK * CHUNK + i];\n    }\n"
            "    __syncthreads();\n",
        new="        mix[s][t] = weight * scores[k.scores * CHUNK * CHUNK + i];\n    }\n",
        at=("mix[s][t] = weight * scores[k.scores * CHUNK * CHUNK + i];",
            "add_outer(sum, load_quad(&mix[s][t], 4)"),
        through=("load_quad",),
        why="A thread multiplies with weights of the chunk that another one is still to write.",
    ),
    Bug(
        name="ssd_scan_one_chunk_late",
        file="ssd_backward.cu", kernel="ssd_backward_scan", kind="out-of-bounds", scenario="ssd",
        old="for (int chunk = chunks - 1; chunk >= 0;", new="for (int chunk = chunks; chunk >= 0;",
        at=("float4 own = load_quad(at, valid);", "store_quad(at, after, valid);"),
        through=("load_quad", "store_quad"),
        why="The way back begins one chunk late: behind the last sequence's states there is none.",
    ),
    Bug(
        name="ssd_head_no_barrier",
        file="ssd_backward_head.cu", kernel="ssd_backward_head", kind="shared-race",
        scenario="ssd",
        old="        w.entered[r] = sum_lanes(w.parts[2], r);\n    }\n    __syncthreads();\n",
        new="        w.entered[r] = sum_lanes(w.parts[2], r);\n    }\n",
        at=("w.cross[r][s] = sum;", "w.entered[r] = sum_lanes(w.parts[2], r);",
            "w.left[r] = sum_lanes(w.parts[1], r);",
            "for (int t = r; t < rows; t++) da += w.cross[t][r] + w.entered[t];",
            "for (int s = 0; s < r; s++) da += w.left[s];"),
        why="A step's gradient reads the sums of other steps with no barrier after their writes.",
    ),
    Bug(
        name="ssd_short_no_barrier",
        file="ssd_short.cu", kernel="ssd_short_forward", kind="shared-race", scenario="ssd_short",
        old="            w.mix.cell[square_at(t, s)] = factor(weight * part.d[j][e]);\n"
            "        }\n    }\n    __syncthreads();\n",
        new="            w.mix.cell[square_at(t, s)] = factor(weight * part.d[j][e]);\n"
            "        }\n    }\n",
        at=("w.mix.cell[square_at(t, s)] = factor(weight * part.d[j][e]);",),
        through=("along_sum",),
        why="Two warps share rows of weights; one multiplies with what the other is to write.",
    ),
    Bug(
        name="ssd_short_one_head_more",
        file="ssd_short_backward.cu", kernel="ssd_short_sum", kind="out-of-bounds",
        scenario="ssd_short",
        old="for (int h = 0; h < H; h++)", new="for (int h = 0; h <= H; h++)",
        through=("load_quad", "load_quad_of"),
        why="Behind the last head's part of the gradients there is none.",
    ),
    Bug(
        name="gated_loop_one_buffer",
        file="gated_loop.cu", kernel="gated_loop_forward", kind="shared-race",
        scenario="gated_loop",
        old="= w.h[turn % 2];", new="= w.h[0];", through=("store_factors", "add_product"),
        why="A warp writes the next turn's factors while another one still reads this turn's.",
    ),
    Bug(
        name="readout_no_barrier",
        file="readout.cu", kernel="readout_forward", kind="shared-race", scenario="readout",
        old="    parts[lane][slot] = part;\n    __syncthreads();\n",
        new="    parts[lane][slot] = part;\n",
        at=("parts[lane][slot] = part;",
            "UNROLL for (int l = 0; l < LANES; l++) sum += parts[l][own];"),
        why="One thread adds a row's parts with no barrier after the others wrote them.",
    ),
    Bug(
        name="rms_norm_no_barrier",
        file="rms_norm.cu", kernel="rms_norm_forward", kind="shared-race", scenario="rms_norm",
        old="    squares[me.slot][me.lane] = square;\n    __syncthreads();\n",
        new="    squares[me.slot][me.lane] = square;\n",
        at=("squares[me.slot][me.lane] = square;",
            "for (int l = 0; l < ROW_LANES; l++) total += squares[me.slot][l];"),
        why="The lanes of a row read one another's sums with no barrier in between.",
    ),
    Bug(
        name="gated_update_one_row_more",
        file="gated_update.cu", kernel="gated_update_forward", kind="out-of-bounds",
        scenario="gated_update",
        old="at.valid = row < rows ?", new="at.valid = row <= rows ?",
        at=("float4 s = add_quad(load_quad(gate, at.valid)",), through=("load_quad",),
        why="The threads behind the last row read and write one that does not exist.",
    ),
)  # fmt: skip
