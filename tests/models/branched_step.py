"""A captured pass of a model with a branch, for `python -m lowgraph check`; argument: a case."""

from __future__ import annotations

import sys
from typing import Any

from lowgraph import driver, ops
from lowgraph.blas import Blas, Layer, Route, Routes
from lowgraph.blas.routes import choose
from lowgraph.capture import GraphStep
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, Slice, upload
from lowgraph.models import CharLM, CharLMConfig, mamba2_parameters, parameters
from lowgraph.models.mamba2 import Mamba2
from lowgraph.models.mamba2_config import Mamba2Config, Mamba2LMConfig
from lowgraph.models.mamba2_lm import Mamba2LM
from lowgraph.precision import Precision
from tests.models import cases, cases_mamba2

_CHARLM = CharLMConfig(context=32, width=32, heads=2, layers=2)
_WIDE = CharLMConfig(context=24, width=128, heads=4, layers=1)
_PERCEPTION = Mamba2Config(4, 16, 33, 2, 8, 5, 4, 2)
_LM = Mamba2LMConfig(16, 33, 2, 61, 2, 8, 5, 4)

# Model, configuration, precision, initial values, and what draws a batch.
_TOKENS = CharLM, _CHARLM, parameters.initial_values, cases.batch_of
_NORMS = CharLM, _WIDE, parameters.initial_values, cases.batch_of
_SERIES = Mamba2, _PERCEPTION, mamba2_parameters.initial_values, cases_mamba2.batch_of
_MAMBA = Mamba2LM, _LM, mamba2_parameters.initial_values, cases_mamba2.batch_of
CASES: dict[str, tuple[Any, Precision]] = {
    "charlm-bf16": (_TOKENS, Precision.BF16),
    "charlm-norms": (_NORMS, Precision.BF16),
    "charlm-fp32": (_TOKENS, Precision.FP32),
    "mamba2-tf32": (_SERIES, Precision.TF32),
    "mamba2-bf16": (_SERIES, Precision.BF16),
    "mamba2-lm-fp32": (_MAMBA, Precision.FP32),
    "mamba2-lm-bf16": (_MAMBA, Precision.BF16),
}


def routes(layer: Layer, backend: str) -> Routes:
    """A norm in the launch of the product in front of it, where a GPU has that."""
    own = layer.form.has_norm and layer.norm_width == ops.NormedLinear.COLUMNS
    return Routes(Route.OWN, Route.OWN) if own else choose(layer, backend)


def main() -> None:
    """One eager pass and two replays."""
    (build, config, initial_values, batch_of), precision = CASES[sys.argv[1]]
    device = driver.open_device("host")
    stream = driver.stream.create()
    pool, library = PersistentPool(device), Library(device)
    blas = Blas(device, library, stream, pool, routes=routes)
    given = {"library": library, "blas": blas, "pool": pool, "stream": stream}
    model = build(config, **given, precision=precision, branches=1)
    model.load_state(initial_values(config, 0), stream)

    def put(name: str, values: Any) -> Slice:
        piece = pool.take(name, values.shape, values.dtype)
        upload(piece, values, stream)
        return piece

    inputs, targets = (put(*named) for named in zip("xy", batch_of(config, 2, 0), strict=True))

    def body(stream: int) -> None:
        trace = model.forward(stream, inputs)
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
