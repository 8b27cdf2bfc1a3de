"""A captured pass of a bfloat16 charlm with a branch, for `python -m lowgraph check`."""

from __future__ import annotations

import numpy as np

from lowgraph import driver
from lowgraph.blas import Blas
from lowgraph.capture import GraphStep
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, Slice, upload
from lowgraph.models import CharLM, CharLMConfig
from lowgraph.models.parameters import initial_values
from lowgraph.precision import Precision

CONFIG = CharLMConfig(context=32, width=32, heads=2, layers=2)


def main() -> None:
    """One eager pass and two replays."""
    device = driver.open_device("host")
    stream = driver.stream.create()
    pool, library = PersistentPool(device), Library(device)
    blas = Blas(device, library, stream, pool)
    given = {"library": library, "blas": blas, "pool": pool, "stream": stream}
    model = CharLM(CONFIG, **given, precision=Precision.BF16, branches=1)
    model.load_state(initial_values(CONFIG, 0), stream)
    random = np.random.default_rng(0)

    def drawn(name: str) -> Slice:
        values = random.integers(0, 256, (2, CONFIG.context)).astype(np.int32)
        piece = pool.take(name, values.shape, values.dtype)
        upload(piece, values, stream)
        return piece

    tokens, targets = drawn("tokens"), drawn("targets")

    def body(stream: int) -> None:
        trace = model.forward(stream, tokens)
        loss = model.loss_and_gradient(stream, trace, targets)
        model.backward(stream, trace)
        pool.give_back(loss)

    step = GraphStep(body, device=device, pool=pool, stream=stream, library=library)
    for _ in range(3):
        step()
    driver.stream.synchronize(stream)
    step.close()
    blas.close()
    pool.close()


if __name__ == "__main__":
    main()
