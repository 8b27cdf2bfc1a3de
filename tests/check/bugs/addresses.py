"""Seeded bugs: bounds of the small kernels here, misaligned addresses, host memory."""

from __future__ import annotations

from tests.check.bugs.bug import Bug

_ADD = "store_quad(out + i, add_quad(load_quad(a + i, valid), load_quad(b + i, valid)), valid);"
_CONTROL = (
    "Control& c = *control;",  # C++ calls it wrong already to bind the reference
    "long long step = c.step + 1;",
    "double lr = scheduled_lr(c, step);",
    "if (step <= c.warmup_steps)",
    "if (step >= c.total_steps)",
    "double progress =",
    "c.lr_min + ((double)c.lr_max",
    "c.step = step;",
)

OWN_BOUNDS = (
    Bug(
        name="smooth_before_first",
        file="vectors.cu", kernel="smooth", kind="out-of-bounds", scenario="smooth",
        old="float left = i > 0 ? x[i - 1] : x[i];", new="float left = x[i - 1];",
        why="Thread 0 reads x[-1].",
    ),
    Bug(
        name="smooth_after_last",
        file="vectors.cu", kernel="smooth", kind="out-of-bounds", scenario="smooth",
        old="i < n - 1 ? x[i + 1] : x[i]", new="i < n ? x[i + 1] : x[i]",
        at=("float right =",),
        why="The last thread reads x[n], one element past the end.",
    ),
    Bug(
        name="half_axpy_odd_tail",
        file="vectors.cu", kernel="half_axpy", kind="out-of-bounds", scenario="half_axpy_exact",
        old="if (i + 1 < n) {", new="if (i < n) {",
        at=("float2 p = __half22float2(", "float2 q = __half22float2(",
            "*reinterpret_cast<__half2*>(y + i) = "),
        why="The last pair of an odd number of halves has one half past the end.",
    ),
    Bug(
        name="window_sum_no_room_for_neighbours",
        file="vectors.cu", kernel="window_sum", kind="out-of-bounds", scenario="window_sum",
        old="", new="", fault="no room for the neighbours",
        at=("tile[t + 1] = i < n ? x[i] : 0.0f;", "if (t == blockDim.x - 1) tile[t + 2]",
            "if (i < n) y[i] = tile[t] + tile[t + 1] + tile[t + 2];"),
        why="The launch gives the block 64 floats of dynamic shared memory, and it uses 66.",
    ),
)  # fmt: skip

MISPLACED = (
    Bug(
        name="bias_add_vector_row",
        file="bias.cu", kernel="bias_add", kind="misaligned", scenario="bias_add",
        old="add_quad(load_quad(to, valid), load_quad(bias + c, valid))",
        new="add_quad(valid == 4 ? *reinterpret_cast<float4*>(to) : load_quad(to, valid),"
            " load_quad(bias + c, valid))",
        why="Rows of 33 floats do not start at a multiple of 16 bytes, and float4 loads must.",
    ),
    Bug(
        name="cross_entropy_wide_row_at_its_begin",
        file="cross_entropy_wide.cu", kernel="cross_entropy_wide_forward_backward",
        kind="misaligned", scenario="cross_entropy_wide",
        old="int gap = (int)(-(size_t)logits & 15) / (int)sizeof(act_t), t = threadIdx.x;",
        new="int gap = 0, t = threadIdx.x;",
        through=("start_copy", "write_gradients"),
        at=("if (v < kept) start_copy(shared_address(copies + v), from + v, true);",
            "to[v] = rounded_vector(x);"),
        why="With V = 4099 only every fourth row starts at a multiple of 16 bytes.",
    ),
    Bug(
        name="layernorm_vector_row",
        file="layernorm_backward.cu", kernel="layernorm_backward", kind="misaligned",
        scenario="layernorm_parameters",
        old="bool whole = C % 4 == 0 && quad_aligned(dy)", new="bool whole = quad_aligned(dy)",
        at=("g[u] = quad_or_zeros<WHOLE>(dy + at, valid);",
            "q[u] = quad_or_zeros<WHOLE>(x + at, valid);",
            "add_rows<true>(&dweight, &dbias, dy, x, mean,"),
        through=("quad_or_zeros", "load_whole_quad", "column_sums"),
        why="With C = 261 only every fourth row starts at a multiple of 16 bytes.",
    ),
    Bug(
        name="copy_bytes_half_the_check",
        file="copy.cu", kernel="copy_bytes", kind="misaligned", scenario="copy_bytes_unaligned",
        old="(((size_t)out | (size_t)in) & 15) == 0;", new="((size_t)out & 15) == 0;",
        at=("*reinterpret_cast<float4*>(out + i) = *reinterpret_cast<const float4*>(in + i);",),
        why="Only the target's alignment is checked; the source starts 4 bytes off.",
    ),
    Bug(
        name="control_behind_a_float",
        file="control.cu", kernel="control_advance", kind="misaligned",
        scenario="control_advance", old="", new="", fault="packed behind a float",
        at=_CONTROL,
        why="The block of 8-byte fields is packed behind a float, 4 bytes off.",
    ),
    Bug(
        name="half_axpy_second_element",
        file="vectors.cu", kernel="half_axpy", kind="misaligned", scenario="half_axpy",
        old="", new="", fault="from the second element", at=("float2 p = __half22float2(",),
        why="The view starts at an odd half, and pairs are loaded from multiples of 4 bytes.",
    ),
    Bug(
        name="pair_length_second_float",
        file="vectors.cu", kernel="pair_length", kind="misaligned", scenario="pair_length",
        old="", new="", fault="begins at the second float", at=("float2 p = xy[i];",),
        why="The pairs start at an odd float, and an 8-byte load needs a multiple of 8.",
    ),
    Bug(
        name="add_numpy_array",
        file="residual.cu", kernel="residual_add", kind="host-pointer", scenario="residual_add",
        old="", new="", fault="host array", at=(_ADD,), through=("load_quad",),
        why="The address of a NumPy array's data is passed for a device buffer.",
    ),
    Bug(
        name="mean_loss_numpy_scalar",
        file="cross_entropy.cu", kernel="mean_loss", kind="host-pointer", scenario="mean_loss",
        old="", new="", fault="host scalar", at=("loss[0] = (float)(sum / rows);",),
        why="The kernel is to write its result straight into a NumPy scalar.",
    ),
    Bug(
        name="control_host_struct",
        file="control.cu", kernel="control_advance", kind="host-pointer",
        scenario="control_advance", old="", new="", fault="host struct",
        at=_CONTROL,
        why="The settings' struct in host memory is passed in place of its copy on the device.",
    ),
    Bug(
        name="loss_ring_plain_array",
        file="loss_ring.cu", kernel="loss_ring_write", kind="host-pointer", scenario="loss_ring",
        old="", new="", fault="plain array", at=("record->step = -1;",),
        why="The ring is an ordinary array, neither pinned nor mapped.",
    ),
    Bug(
        name="gather_host_table",
        file="scatter.cu", kernel="gather_rows", kind="host-pointer", scenario="gather_rows",
        old="", new="", fault="table in host memory",
        at=("const float* row = table[blockIdx.y];",),
        why="The rows are on the device, but the table of their addresses is NumPy's.",
    ),
    Bug(
        name="gather_host_row",
        file="scatter.cu", kernel="gather_rows", kind="host-pointer", scenario="gather_rows",
        old="", new="", fault="row in host memory", at=("out[blockIdx.y * C + c] = row[c];",),
        why="One address in the table on the device is that of a NumPy array.",
    ),
)  # fmt: skip

ADDRESSES = OWN_BOUNDS + MISPLACED
