"""The state space layer of short sequences (kernels_cu/ssd_short*.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, quads
from lowgraph.ops.ssd_tensors import SsdInputs, SsdRows, SsdSaved, SsdSizes, SsdWorkspace
from lowgraph.precision import Precision

__all__ = ["ShortSsd"]

_BLOCK = 256
_FORWARD_BYTES, _BACKWARD_BYTES = 66048, 101376  # of shared memory: ForwardWork, BackwardWork


class ShortSsd:
    """What `Ssd` launches where its sizes are `short`; arguments are checked there.

    precision: the factors of products are rounded to TF32 unless it is FP32, as those of float32
    products elsewhere; bfloat16 would round what lies in memory as float32.
    """

    def __init__(self, library: Library, precision: Precision) -> None:
        """Take the kernels from `library`."""
        defines = {"SQUARE_TF32": int(precision is not Precision.FP32)}
        self._forward = library.kernel("ssd_short.cu", "ssd_short_forward", defines)
        self._backward = library.kernel("ssd_short_backward.cu", "ssd_short_backward", defines)
        self._forward.allow_shared(_FORWARD_BYTES)
        self._backward.allow_shared(_BACKWARD_BYTES)
        self._sum = library.kernel("ssd_short_backward.cu", "ssd_short_sum", defines)

    def forward(
        self,
        stream: Stream,
        y: Pointer,
        saved: SsdSaved,
        inputs: SsdInputs,
        sizes: SsdSizes,
        rows: SsdRows,
    ) -> None:
        """Overwrite y and saved; one launch."""
        x, raw, dt_bias, a_log, b, c, d = inputs
        grid = (sizes.heads, sizes.batch)
        self._forward(
            stream, grid, _BLOCK, y, saved.dt, saved.decay, x, raw, dt_bias, a_log, b, c, d,
            sizes.length, sizes.head_size, sizes.state_size, *rows, shared=_FORWARD_BYTES,
        )  # fmt: skip

    def backward(
        self,
        stream: Stream,
        gradients: SsdInputs,
        workspace: SsdWorkspace,
        dy: Pointer,
        inputs: SsdInputs,
        saved: SsdSaved,
        sizes: SsdSizes,
        rows: SsdRows,
        accumulate: bool,
    ) -> None:
        """Overwrite the gradients, or add to those of dt_bias, a_log and d; two launches."""
        batch, length, heads, size, state = sizes
        x, _, _, a_log, b, c, d = inputs
        dx, draw, ddt_bias, da_log, db, dc, dd = gradients
        by_head, partial = workspace.by_head, workspace.partial
        steps = batch * length
        if steps:
            self._backward(
                stream, (heads, batch), _BLOCK, dx, draw, by_head, partial, dy, x, saved.dt,
                saved.decay, a_log, b, c, d, length, size, state, *rows, shared=_BACKWARD_BYTES,
            )  # fmt: skip
        grid = heads + ceil_div(steps * 2 * quads(state), _BLOCK)
        self._sum(
            stream, grid, _BLOCK, db, dc, da_log, ddt_bias, dd, by_head, partial, a_log,
            batch if steps else 0, steps, heads, state, rows.bc, accumulate,
        )  # fmt: skip
