"""What a `mamba2` has beside its block, as calls: the loop of refinements, and the loss."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np

from lowgraph import ops
from lowgraph.blas import Blas
from lowgraph.kernels import Library
from lowgraph.memory import Arena, PersistentPool, Slice, fill_zero
from lowgraph.models.branches import Branches
from lowgraph.models.linear import Flow, Linear
from lowgraph.models.mamba2_config import Mamba2Config
from lowgraph.precision import Precision

__all__ = ["HeadGradient", "Looped", "PerceptionLayers"]

_Matrix = TypeVar("_Matrix", Slice, Flow)


class Looped(NamedTuple):
    """All turns of the loop behind each other, so that the weight gradient is one product.

    states [(K+1)*rows, d]: the state before each turn, and the last one. gates [K*rows, 2 d],
    float32: sigmoid and tanh of each turn; in backward their arguments' gradients.
    """

    states: Flow
    gates: Slice


class HeadGradient(NamedTuple):
    """What the launch of head and loss leaves for backward, float32.

    dx [rows, d]: the gradient of the head's input. partial: sums of its parameters' gradients.
    """

    dx: Slice
    partial: Slice


class PerceptionLayers(Linear):
    """Linear layers, K turns of h + sigmoid(g h) * tanh(k h), and binary cross-entropy.

    What products write is float32 here, and the loss with its gradient.
    """

    def __init__(
        self,
        config: Mamba2Config,
        library: Library,
        blas: Blas,
        pool: PersistentPool,
        parameters: Arena,
        gradients: Arena,
        weights: Arena | None = None,
        precision: Precision = Precision.FP32,
        *,
        stream: int,
    ) -> None:
        """stream: for what is filled once."""
        super().__init__(library, blas, pool, parameters, gradients, weights, precision)
        self._loops = config.loops
        self._residual = ops.Residual(library)
        self._update = ops.GatedUpdate(library, precision)
        self._all_turns: ops.GatedLoop | None = None  # where there is a kernel for the whole loop
        if ops.GatedLoop.fits(config.width, precision):
            self._all_turns = ops.GatedLoop(library, config.width, precision)
        self._readout = ops.Readout(library)
        self._bce = ops.BinaryCrossEntropy(library)
        self._ticket = pool.take("loss ticket", (1,), np.uint32, lasting=True)
        fill_zero(self._ticket, stream)
        self._weight = _both_weights(self._weights, config.width)
        self._dweight = _both_weights(gradients, config.width)

    # ---- loop ----

    def loop(self, stream: int, x: Slice, branch: Slice) -> Looped:
        """K turns from h = x + branch, [rows, d] each."""
        rows, width = x.shape
        looped = Looped(
            self._take_flow("states", (self._loops + 1) * rows, width),
            self._take("gates", self._loops * rows, 2 * width),
        )
        biases = self._parameters["g.bias"], self._parameters["k.bias"]
        if self._all_turns:
            states, gates = looped.states.exact, looped.gates
            tensors = (states, gates, x, branch, self._weight, *biases)
            self._all_turns.forward(stream, *tensors, rows, self._loops)
        else:
            self._turn_by_turn(stream, looped, x, branch, biases)
        return looped

    def _turn_by_turn(
        self, stream: int, looped: Looped, x: Slice, branch: Slice, biases: tuple[Slice, Slice]
    ) -> None:
        rows, width = x.shape
        first = _turn(looped.states, 0, rows, width)
        self._residual.add(stream, first.exact, x, branch, rows * width)
        self.round_operand(stream, first)
        for turn in range(self._loops):
            h = _turn(looped.states, turn, rows, width)
            gates = _turn(looped.gates, turn, rows, 2 * width)
            self._blas.gemm(
                stream, gates, h.operand, self._weight, rows, 2 * width, width,
                trans_b=True, precision=self._precision,
            )  # fmt: skip
            after = _turn(looped.states, turn + 1, rows, width)
            self._update.forward(
                stream, after.exact, gates, h.exact, *biases, rows, width, narrow=after.narrow
            )

    def last(self, looped: Looped, rows: int) -> Slice:
        """The state [rows, d] after the last turn, float32."""
        states = looped.states.exact
        return _turn(states, self._loops, rows, states.shape[1])

    def loop_backward(self, stream: int, dh: Slice, looped: Looped, branches: Branches) -> Flow:
        """Turn dh, the gradient of the last state, into that of x and of branch, in place.

        Returns the gates' gradients, for `loop_weights`; a branch makes those of the biases.
        """
        rows, width = dh.shape
        turns = self._loops * rows
        gates = self.beside("gates", looped.gates)
        biases = self._gradients["g.bias"], self._gradients["k.bias"]
        if self._all_turns:
            partial = self._take("partial", *self._all_turns.partial_shape(rows))
            tensors = (dh, gates.exact, *biases, partial, self._weight)
            self._all_turns.backward(stream, *tensors, rows, self._loops, side=branches.fork)
        else:
            self._turn_by_turn_backward(stream, dh, gates)
            partial = self._take("partial", *self._update.partial_shape(turns, width))
            sums = *biases, partial, gates.exact
            self._update.bias_backward(branches.fork(), *sums, turns, width)
        branches.drop(partial)
        return gates

    def loop_weights(self, stream: int, looped: Looped, gates: Flow) -> None:
        """The gradients of the loop's weights, of what `loop_backward` returned."""
        turns, width = looped.gates.shape[0], looped.states.exact.shape[1]
        read = gates.operand, looped.states.operand
        self._blas.gemm(
            stream, self._dweight, *read, 2 * width, width, turns,
            trans_a=True, precision=self._precision,
        )  # fmt: skip

    def _turn_by_turn_backward(self, stream: int, dh: Slice, all_gates: Flow) -> None:
        rows, width = dh.shape
        for turn in reversed(range(self._loops)):
            gates = _turn(all_gates, turn, rows, 2 * width)
            self._update.backward(stream, gates.exact, dh, rows, width, narrow=gates.narrow)
            self._blas.gemm(
                stream, dh, gates.operand, self._weight, rows, width, 2 * width,
                accumulate=True, precision=self._precision,
            )  # fmt: skip

    # ---- the layer of one output ----

    def read_out(self, stream: int, name: str, x: Slice) -> Slice:
        """y [rows, 1] = x weight^T + bias of float32 x [rows, d], not rounded at any precision."""
        rows, width = x.shape
        y = self._take(f"{name}.y", rows, 1)
        weight, bias = self._parameters[f"{name}.weight"], self._parameters[f"{name}.bias"]
        self._readout.forward(stream, y, x, weight, bias, rows, width)
        return y

    def read_out_parameters(self, stream: int, name: str, partial: Slice, rows: int) -> None:
        """The gradients of weight and bias, of what `loss_and_gradient` left in `partial`."""
        dweight, dbias = (self._gradients[f"{name}.{part}"] for part in ("weight", "bias"))
        sums = dweight, dbias, partial
        self._readout.backward_parameters(stream, *sums, rows, dweight.elements)

    # ---- loss ----

    def loss(self, stream: int, logits: Slice, targets: Slice) -> Slice:
        """Mean binary cross-entropy [1], in nats, of logits [rows, 1] and targets [B, T]."""
        count = logits.elements
        loss = self._take("loss", 1)
        partial = self._take("partial", *self._bce.partial_shape(count))
        self._bce.forward(stream, loss, partial, logits, targets, count)
        self.drop(partial)
        return loss

    def loss_and_gradient(
        self, stream: int, name: str, x: Slice, targets: Slice
    ) -> tuple[Slice, HeadGradient]:
        """As `loss` of `read_out` of x, and the gradient of x; one launch.

        Its sum in double precision has another order than that of `loss`.
        """
        rows, width = x.shape
        loss = self._take("loss", 1)
        head = HeadGradient(
            self._take(f"{name}.dx", rows, width),
            self._take(f"{name}.partial", *self._readout.partial_shape(rows, width)),
        )
        losses = self._pool.take("losses", self._readout.losses_shape(rows), np.float64)
        layer = self._parameters[f"{name}.weight"], self._parameters[f"{name}.bias"]
        room = *head, losses, self._ticket
        self._readout.bce_and_gradient(stream, loss, *room, x, *layer, targets, rows, width)
        self.drop(losses)
        return loss, head


def _turn(matrix: _Matrix, turn: int, rows: int, columns: int) -> _Matrix:
    """The rows of one turn."""
    return matrix.part(turn * rows * columns, (rows, columns))


def _both_weights(arena: Arena, width: int) -> Slice:
    """The weights of gate and candidate as one matrix [2 d, d]: they are neighbours."""
    return arena.flat.part(arena.offset("g.weight"), (2 * width, width), f"{arena.name}.gk.weight")
