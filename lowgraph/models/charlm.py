"""charlm: a byte-level transformer, forward and backward written out, one layer call a line.

GPT-2's blocks (pre-norm, causal attention, tanh GELU, learned positions) with an untied head that
has no bias. Shapes: B windows of T tokens, d channels, V classes; rows = B*T. Parameters, their
gradients, the residual stream and its gradient are float32; other activations are what the
precision says.

The activations that backward reads are kept in a `Trace`; all others go back to the pool as soon as
they are dead, and those of the trace as backward has read them.

Stages: forward, loss, backward; in the first and the last embedding, attention, mlp and head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lowgraph import ops
from lowgraph.blas import Blas
from lowgraph.integers import integer
from lowgraph.kernels import Library
from lowgraph.memory import Arena, PersistentPool, Slice
from lowgraph.models.biases import Biases
from lowgraph.models.branches import Branches, branch_count
from lowgraph.models.layers import Attended, Layers, Normed
from lowgraph.models.linear import Flow
from lowgraph.models.logits import HoldsLogits
from lowgraph.models.model import Model
from lowgraph.models.parameters import decayed_count, parameter_specs
from lowgraph.models.presets import CharLMConfig
from lowgraph.models.token_layers import rows_at_once
from lowgraph.precision import Precision
from lowgraph.stages import stage

__all__ = ["CharLM", "Trace"]

_LAST_NORM = "n"
_BIASED = "f2", "f1", "o", "qkv"  # as backward comes by them


class Sums(NamedTuple):
    """Workspaces of a backward pass: what the sums over chunks of rows are made in.

    norms, biases: of the parameters of norms, and of biases, if the products do not sum those.
    """

    norms: Slice
    biases: Slice | None


@dataclass(frozen=True)
class BlockTrace:
    """What the backward of one block reads; the residual stream is what its norms norm."""

    norm1: Normed
    attended: Attended
    norm2: Normed
    hidden: Slice
    active: Slice

    @property
    def slices(self) -> tuple[Slice, ...]:
        """All of them."""
        return (*self.norm1, *self.attended, *self.norm2, self.hidden, self.active)


@dataclass
class Trace(HoldsLogits):
    """What backward reads. logits [rows, V] hold their own gradient after `loss_and_gradient`.

    logits: None where they are made by chunks of rows, with the loss (`rows_at_once`).
    dnormed: the gradient of the last norm's output then, after `loss_and_gradient`.
    """

    tokens: Slice
    blocks: tuple[BlockTrace, ...]
    norm: Normed
    logits: Slice | None
    dnormed: Slice | None = None


class CharLM(Model):
    """A model on a device; calls enqueue and return, and allocate from the pool alone.

    config: its shape. precision: of its products; with BF16 it has a `shadow`. arenas: parameters
    and gradients to use instead of its own (`Model`). branches: side streams of its backward pass
    (`branches.py`), None for what suits its width. loss_rows: rows of logits at one time, None for
    what suits their size; where that is fewer than all, a trace has no logits.
    """

    def __init__(
        self,
        config: CharLMConfig,
        *,
        library: Library,
        blas: Blas,
        pool: PersistentPool,
        stream: int,
        precision: Precision = Precision.FP32,
        arenas: tuple[Arena, Arena] | None = None,
        branches: int | None = None,
        loss_rows: int | None = None,
    ) -> None:
        cast = ops.Cast(library) if precision is Precision.BF16 else None
        specs, decayed = parameter_specs(config), decayed_count(config)
        super().__init__(specs, decayed, pool, stream, cast, arenas)
        self.config = config
        self.precision = precision
        self._loss_rows = None if loss_rows is None else integer(loss_rows, "loss_rows", 1)
        self.branches = branch_count(branches, config.width)
        self._blas = blas
        blas.sides.make(self.branches)
        self._blocks = tuple(f"b.{layer}" for layer in range(config.layers))
        norms = [f"{name}.{norm}" for name in self._blocks for norm in ("l1", "l2")] + [_LAST_NORM]
        own = self.parameters, self.gradients, self.shadow
        self._layers = Layers(
            config, library, blas, pool, *own, precision, norms=norms, stream=stream
        )
        biased = [f"{name}.{layer}" for name in self._blocks for layer in _BIASED]
        self._biases = Biases(library, pool, self.gradients, biased, precision, stream)

    def forward(self, stream: int, tokens: Slice) -> Trace:
        """Logits of tokens, int32 [B, T] with T = config.context, and what backward reads."""
        return self._forward(stream, tokens, keep=True)

    def evaluate(self, stream: int, tokens: Slice, targets: Slice) -> Slice:
        """See `Model.evaluate`; a block's activations go back to the pool when it is through."""
        trace = self._forward(stream, tokens, keep=False)
        loss = self.loss(stream, trace, targets)
        self._layers.drop(*trace.norm, *([] if trace.logits is None else [trace.logits]))
        return loss

    def _forward(self, stream: int, tokens: Slice, keep: bool) -> Trace:
        """keep: what backward reads of the blocks; a trace without that ends with its loss."""
        layers, blocks = self._layers, []
        # A block's output joins the stream in the norm that follows it.
        norms = [f"{name}.l1" for name in self._blocks] + [_LAST_NORM]
        with stage("forward"):
            with stage("embedding"):
                normed = layers.embed_norm(stream, tokens, norms[0])
            for name, following in zip(self._blocks, norms[1:], strict=True):
                block, normed = self._block_forward(stream, name, normed, following)
                if keep:
                    blocks.append(block)
                else:
                    layers.drop(*block.slices)
            with stage("head"):
                whole = self._chunk(normed.y) == normed.y.shape[0]
                logits = layers.project(stream, "hd", normed.y) if whole else None
        return Trace(tokens, tuple(blocks), normed, logits)

    def loss(self, stream: int, trace: Trace, targets: Slice) -> Slice:
        """Mean cross-entropy in nats, [1], of targets, int32 [B, T]; backward cannot follow."""
        with stage("loss"):
            if trace.logits is not None:
                trace.read_logits()
                return self._layers.loss(stream, trace.logits, targets)
            x = trace.norm.y
            return self._layers.loss_by_chunks(stream, "hd", x, targets, self._chunk(x))

    def loss_and_gradient(self, stream: int, trace: Trace, targets: Slice) -> Slice:
        """As `loss`, and turns the trace's logits into their gradient, where backward starts.

        Raises ConfigError for logits that are their gradient already, as `loss` does then.
        """
        with stage("loss"):
            if trace.logits is not None:
                trace.turn_logits()
                return self._layers.loss_and_gradient(stream, trace.logits, targets)
            x = trace.norm.y
            if trace.dnormed is not None:  # of an earlier call
                self._layers.drop(trace.dnormed)
            loss, trace.dnormed = self._layers.loss_and_gradient_by_chunks(
                stream, "hd", x, targets, self._chunk(x)
            )
            trace.has_gradient = True
            return loss

    def backward(self, stream: int, trace: Trace) -> None:
        """Overwrite every gradient; gives the trace's slices back. After `loss_and_gradient`."""
        trace.read_gradient()
        layers, rows = self._layers, trace.norm.y.shape[0]
        branches = Branches(self._blas, stream, self.branches, layers.drop)
        with stage("backward"):
            with stage("head"):
                biases = None if layers.sums_biases(rows) else self._biases.room(rows)
                sums = Sums(layers.norm_sums(rows), biases)
                dx = self._head_backward(stream, trace, sums, branches)
            with stage("embedding"):  # nothing waits for it before the end
                order = layers.token_order(branches.fork(), trace.tokens)
                sorted_ = branches.mark()
            for name, block in zip(reversed(self._blocks), reversed(trace.blocks), strict=True):
                dx = self._mlp_backward(stream, name, sums, dx, block, branches)
                dx = self._attention_backward(stream, name, sums, dx, block, branches)
            with stage("embedding"):
                side = branches.fork()
                layers.norm_gradients(side, sums.norms, rows)
                if biases is not None:
                    self._biases.finish(side, biases, rows)
                    branches.drop(biases)
                branches.wait_for(sorted_)
                layers.embed_backward(stream, dx.exact, order, trace.tokens)
            layers.drop(order)
            branches.drop(*dx.pieces, sums.norms)
            branches.join()

    def _head_backward(self, stream: int, trace: Trace, sums: Sums, branches: Branches) -> Flow:
        """The gradient of what the last norm normed, a new one."""
        layers, norm, dlogits = self._layers, trace.norm, trace.logits
        names = "hd", _LAST_NORM
        if dlogits is not None:
            fork = branches.fork(), 0
            return self._through(stream, names, sums, dlogits, norm, None, branches, fork)
        assert trace.dnormed is not None, "the loss by chunks made it"
        dx = layers.norm_backward(stream, _LAST_NORM, sums.norms, trace.dnormed, norm)
        layers.drop(*norm[1:], trace.dnormed)
        branches.drop(norm.y)
        return dx

    def _chunk(self, x: Slice) -> int:
        """Rows of logits at one time, of the last norm's output."""
        rows = x.shape[0]
        return min(rows, self._loss_rows or rows_at_once(rows, self.config.vocabulary))

    def _block_forward(
        self, stream: int, name: str, norm1: Normed, following: str
    ) -> tuple[BlockTrace, Normed]:
        """What backward reads of a block, and the norm, called `following`, of its output."""
        layers = self._layers
        with stage("attention"):
            qkv = layers.linear(stream, f"{name}.qkv", norm1.y)
            attended = layers.attend(stream, name, qkv)
            norm2 = layers.linear_norm(stream, f"{name}.o", f"{name}.l2", attended.y, norm1.x)
        with stage("mlp"):
            hidden, active = layers.linear_gelu(stream, f"{name}.f1", norm2.y)
            normed = layers.linear_norm(stream, f"{name}.f2", following, active, norm2.x)
        return BlockTrace(norm1, attended, norm2, hidden, active), normed

    def _mlp_backward(
        self, stream: int, name: str, sums: Sums, dx: Flow, saved: BlockTrace, branches: Branches
    ) -> Flow:
        """Turn dx, the gradient of the block's output, into that of its middle."""
        layers, biased = self._layers, sums.biases is None
        with stage("mlp"):
            read = dx.operand, saved.active, saved.hidden
            dhidden = layers.linear_gelu_backward(
                stream, f"{name}.f2", *read, branches.fork(), biased=biased
            )
            layers.drop(saved.hidden)
            fork = self._sum_biases(f"{name}.f2", sums, dx, dhidden, branches)
            branches.drop(saved.active)
            names = f"{name}.f1", f"{name}.l2"
            return self._through(stream, names, sums, dhidden, saved.norm2, dx, branches, fork)

    def _attention_backward(
        self, stream: int, name: str, sums: Sums, dx: Flow, saved: BlockTrace, branches: Branches
    ) -> Flow:
        """Turn dx, the gradient of the stream after attention, into that of the block's input."""
        layers, biased = self._layers, sums.biases is None
        with stage("attention"):
            mixed = saved.attended.y
            dmixed = layers.linear_backward(
                stream, f"{name}.o", dx.operand, mixed, branches.fork(), biased=biased
            )
            dqkv = layers.attend_backward(stream, name, dmixed, saved.attended)
            layers.drop(dmixed, *saved.attended[1:])
            branches.drop(mixed)
            fork = self._sum_biases(f"{name}.o", sums, dx, dqkv, branches)
            names = f"{name}.qkv", f"{name}.l1"
            return self._through(stream, names, sums, dqkv, saved.norm1, dx, branches, fork)

    def _sum_biases(
        self, name: str, sums: Sums, dx: Flow, dz: Slice, branches: Branches
    ) -> tuple[int, int]:
        """Sum what the biases of `name` and the layer before it are to be from dx and dz.

        The stream for what reads dz next, and, where dx is to change in place, the mark behind all
        that reads it on a branch.
        """
        side = branches.fork()
        if sums.biases is not None:
            self._biases.pair(side, sums.biases, name, dx.operand, dz)
        return side, 0 if dx.copies else branches.mark()

    def _through(
        self,
        stream: int,
        names: tuple[str, str],
        sums: Sums,
        dz: Slice,
        saved: Normed,
        dx: Flow | None,
        branches: Branches,
        fork: tuple[int, int],
    ) -> Flow:
        """dx with what comes through a layer and the norm before it: the gradient of saved.x.

        names: of the layer, of whose output dz is the gradient, and of the norm. dx: None for a
        new one. fork: as `_sum_biases` gives it.
        """
        layers, (name, norm), (side, mark) = self._layers, names, fork
        biased = sums.biases is None
        if layers.takes_norm(name, dz):
            into = self._changing(norm, dx, branches, mark)
            made = layers.linear_norm_backward(stream, name, norm, sums.norms, dz, saved, into)
            layers.linear_gradients(side, name, dz, saved.y, biased=biased)
            branches.drop(dz, saved.y)
        else:
            dnormed = layers.linear_backward(stream, name, dz, saved.y, side, biased=biased)
            branches.drop(dz, saved.y)
            into = self._changing(norm, dx, branches, mark)
            made = layers.norm_backward(stream, norm, sums.norms, dnormed, saved, into)
            layers.drop(dnormed)
        layers.drop(*saved[1:])
        return made

    def _changing(self, norm: str, dx: Flow | None, branches: Branches, mark: int) -> Flow | None:
        """dx, which a norm may now change: no branch reads it, or it has an operand of its own."""
        if dx is None:
            return None
        if not dx.copies:
            branches.wait_for(mark)
        elif self.branches:
            branches.drop(*dx.copies)
            dx = self._layers.renewed(norm, dx)
        return dx
