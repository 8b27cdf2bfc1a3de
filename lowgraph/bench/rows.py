"""The rows of the benchmark, as data: what is run, at which size, against whom, with which goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["ROWS", "STRONGEST", "SUITES", "ModelSize", "Rival", "Row"]


@dataclass(frozen=True)
class Rival:
    """Another way to do a row's work.

    who: its name in the table. program: a file of benchmarks/rivals. mode: of that program.
    """

    who: str
    program: str
    mode: str


@dataclass(frozen=True)
class ModelSize:
    """A model of the registry at one of its presets."""

    model: str
    preset: str


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes
    ----------
    id: as --rows names it. suite: launch, train or tail. kind: which arms run it.
    config: what is run, for people.
    precision: of the matrix products: fp32, tf32 or bf16.
    optimizer: "adamw" or "sgd".
    goal_us: wall time of a step to reach; for a launch row the host's time above the bare call.
    sizes: a train row's model by kind of device; nothing for a kind it cannot run on.
    counts: a launch row's kernels, a tail row's parameters (0: GPT-2 small's), by kind of device.
    """

    id: str
    suite: str
    kind: str
    config: str
    precision: str = "fp32"
    optimizer: str = "adamw"
    goal_us: float | None = None
    sizes: Mapping[str, ModelSize] = field(default_factory=dict)
    counts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    rivals: tuple[Rival, ...] = ()

    def runs_on(self, kind: str) -> bool:
        """Whether there is a size for that kind of device."""
        return kind in self.sizes or kind in self.counts


STRONGEST = "torch GX"
"""The rival of which neither time nor memory may be less than ours."""

_TORCH = (
    Rival("torch eager", "torch_rival.py", "eager"),
    Rival("torch.compile reduce-overhead", "torch_rival.py", "reduce-overhead"),
    Rival(STRONGEST, "torch_rival.py", "gx"),
)
_JAX = (
    Rival("jax.jit", "jax_rival.py", "xla"),
    Rival("jax.jit with cuDNN attention", "jax_rival.py", "cudnn"),
)
_UPDATES = (
    Rival("torch eager", "torch_rival.py", "eager"),
    Rival(STRONGEST, "torch_rival.py", "gx"),
)


def _train(id: str, config: str, cuda: ModelSize, host: str | None, **rest: object) -> Row:
    sizes = {"cuda": cuda} | ({} if host is None else {"host": ModelSize(cuda.model, host)})
    return Row(id, "train", "train", config, sizes=sizes, **rest)  # type: ignore[arg-type]


# A chain's fit wants small and large graphs; 100, 1000 and 20000 have the goal.
_LENGTHS = {"cuda": (10, 100, 1000, 5000, 10_000, 20_000), "host": (10, 100, 300)}
_PARAMETERS = {"cuda": (0,), "host": (100_000,)}

ROWS: dict[str, Row] = {
    row.id: row
    for row in (
        Row("B0", "launch", "chain", "a chain of empty kernels", goal_us=3.0, counts=_LENGTHS),
        _train("B1", "mlp", ModelSize("mlp", "bench"), "nano",
               precision="tf32", optimizer="sgd", goal_us=80.0, rivals=_TORCH),
        _train("B2t", "charlm tiny", ModelSize("charlm", "tiny"), "nano",
               precision="bf16", goal_us=150.0, rivals=_TORCH + _JAX),
        _train("B2s", "charlm small", ModelSize("charlm", "small"), None,
               precision="bf16", goal_us=600.0, rivals=_TORCH + _JAX),
        _train("B3", "mamba2 perception", ModelSize("mamba2", "perception"), "nano",
               precision="tf32", goal_us=150.0, rivals=_TORCH),
        _train("B6", "charlm gpt2", ModelSize("charlm", "gpt2"), None,
               precision="bf16", goal_us=17_000.0, rivals=_TORCH + _JAX),
        Row("B7", "tail", "update", "AdamW", goal_us=950.0, counts=_PARAMETERS, rivals=_UPDATES),
        Row("B7e", "tail", "update", "AdamW and EMA", goal_us=1250.0, counts=_PARAMETERS,
            rivals=_UPDATES),
    )
}  # fmt: skip

SUITES = ("launch", "train", "tail")
