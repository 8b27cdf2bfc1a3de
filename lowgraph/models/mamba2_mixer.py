"""The Mamba-2 block as two calls, forward and backward.

    z, xBC, raw = x in_proj^T          the gate, what is convolved, and a step size a head
    x, B, C     = silu(conv(xBC))      causal, each channel by itself
    y           = ssd(x, softplus(raw + dt_bias), A_log, B, C, D)
    out         = rms_norm(y * silu(z)) out_proj^T

(Dao, Gu 2024, arXiv 2405.21060, with one group of B and C.) The parts of both wide matrices are
read and written where they lie: nothing is copied between the products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lowgraph import ops
from lowgraph.kernels import Library
from lowgraph.memory import Arena, PersistentPool, Slice
from lowgraph.models.branches import Branches
from lowgraph.models.linear import Linear
from lowgraph.models.mamba2_config import MixerSizes
from lowgraph.models.mamba2_parameters import MixerNames
from lowgraph.ops.shapes import Fork
from lowgraph.ops.ssd_tensors import SsdInputs, SsdRows, SsdSaved, SsdSizes, SsdWorkspace
from lowgraph.precision import Precision

__all__ = ["Mixed", "Mixer"]


class Mixed(NamedTuple):
    """What the backward of a block reads, [rows, .], rows = B*T: float32 but for normed.

    projected, convolved: outputs of the in-projection and of the convolution. y, normed, rstd:
    outputs of the state space layer and of the norm. dt, decay, scores, states: an SsdSaved.
    """

    projected: Slice
    convolved: Slice
    y: Slice
    normed: Slice
    rstd: Slice
    dt: Slice
    decay: Slice
    scores: Slice
    states: Slice

    @property
    def ssd(self) -> SsdSaved:
        """What the backward of the state space layer reads."""
        return SsdSaved(self.dt, self.decay, self.scores, self.states)


class Mixer:
    """Blocks of one shape, named by their parameters. The products are those of `linear`.

    What they read is of the operand type (see `Linear`): x, dy and the norm's output; convolution
    and state space layer are float32, and so is what they leave and the products' results.
    """

    def __init__(
        self,
        sizes: MixerSizes,
        linear: Linear,
        library: Library,
        pool: PersistentPool,
        parameters: Arena,
        gradients: Arena,
        precision: Precision = Precision.FP32,
    ) -> None:
        self._sizes = sizes
        self._linear = linear
        self._pool = pool
        self._parameters = parameters
        self._gradients = gradients
        self._conv = ops.CausalConv1d(library, sizes.conv)
        self._ssd = ops.Ssd(library, precision)
        self._norm = ops.GatedRmsNorm(library, precision=precision)
        self._operand = precision.operand
        self._rows = SsdRows(sizes.convolved, sizes.convolved, sizes.projected)

    def forward(self, stream: int, names: MixerNames, x: Slice, batch: int) -> tuple[Slice, Mixed]:
        """The output [rows, d], float32, for x [rows, d] of `batch` sequences, and the trace."""
        sizes, rows, take = self._sizes, x.shape[0], self._pool.take
        ssd = self._ssd_sizes(rows, batch)
        projected = self._linear.project(stream, names.in_proj, x, wide=True)
        convolved = take("convolved", (rows, sizes.convolved))
        self._conv.forward(
            stream, convolved, self._xbc(projected), *self._taps(self._parameters, names), batch,
            ssd.length, sizes.convolved, x_row=sizes.projected,
        )  # fmt: skip
        y = take("y", (rows, sizes.inner))
        normed = take("normed", (rows, sizes.inner), self._operand)
        shapes = zip(SsdSaved._fields, self._ssd.saved_shapes(ssd), strict=True)
        saved = [take(name, shape) for name, shape in shapes]
        inputs = self._ssd_inputs(names, self._parameters, convolved, projected)
        self._ssd.forward(stream, y, SsdSaved(*saved), inputs, ssd, self._rows)
        rstd, weight = take("rstd", (rows,)), self._parameters[names.norm]
        self._norm.forward(
            stream, normed, rstd, y, projected, weight, rows, sizes.inner, z_row=sizes.projected
        )
        out = self._linear.project(stream, names.out_proj, normed, wide=True)
        return out, Mixed(projected, convolved, y, normed, rstd, *saved)

    def backward(
        self,
        stream: int,
        names: MixerNames,
        dy: Slice,
        x: Slice,
        saved: Mixed,
        batch: int,
        branches: Branches,
        dx: Slice | None = None,
        beside: Callable[[], None] | None = None,
        apart: Fork | None = None,
    ) -> Slice:
        """The gradient of x: added to `dx`, float32, or a new slice. Gives back what it saved.

        dy [rows, d]: the gradient of the output, which no branch reads any more behind this; a
        branch reads x. Overwrites the parameters' gradients. A new slice is of the operand type.
        beside: issues more work of a branch, when that is in the way least: the scan's kernel
        leaves room, those before it do not. apart: for sums that would stand in a row with the last
        product, where the pass ends with that.
        """
        rows, linear = x.shape[0], self._linear
        dout = linear.input_gradient(stream, names.out_proj, dy, wide=True)
        dprojected = self._pool.take("dprojected", (rows, self._sizes.projected))
        self._norm_backward(stream, names, dout, dprojected, saved, branches)
        linear.drop(saved.rstd, saved.y)
        linear.weight_gradient(branches.fork(), names.out_proj, dy, saved.normed)
        branches.drop(saved.normed)
        dy_read = branches.mark()
        if beside is not None:  # behind the mark, which the chain waits for
            beside()
        dconvolved = self._ssd_backward(stream, names, dout, dprojected, saved, batch, branches)
        linear.drop(dout, saved.dt, saved.decay, saved.scores, saved.states)
        partial = self._conv_backward(stream, names, dconvolved, dprojected, saved, batch)
        linear.drop(dconvolved, saved.convolved, saved.projected)
        flow = linear.flow(stream, "dprojected", dprojected)
        branches.wait_for(dy_read)
        side = branches.fork()
        parameters = side if apart is None else apart()
        into = linear.project_backward(stream, names.in_proj, flow.operand, x, dx, side=side)
        sums = *self._taps(self._gradients, names), partial
        sizes = batch, rows // batch, self._sizes.convolved
        self._conv.backward_parameters(parameters, *sums, *sizes)
        branches.drop(partial, *flow.pieces)
        return into

    # ---- parts of backward ----

    def _norm_backward(
        self,
        stream: int,
        names: MixerNames,
        dout: Slice,
        dprojected: Slice,
        saved: Mixed,
        branches: Branches,
    ) -> None:
        """Turn dout, the gradient of the norm's output, into that of y; writes the gate's."""
        rows, inner = saved.y.shape
        partial = self._pool.take("partial", self._norm.partial_shape(rows, inner))
        self._norm.backward(
            stream, dout, dprojected, self._gradients[names.norm], partial, dout, saved.y,
            saved.projected, self._parameters[names.norm], saved.rstd, rows, inner,
            z_row=self._sizes.projected, side=branches.fork,
        )  # fmt: skip
        branches.drop(partial)

    def _ssd_backward(
        self,
        stream: int,
        names: MixerNames,
        dy: Slice,
        dprojected: Slice,
        saved: Mixed,
        batch: int,
        branches: Branches,
    ) -> Slice:
        """The gradient of the convolution's output, a new slice; writes the step sizes'."""
        sizes = self._ssd_sizes(dy.shape[0], batch)
        dconvolved = self._pool.take("dconvolved", saved.convolved.shape)
        shapes = zip(SsdWorkspace._fields, self._ssd.workspace_shapes(sizes), strict=True)
        space = [self._pool.take(name, shape) for name, shape in shapes]
        self._ssd.backward(
            stream,
            self._ssd_inputs(names, self._gradients, dconvolved, dprojected),
            SsdWorkspace(*space),
            dy,
            self._ssd_inputs(names, self._parameters, saved.convolved, saved.projected),
            saved.ssd,
            sizes,
            self._rows,
            side=branches.fork,
        )
        *others, partial = space
        self._linear.drop(*others)
        branches.drop(partial)
        return dconvolved

    def _conv_backward(
        self,
        stream: int,
        names: MixerNames,
        dconvolved: Slice,
        dprojected: Slice,
        saved: Mixed,
        batch: int,
    ) -> Slice:
        """Write the gradient of what is convolved; sums of the parameters' gradients."""
        shape = batch, dconvolved.shape[0] // batch, dconvolved.shape[1]
        partial = self._pool.take("partial", self._conv.partial_shape(*shape))
        self._conv.backward(
            stream, self._xbc(dprojected), partial, dconvolved, self._xbc(saved.projected),
            *self._taps(self._parameters, names), *shape, x_row=self._sizes.projected,
        )  # fmt: skip
        return partial

    # ---- where the parts of the wide matrices begin ----

    def _xbc(self, projected: Slice) -> Slice:
        """What is convolved, or its gradient."""
        return _columns(projected, self._sizes.inner, self._sizes.convolved)

    def _taps(self, arena: Arena, names: MixerNames) -> tuple[Slice, Slice]:
        return arena[f"{names.conv}.weight"], arena[f"{names.conv}.bias"]

    def _ssd_inputs(
        self, names: MixerNames, arena: Arena, convolved: Slice, projected: Slice
    ) -> SsdInputs:
        """The layer's inputs; their gradients, if the matrices and the arena are gradients."""
        sizes = self._sizes
        inner, state, heads = sizes.inner, sizes.state, sizes.heads
        return SsdInputs(
            x=_columns(convolved, 0, inner),
            raw=_columns(projected, inner + sizes.convolved, heads),
            dt_bias=arena[names.dt_bias],
            a_log=arena[names.a_log],
            b=_columns(convolved, inner, state),
            c=_columns(convolved, inner + state, state),
            d=arena[names.d],
        )

    def _ssd_sizes(self, rows: int, batch: int) -> SsdSizes:
        sizes = self._sizes
        return SsdSizes(batch, rows // batch, sizes.heads, sizes.head_size, sizes.state)


def _columns(matrix: Slice, first: int, count: int) -> Slice:
    """Columns first .. first+count-1, from the first row's to the end of the last row's."""
    rows, row = matrix.shape
    return matrix.part(first, ((rows - 1) * row + count,))
