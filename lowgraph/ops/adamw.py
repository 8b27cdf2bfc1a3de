"""AdamW over flat arenas in one launch (kernels_cu/adamw.cu)."""

from __future__ import annotations

from lowgraph.errors import ConfigError
from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div

__all__ = ["AdamW"]

_ELEMENTS_A_BLOCK = 1024


class AdamW:
    """Loshchilov and Hutter 2019, decoupled weight decay, float32, in place.

    Learning rate, betas, epsilon, weight decay, bias corrections and the average's decay come from
    the control block, the clip coefficient from the gradients' stats.
    """

    def __init__(self, library: Library, *, ema: bool = False, shadow: bool = False) -> None:
        """Take the kernels from `library`.

        ema: keep an exponential moving average of the parameters as well. shadow: keep a copy of
        them as bfloat16. Each combination is a kernel compiled for it.
        """
        self.ema = ema
        self.shadow = shadow
        defines = {"EMA": int(ema), "SHADOW": int(shadow)}
        self._step = library.kernel("adamw.cu", "adamw", defines)
        self._copy = library.kernel("adamw.cu", "adamw_shadow", defines) if shadow else None

    def step(
        self,
        stream: Stream,
        param: Pointer,
        m: Pointer,
        v: Pointer,
        grad: Pointer,
        stats: Pointer,
        control: Pointer,
        n_decay: int,
        n: int,
        *,
        ema: Pointer = 0,
        shadow: Pointer = 0,
    ) -> None:
        """Update param, m and v, `n` elements each; the first `n_decay` decay; one launch.

        m, v: first and second moments, zero before step 1. grad: only read; what is not finite in
        it counts as 0. stats: of `grad` (`GradientNorm.measure`), whose coefficient scales it.
        control: a block already advanced to this step (`Control.advance`).
        ema: float32 [n], updated; shadow: bfloat16 [n] as their bits (uint16), overwritten. Raises
        ConfigError when one is given that the kernel was not made for, or lacks.
        """
        _check("ema", self.ema, ema != 0)
        _check("shadow", self.shadow, shadow != 0)
        if n:
            grid = ceil_div(n, _ELEMENTS_A_BLOCK)
            self._step(
                stream, grid, 128, param, m, v, ema, shadow, grad, stats, control, n_decay, n
            )

    def refresh(self, stream: Stream, shadow: Pointer, param: Pointer, n: int) -> None:
        """Overwrite shadow [n] with the rounded param [n]; one launch.

        For parameters that something else than `step` has written. Raises ConfigError when the
        kernel was made without a shadow.
        """
        if self._copy is None:
            raise ConfigError("AdamW: made without a shadow; make it with shadow=True")
        if n:
            self._copy(stream, ceil_div(n, _ELEMENTS_A_BLOCK), 128, shadow, param, n)


def _check(name: str, wanted: bool, given: bool) -> None:
    if wanted and not given:
        raise ConfigError(f"AdamW: made with {name}=True; give the step its {name}")
    if given and not wanted:
        raise ConfigError(f"AdamW: made without {name}; make it with {name}=True")
