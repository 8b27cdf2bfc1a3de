"""State space layer with one decay a head (kernels_cu/ssd*.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Fork, Pointer, Stream, behind, ceil_div, check_sizes
from lowgraph.ops.ssd_short import ShortSsd
from lowgraph.ops.ssd_tensors import CHUNK, SsdInputs, SsdRows, SsdSaved, SsdSizes, SsdWorkspace
from lowgraph.precision import Precision

__all__ = ["Ssd"]

_BLOCK = 64

Shape = tuple[int, ...]


class Ssd:
    """h_t = exp(dt_t A) h_{t-1} + dt_t x_t (outer) b_t, y_t = h_t c_t + d x_t; float32.

    dt = softplus(raw + dt_bias), A = -exp(a_log), h = 0 before the first step; the state space
    duality of Mamba-2 (Dao, Gu 2024, arXiv 2405.21060), with one group of b and c. Sequences that
    are not `short` (SsdSizes) are made by chunks.

    precision: of the products within short sequences: their factors are rounded to TF32 unless it
    is FP32. All else, and all of longer sequences, is not rounded.
    """

    def __init__(self, library: Library, precision: Precision = Precision.FP32) -> None:
        """Take the kernels from `library`."""
        self._short = ShortSsd(library, precision)
        self._decay = library.kernel("ssd.cu", "ssd_decay")
        self._scores = library.kernel("ssd.cu", "ssd_scores")
        self._states = library.kernel("ssd.cu", "ssd_chunk_states")
        self._scan = library.kernel("ssd.cu", "ssd_state_scan")
        self._output = library.kernel("ssd.cu", "ssd_output")
        self._head = library.kernel("ssd_backward_head.cu", "ssd_backward_head")
        self._dstates = library.kernel("ssd_backward.cu", "ssd_backward_states")
        self._dscan = library.kernel("ssd_backward.cu", "ssd_backward_scan")
        self._inputs = library.kernel("ssd_backward.cu", "ssd_backward_inputs")
        self._final = library.kernel("ssd_backward.cu", "ssd_backward_final")

    @staticmethod
    def saved_shapes(sizes: SsdSizes) -> tuple[Shape, ...]:
        """Return the shapes of SsdSaved, in its order."""
        batch, length, heads, head_size, state_size = sizes
        step, chunks = (batch, length, heads), (batch, sizes.chunks)
        if sizes.short:
            return step, step, (0,), (0,)
        return step, step, (*chunks, CHUNK, CHUNK), (*chunks, heads, head_size, state_size)

    @staticmethod
    def workspace_shapes(sizes: SsdSizes) -> tuple[Shape, ...]:
        """Return the shapes of SsdWorkspace, in its order."""
        batch, length, heads, head_size, state_size = sizes
        if sizes.short:
            return (0,), (0,), (heads, batch * length, 2, state_size), (batch, 3, heads)
        chunks = (batch, sizes.chunks, heads)
        partial = (batch * sizes.chunks, 3, heads)
        return (*chunks, head_size, state_size), (*chunks, CHUNK, CHUNK), (0,), partial

    def forward(
        self,
        stream: Stream,
        y: Pointer,
        saved: SsdSaved,
        inputs: SsdInputs,
        sizes: SsdSizes,
        rows: SsdRows | None = None,
    ) -> None:
        """Overwrite y, of x's shape and without gaps, and saved; five launches, or one if short.

        rows: None for inputs without gaps.
        """
        distances = _checked(sizes, rows)
        batch, length, heads, size, state = sizes
        if batch * length == 0:
            return
        if sizes.short:
            self._short.forward(stream, y, saved, inputs, sizes, distances)
            return
        x_row, bc_row, raw_row = distances
        x, raw, dt_bias, a_log, b, c, d = inputs
        dt, decay, scores, states = saved
        chunks, grid = sizes.chunks, (sizes.chunks, heads, batch)
        count = ceil_div(batch * chunks * heads, _BLOCK)
        self._decay(
            stream, count, _BLOCK, dt, decay, raw, dt_bias, a_log, batch, length, heads, raw_row
        )
        self._scores(stream, (chunks, batch), _BLOCK, scores, b, c, length, state, bc_row)
        shape = (length, size, state, x_row, bc_row)
        self._states(stream, grid, _BLOCK, states, x, dt, decay, b, *shape)
        self._scan(stream, _scan_grid(sizes), _BLOCK, states, decay, length, size * state)
        self._output(stream, grid, _BLOCK, y, x, dt, decay, c, d, scores, states, *shape)

    def backward(
        self,
        stream: Stream,
        gradients: SsdInputs,
        workspace: SsdWorkspace,
        dy: Pointer,
        inputs: SsdInputs,
        saved: SsdSaved,
        sizes: SsdSizes,
        rows: SsdRows | None = None,
        *,
        accumulate: bool = False,
        side: Fork | None = None,
    ) -> None:
        """Overwrite the gradients of all inputs; five launches, or two if short.

        rows: as in forward, for the gradients as well; dy has no gaps. accumulate adds to those of
        dt_bias, a_log and d instead. side: for the launch that leaves those three of sequences that
        are not short; it reads the workspace's `partial`. No gradient may share memory with dy or
        an input: blocks read what their neighbours own.
        """
        distances = _checked(sizes, rows)
        if sizes.short:
            tensors = (gradients, workspace, dy, inputs, saved, sizes, distances)
            self._short.backward(stream, *tensors, accumulate)
            return
        x_row, bc_row, raw_row = distances
        batch, length, heads, size, state = sizes
        x, _, _, a_log, b, c, d = inputs
        dt, decay, scores, states = saved
        dstates, pairs, _, partial = workspace
        dx, draw, ddt_bias, da_log, db, dc, dd = gradients
        grid = (sizes.chunks, heads, batch)
        if batch * length:
            self._dstates(stream, grid, _BLOCK, dstates, dy, decay, c, length, size, state, bc_row)
            self._dscan(stream, _scan_grid(sizes), _BLOCK, dstates, decay, length, size * state)
            self._head(
                stream, grid, _BLOCK, dx, draw, pairs, partial, dy, x, dt, decay, a_log, b, c, d,
                scores, states, dstates, length, size, state, x_row, bc_row, raw_row,
            )  # fmt: skip
            columns = (ceil_div(state, 32), sizes.chunks, batch)
            self._inputs(
                stream, columns, _BLOCK, db, dc, pairs, dy, x, dt, decay, b, c, states, dstates,
                length, heads, size, state, x_row, bc_row,
            )  # fmt: skip
        chunks = batch * sizes.chunks
        sums = da_log, ddt_bias, dd, partial
        self._final(behind(stream, side), heads, _BLOCK, *sums, a_log, chunks, accumulate)


def _scan_grid(sizes: SsdSizes) -> tuple[int, int, int]:
    threads = ceil_div(sizes.head_size * sizes.state_size, 4)
    return (ceil_div(threads, _BLOCK), sizes.heads, sizes.batch)


def _checked(sizes: SsdSizes, rows: SsdRows | None) -> SsdRows:
    """Check the sizes; the distances of the time steps."""
    batch, length, heads, head_size, state_size = sizes
    check_sizes("Ssd", batch=batch, length=length)
    check_sizes("Ssd", least=1, heads=heads, head_size=head_size, state_size=state_size)
    check_sizes("Ssd", state=head_size * state_size)
    dense = SsdRows(heads * head_size, state_size, heads)
    found = dense if rows is None else rows
    for name, least, row in zip(SsdRows._fields, dense, found, strict=True):
        check_sizes("Ssd", least=least, **{f"{name}_row": row})
    return found
