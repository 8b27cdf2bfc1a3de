"""Which calls a seed stands for: pure, and bound to the recorded data by its draws.

A sequence is drawn in full before anything runs. Change no draw and no order here: the recorded
answers belong to these calls.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

STREAMS = ("s0", "s1", "sB", "legacy")  # two non-blocking, one blocking, the legacy stream
FIRST_GUIDED_SEED = 100_000

# One entry a weight. "random" takes all calls; "guided" begins with a capture and mostly keeps it.
_RANDOM_CALLS = (
    ["launch"] * 6 + ["begin"] * 4 + ["end"] * 4 + ["record"] * 3 + ["wait"] * 4
    + ["memset", "memcpy", "h2d", "alloc", "free", "allocasync", "freeasync", "sync", "query"]
    + ["evquery", "evsync", "ctxsync", "inst", "inst", "glaunch", "glaunch", "update", "update"]
    + ["capinfo", "gdestroy", "edestroy", "badlaunch", "elapsed", "sync0", "recordext"]
)  # fmt: skip
_GUIDED_CALLS = (
    ["launch"] * 8 + ["record"] * 6 + ["wait"] * 7
    + ["memset", "memcpy", "h2d", "allocasync", "freeasync", "glaunch", "end", "begin"]
    + ["recordext", "capinfo", "update", "inst", "launch", "memset"]
)  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One drawn call; each kind of call uses the numbers that it needs.

    stream: index into STREAMS. event: 0 to 2. pick: of an executable or a graph, modulo how many
    there are. mode: 0 to 2, of a capture; also picks an update's graph. kernel: 0 or 1. block:
    threads.
    """

    op: str
    stream: int
    event: int
    pick: int
    mode: int
    kernel: int
    block: int


def is_guided(seed: int) -> bool:
    """Tell whether the seed is of the guided kind, which ends every stream's capture at the end."""
    return seed >= FIRST_GUIDED_SEED


def calls_of(seed: int) -> list[Call]:
    """Return the calls of a seed, the same on every machine (Mersenne twister)."""
    draw = random.Random(seed)
    if not is_guided(seed):
        return [_draw_call(draw, _RANDOM_CALLS) for _ in range(draw.randint(5, 30))]
    stream, mode = draw.choice([0, 0, 1, 2]), draw.randrange(3)
    count = draw.randint(8, 30)
    first = replace(_draw_call(draw, _GUIDED_CALLS), op="begin", stream=stream, mode=mode)
    return [first] + [_draw_guided_call(draw) for _ in range(count - 1)]


def _draw_call(draw: random.Random, names: list[str]) -> Call:
    return Call(
        op=draw.choice(names),
        stream=draw.choice([0, 0, 0, 1, 1, 2, 2, 3]),
        event=draw.randrange(3),
        pick=draw.randrange(8),
        mode=draw.randrange(3),
        kernel=draw.randrange(2),
        block=draw.choice([32, 64]),
    )


def _draw_guided_call(draw: random.Random) -> Call:
    call = _draw_call(draw, _GUIDED_CALLS)
    on_legacy = STREAMS[call.stream] == "legacy"  # which would end most captures at once
    return replace(call, stream=draw.choice([0, 1])) if on_legacy else call
