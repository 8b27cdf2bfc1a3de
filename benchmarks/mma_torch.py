"""PyTorch at the sizes of mma.py: python benchmarks/mma_torch.py REPEATS ROUNDS; mma.py runs it.

scaled_dot_product_attention forward, and with its backward; bfloat16 products alone, without bias,
GELU and residual. As there: microseconds of one call inside a CUDA graph of REPEATS, from events
around ROUNDS replays. Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from measure import spread
from mma import ATTENTION, LINEAR, Row

try:
    import torch
    from torch.nn.functional import linear, scaled_dot_product_attention
except ImportError:
    torch = None


def timed(act: Callable[[], object], repeats: int, rounds: int) -> dict[str, float]:
    """Microseconds of one call."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            act()
    torch.cuda.synchronize()
    recording = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recording):
        for _ in range(repeats):
            act()
    found = []
    for _ in range(rounds + 3):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        recording.replay()
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end) * 1e-3 / repeats)
    return spread(found[3:])


def normal(*shape: int, needs: bool = False) -> Any:
    """Normal bfloat16 numbers."""
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16, requires_grad=needs)


def attention(sizes: tuple[int, ...]) -> dict[str, Callable[[], Any]]:
    """The calls of one layer of attention."""
    q, k, v = (normal(*sizes, needs=True) for _ in range(3))
    g = normal(*sizes)

    def forward() -> Any:
        return scaled_dot_product_attention(q, k, v, is_causal=True)

    def both() -> object:
        return torch.autograd.grad(forward(), (q, k, v), g)

    return {"forward": forward, "forward and backward": both}


def products(rows: int, inputs: int, outputs: int) -> dict[str, Callable[[], Any]]:
    """The three products of one linear layer."""
    x, w, dy = normal(rows, inputs), normal(outputs, inputs), normal(rows, outputs)
    return {"plain": lambda: linear(x, w), "input": lambda: dy @ w, "weight": lambda: dy.T @ x}


def rows(repeats: int, rounds: int) -> Iterator[Row]:
    """All figures, or one row that says why there are none."""
    if torch is None or not torch.cuda.is_available():
        yield {"part": "torch", "what": "not installed" if torch is None else "sees no GPU"}
        return
    for name, sizes in ATTENTION.items():
        for what, act in attention(sizes).items():
            figures = timed(act, repeats, rounds)
            yield {"part": "torch", "case": name, "what": what, "us": figures}
    for layer in LINEAR:
        times = {n: timed(act, repeats, rounds)["median"] for n, act in products(*layer).items()}
        yield {"part": "torch", "rows, inputs, outputs": layer, "us": times}


if __name__ == "__main__":
    print(json.dumps(list(rows(int(sys.argv[1]), int(sys.argv[2])))))
