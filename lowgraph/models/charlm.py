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

from lowgraph import ops
from lowgraph.blas import Blas
from lowgraph.kernels import Library
from lowgraph.memory import Arena, PersistentPool, Slice
from lowgraph.models.layers import Attended, Layers, Normed
from lowgraph.models.linear import Flow
from lowgraph.models.model import Model
from lowgraph.models.parameters import decayed_count, parameter_specs
from lowgraph.models.presets import CharLMConfig
from lowgraph.precision import Precision
from lowgraph.stages import stage

__all__ = ["CharLM", "Trace"]


@dataclass(frozen=True)
class BlockTrace:
    """What the backward of one block reads; x is its input, `middle` the stream after attention."""

    x: Slice
    norm1: Normed
    attended: Attended
    middle: Slice
    norm2: Normed
    hidden: Slice
    active: Slice


@dataclass(frozen=True)
class Trace:
    """What backward reads. logits [rows, V] hold their own gradient after `loss_and_gradient`."""

    tokens: Slice
    blocks: tuple[BlockTrace, ...]
    x: Slice
    norm: Normed
    logits: Slice


class CharLM(Model):
    """A model on a device; calls enqueue and return, and allocate from the pool alone.

    config: its shape. precision: of its products; with BF16 it has a `shadow`. arenas: parameters
    and gradients to use instead of its own (`Model`).
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
    ) -> None:
        cast = ops.Cast(library) if precision is Precision.BF16 else None
        specs, decayed = parameter_specs(config), decayed_count(config)
        super().__init__(specs, decayed, pool, stream, cast, arenas)
        self.config = config
        self.precision = precision
        own = self.parameters, self.gradients, self.shadow
        self._layers = Layers(config, library, blas, pool, *own, precision)
        self._blocks = tuple(f"b.{layer}" for layer in range(config.layers))

    def forward(self, stream: int, tokens: Slice) -> Trace:
        """Logits of tokens, int32 [B, T] with T = config.context, and what backward reads."""
        layers = self._layers
        blocks = []
        with stage("forward"):
            with stage("embedding"):
                x = layers.embed(stream, tokens)
            for name in self._blocks:
                block, x = self._block_forward(stream, name, x)
                blocks.append(block)
            with stage("head"):
                norm = layers.norm(stream, "n", x)
                logits = layers.project(stream, "hd", norm.y)
        return Trace(tokens, tuple(blocks), x, norm, logits)

    def loss(self, stream: int, trace: Trace, targets: Slice) -> Slice:
        """Mean cross-entropy in nats, [1], of targets, int32 [B, T]; backward cannot follow."""
        with stage("loss"):
            return self._layers.loss(stream, trace.logits, targets)

    def loss_and_gradient(self, stream: int, trace: Trace, targets: Slice) -> Slice:
        """As `loss`, and turns the trace's logits into their gradient, where backward starts."""
        with stage("loss"):
            return self._layers.loss_and_gradient(stream, trace.logits, targets)

    def backward(self, stream: int, trace: Trace) -> None:
        """Overwrite every gradient; gives the trace's slices back. After `loss_and_gradient`."""
        layers = self._layers
        with stage("backward"):
            with stage("head"):
                dnormed = layers.project_backward(stream, "hd", trace.logits, trace.norm.y)
                dx = layers.norm_backward(stream, "n", dnormed, trace.x, trace.norm)
                layers.drop(trace.logits, *trace.norm, trace.x, dnormed)
            for name, block in zip(reversed(self._blocks), reversed(trace.blocks), strict=True):
                self._mlp_backward(stream, name, dx, block)
                self._attention_backward(stream, name, dx, block)
            with stage("embedding"):
                layers.embed_backward(stream, dx.exact, trace.tokens)
            layers.drop(*dx.pieces)

    def _block_forward(self, stream: int, name: str, x: Slice) -> tuple[BlockTrace, Slice]:
        """What backward reads of a block, and its output."""
        layers = self._layers
        with stage("attention"):
            norm1 = layers.norm(stream, f"{name}.l1", x)
            qkv = layers.linear(stream, f"{name}.qkv", norm1.y)
            attended = layers.attend(stream, name, qkv)
            middle = layers.linear_residual(stream, f"{name}.o", attended.y, x)
        with stage("mlp"):
            norm2 = layers.norm(stream, f"{name}.l2", middle)
            hidden, active = layers.linear_gelu(stream, f"{name}.f1", norm2.y)
            y = layers.linear_residual(stream, f"{name}.f2", active, middle)
        return BlockTrace(x, norm1, attended, middle, norm2, hidden, active), y

    def _mlp_backward(self, stream: int, name: str, dx: Flow, saved: BlockTrace) -> None:
        """Turn dx, the gradient of the block's output, into that of `middle`, in place."""
        layers = self._layers
        with stage("mlp"):
            dhidden = layers.linear_backward(stream, f"{name}.f2", dx.operand, saved.active)
            layers.gelu_backward(stream, dhidden, saved.hidden)
            layers.drop(saved.active, saved.hidden)
            dnormed = layers.linear_backward(stream, f"{name}.f1", dhidden, saved.norm2.y)
            layers.norm_backward(stream, f"{name}.l2", dnormed, saved.middle, saved.norm2, dx)
            layers.drop(dhidden, dnormed, saved.middle, *saved.norm2)

    def _attention_backward(self, stream: int, name: str, dx: Flow, saved: BlockTrace) -> None:
        """Turn dx, the gradient of `middle`, into that of the block's input, in place."""
        layers = self._layers
        with stage("attention"):
            dmixed = layers.linear_backward(stream, f"{name}.o", dx.operand, saved.attended.y)
            dqkv = layers.attend_backward(stream, name, dmixed, saved.attended)
            layers.drop(dmixed, *saved.attended)
            dnormed = layers.linear_backward(stream, f"{name}.qkv", dqkv, saved.norm1.y)
            layers.norm_backward(stream, f"{name}.l1", dnormed, saved.x, saved.norm1, dx)
            layers.drop(dqkv, dnormed, saved.x, *saved.norm1)
