"""State space layer with one decay a head (kernels_cu/ssd.cu, ssd_backward*.cu)."""

from __future__ import annotations

from typing import NamedTuple

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes

__all__ = ["Ssd", "SsdInputs", "SsdRows", "SsdSaved", "SsdSizes", "SsdWorkspace"]

_CHUNK = 32  # time steps
_BLOCK = 64

Shape = tuple[int, ...]


class SsdSizes(NamedTuple):
    """batch, length (time steps), heads, head_size (P) and state_size (N)."""

    batch: int
    length: int
    heads: int
    head_size: int
    state_size: int

    @property
    def chunks(self) -> int:
        """Return how many chunks of 32 steps a sequence has, the last one shorter."""
        return ceil_div(self.length, _CHUNK)


class SsdRows(NamedTuple):
    """Distances, in elements, of the time steps of x, of b and c, and of raw.

    For inputs that are columns of wider matrices. The gradients have the same distances.
    """

    x: int
    bc: int
    raw: int


class SsdInputs(NamedTuple):
    """The inputs of the layer, or the gradients of them, as buffers.

    x [batch,length,heads,head_size]; raw [batch,length,heads], whose softplus with dt_bias is the
    step size; dt_bias, a_log and d [heads]; b and c [batch,length,state_size].
    """

    x: Pointer
    raw: Pointer
    dt_bias: Pointer
    a_log: Pointer
    b: Pointer
    c: Pointer
    d: Pointer


class SsdSaved(NamedTuple):
    """What forward leaves for backward, float32, of `Ssd.saved_shapes`.

    dt: the step sizes. decay: their sums times A from the start of each chunk. scores: c_t.b_s
    within each chunk. states: before each chunk.
    """

    dt: Pointer
    decay: Pointer
    scores: Pointer
    states: Pointer


class SsdWorkspace(NamedTuple):
    """What backward's launches hand to each other, float32, of `Ssd.workspace_shapes`."""

    dstates: Pointer
    pairs: Pointer
    partial: Pointer


class Ssd:
    """h_t = exp(dt_t A) h_{t-1} + dt_t x_t (outer) b_t, y_t = h_t c_t + d x_t; float32.

    dt = softplus(raw + dt_bias), A = -exp(a_log), h = 0 before the first step; the state space
    duality of Mamba-2 (Dao, Gu 2024, arXiv 2405.21060), with one group of b and c.
    """

    def __init__(self, library: Library) -> None:
        """Take the kernels from `library`."""
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
    def saved_shapes(sizes: SsdSizes) -> tuple[Shape, Shape, Shape, Shape]:
        """Return the shapes of SsdSaved, in its order."""
        batch, length, heads, head_size, state_size = sizes
        step, chunks = (batch, length, heads), (batch, sizes.chunks)
        return step, step, (*chunks, _CHUNK, _CHUNK), (*chunks, heads, head_size, state_size)

    @staticmethod
    def workspace_shapes(sizes: SsdSizes) -> tuple[Shape, Shape, Shape]:
        """Return the shapes of SsdWorkspace, in its order."""
        batch, _, heads, head_size, state_size = sizes
        chunks = (batch, sizes.chunks, heads)
        partial = (batch * sizes.chunks, 3, heads)
        return (*chunks, head_size, state_size), (*chunks, _CHUNK, _CHUNK), partial

    def forward(
        self,
        stream: Stream,
        y: Pointer,
        saved: SsdSaved,
        inputs: SsdInputs,
        sizes: SsdSizes,
        rows: SsdRows | None = None,
    ) -> None:
        """Overwrite y, of x's shape and without gaps, and saved; five launches.

        rows: None for inputs without gaps.
        """
        x_row, bc_row, raw_row = _checked(sizes, rows)
        batch, length, heads, size, state = sizes
        if batch * length == 0:
            return
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
    ) -> None:
        """Overwrite the gradients of all inputs; five launches.

        rows: as in forward, for the gradients as well; dy has no gaps. accumulate adds to those of
        dt_bias, a_log and d instead. No gradient may share memory with dy or an input: blocks read
        what their neighbours own.
        """
        x_row, bc_row, raw_row = _checked(sizes, rows)
        batch, length, heads, size, state = sizes
        x, _, _, a_log, b, c, d = inputs
        dt, decay, scores, states = saved
        dstates, pairs, partial = workspace
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
        self._final(stream, heads, _BLOCK, da_log, ddt_bias, dd, partial, a_log, chunks, accumulate)


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
