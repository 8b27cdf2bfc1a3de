"""Programs of warp_programs as CUDA C."""

from __future__ import annotations

from typing import Any

from tests.hostdev.warp_programs import (
    STEP,
    Arithmetic,
    Branch,
    Loop,
    Operation,
    Refresh,
)

# By kind of operation: its result, from the registers x and y, the mask m and constants a, b, w.
TEXTS = {
    "shfl": "__shfl_sync(m, x, from_lane(m, y + {a}u))",
    "shfl_ull": "mixed(__shfl_sync(m, (unsigned long long)x << 32 | y, from_lane(m, x + {a}u)))",
    "shfl_double": "(unsigned)__shfl_sync(m, (double)x, from_lane(m, y * 3 + {a}u))",
    "shfl_float": "(unsigned)__shfl_sync(m, (float)(x & 0xffff), from_lane(m, y + {a}u))",
    "up": "__shfl_up_sync(m, x, inside(m, lane - {b}, lane, {w}) ? {b}u : 0u, {w})",
    "down": "__shfl_down_sync(m, y, inside(m, lane + {b}, lane, {w}) ? {b}u : 0u, {w})",
    "xor": "__shfl_xor_sync(m, x, m >> (lane ^ {b}) & 1 ? {b} : 0)",
    "reduce_add": "__reduce_add_sync(m, x)",
    "reduce_max": "__reduce_max_sync(m, y)",
    "reduce_xor": "__reduce_xor_sync(m, x)",
    "memory": "through_memory(slots, m, lane, x, from_lane(m, y + {a}u))",
    "ballot": "__ballot_sync(m, (x >> {b}) & 1)",
    "any": "(unsigned)(__any_sync(m, (y & 7) == {b}) != 0)",
    "all": "(unsigned)(__all_sync(m, (x & 15) != {b}) != 0)",
    "match_any": "__match_any_sync(m, x & 3)",
    "match_all": "match_all(m, y > 0x08000000u)",
}
COMPILED_IN_PLACE = ("shfl", "up", "xor", "ballot", "all")
SHARED_BY_CALLS = tuple(kind for kind in TEXTS if kind not in COMPILED_IN_PLACE)

PRELUDE = """
__device__ int from_lane(unsigned m, unsigned k) {
    for (k %= __popc(m); k > 0; k--) m &= m - 1;
    return __ffs((int)m) - 1;
}
__device__ bool inside(unsigned m, int source, int lane, int width) {
    return source >= 0 && source < 32 && source / width == lane / width && (m >> source & 1);
}
__device__ unsigned mixed(unsigned long long v) { return (unsigned)(v >> 32) * 31 + (unsigned)v; }
__device__ unsigned match_all(unsigned m, unsigned v) {
    int equal;
    unsigned same = __match_all_sync(m, v, &equal);
    return same * 2 + (equal != 0);
}
__device__ unsigned through_memory(volatile unsigned* slots, unsigned m, int lane,
                                   unsigned v, int source) {
    slots[lane] = v;
    __syncwarp(m);
    unsigned result = slots[source];
    __syncwarp(m);
    return result;
}
"""


def source_of(programs: list[tuple[Any, ...]]) -> str:
    """A .cu file with a kernel `program_<i>` for each program.

    Operations that many programs share are functions, compiled once; the rest are compiled where
    they stand.
    """
    shared = "".join(_function(kind) for kind in SHARED_BY_CALLS)
    return PRELUDE + shared + "".join(_kernel(i, program) for i, program in enumerate(programs))


def _function(kind: str) -> str:
    text = TEXTS[kind].format(a="a", b="b", w="w").replace("au)", "a)")
    text = text.replace("bu :", "(unsigned)b :")
    signature = "volatile unsigned* slots, unsigned m, int lane, unsigned x, unsigned y"
    return (
        f"__device__ __noinline__ unsigned call_{kind}({signature}, unsigned a, int b, int w) {{\n"
        f"    return {text};\n}}\n"
    )


def _kernel(index: int, program: tuple[Any, ...]) -> str:
    return (
        f'extern "C" __global__ void program_{index}(uint2* out, const uint2* in, int n) {{\n'
        "    __shared__ unsigned memory[1024];\n"
        "    int t = threadIdx.x, lane = t % 32;\n"
        "    volatile unsigned* slots = memory + t - lane;\n"
        "    unsigned x = in[t].x, y = in[t].y, m = n - (t - lane) >= 32 ? ~0u : "
        "(1u << (n - (t - lane))) - 1;\n"
        f"{_text(program, 1)}    out[t] = make_uint2(x, y);\n}}\n"
    )


def _text(block: tuple[Any, ...], depth: int) -> str:
    return "".join(_line(statement, "    " * depth, depth) for statement in block)


def _line(s: Any, pad: str, depth: int) -> str:
    if isinstance(s, Operation):
        if s.kind in SHARED_BY_CALLS:
            result = f"call_{s.kind}(slots, m, lane, x, y, {s.a}u, {s.b}, {s.width})"
        else:
            result = TEXTS[s.kind].format(a=s.a, b=s.b, w=s.width)
        return f"{pad}x = x * {STEP}u + {result};\n"
    if isinstance(s, Arithmetic):
        return f"{pad}y = y * {s.a}u + (x >> {s.b});\n"
    if isinstance(s, Branch):
        return _branch_text(s, pad, depth)
    if isinstance(s, Loop):
        return _loop_text(s, pad, depth)
    if isinstance(s, Refresh):
        return f"{pad}m = __ballot_sync(m, 1);\n"
    refresh = f"{pad}m = __ballot_sync(m, 1);\n" if s.refreshed else ""
    leave = f"{pad}if ((x >> {s.bit} & 7) == 5) {{\n{pad}    out[t] = make_uint2(x, ~y);\n"
    return f"{leave}{pad}    return;\n{pad}}}\n{refresh}"


def _branch_text(s: Branch, pad: str, depth: int) -> str:
    then, otherwise = _text(s.then, depth + 2), _text(s.otherwise, depth + 2)
    return (
        f"{pad}{{\n{pad}    const unsigned all = m, taken = __ballot_sync(m, x >> {s.bit} & 1);\n"
        f"{pad}    if (x >> {s.bit} & 1) {{\n{pad}        m = taken;\n{then}"
        f"{pad}    }} else {{\n{pad}        m = all & ~taken;\n{otherwise}{pad}    }}\n"
        f"{pad}    m = all;\n{pad}    __syncwarp(m);\n{pad}}}\n"
    )


def _loop_text(s: Loop, pad: str, depth: int) -> str:
    return (
        f"{pad}{{\n{pad}    const unsigned all = m, rounds = y >> {s.bit} & 3;\n"
        f"{pad}    for (unsigned k = 0;; k++) {{\n"
        f"{pad}        m = __ballot_sync(m, k < rounds);\n{pad}        if (k >= rounds) break;\n"
        f"{_text(s.body, depth + 2)}{pad}    }}\n"
        f"{pad}    m = all;\n{pad}    __syncwarp(m);\n{pad}}}\n"
    )
