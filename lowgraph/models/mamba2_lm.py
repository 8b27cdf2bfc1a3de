"""mamba2-lm: a language model of Mamba-2 blocks, forward and backward written out.

transformers' Mamba2ForCausalLM with one group, no biases but the convolution's, and an untied head:
embedding, L times a block (mamba2_mixer.py) behind a root-mean-square norm beside the residual
stream, a last norm, the head. Shapes: B windows of T tokens, d channels, V classes; rows = B*T. The
trace is kept and given back, and a precision divides the types, as in charlm.py.

Stages: forward, loss, backward; in the first and the last embedding, mixer and head.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowgraph import ops
from lowgraph.blas import Blas
from lowgraph.kernels import Library
from lowgraph.memory import Arena, PersistentPool, Slice
from lowgraph.models.branches import Branches, branch_count
from lowgraph.models.logits import HoldsLogits
from lowgraph.models.mamba2_config import Mamba2LMConfig
from lowgraph.models.mamba2_lm_layers import LMLayers, StreamNorm
from lowgraph.models.mamba2_mixer import Mixed, Mixer
from lowgraph.models.mamba2_parameters import (
    MixerNames,
    block_name,
    decayed_count,
    parameter_specs,
)
from lowgraph.models.model import Model
from lowgraph.precision import Precision
from lowgraph.stages import stage

__all__ = ["Mamba2LM", "Mamba2LMTrace"]

_EMBEDDING = "backbone.embeddings"
_LAST_NORM = "backbone.norm_f"


@dataclass
class Mamba2LMTrace(HoldsLogits):
    """What backward reads: of each block its norm and what it mixed, then the last norm.

    logits [rows, V] hold their own gradient after `loss_and_gradient`.
    """

    tokens: Slice
    blocks: tuple[tuple[StreamNorm, Mixed], ...]
    norm: StreamNorm
    logits: Slice


class Mamba2LM(Model):
    """A model on a device; calls enqueue and return, and allocate from the pool alone.

    config: its shape. precision: of its products; with BF16 it has a `shadow`. arenas: parameters
    and gradients to use instead of its own (`Model`). branches: side streams of its backward pass
    (`branches.py`), None for what suits its width.
    """

    def __init__(
        self,
        config: Mamba2LMConfig,
        *,
        library: Library,
        blas: Blas,
        pool: PersistentPool,
        stream: int,
        precision: Precision = Precision.FP32,
        arenas: tuple[Arena, Arena] | None = None,
        branches: int | None = None,
    ) -> None:
        cast = ops.Cast(library) if precision is Precision.BF16 else None
        specs, decayed = parameter_specs(config), decayed_count(config)
        super().__init__(specs, decayed, pool, stream, cast, arenas)
        self.config = config
        self.precision = precision
        self.branches = branch_count(branches, config.width)
        self._blas = blas
        blas.sides.make(self.branches)
        own = self.parameters, self.gradients
        self._layers = LMLayers(config, library, blas, pool, *own, self.shadow, precision)
        self._mixer = Mixer(config.mixer, self._layers, library, pool, *own, precision)
        blocks = [block_name(layer) for layer in range(config.layers)]
        self._blocks = tuple((f"{block}.norm", MixerNames.layer(block)) for block in blocks)

    def forward(self, stream: int, tokens: Slice) -> Mamba2LMTrace:
        """Logits of tokens, int32 [B, T], and what backward reads."""
        layers, blocks = self._layers, []
        with stage("forward"):
            with stage("embedding"):
                normed = layers.norm(
                    stream, self._blocks[0][0], layers.embed(stream, _EMBEDDING, tokens)
                )
            # A block's output joins the stream in the norm that follows it.
            following = [name for name, _ in self._blocks[1:]] + [_LAST_NORM]
            for (_, names), next_norm in zip(self._blocks, following, strict=True):
                with stage("mixer"):
                    branch, mixed = self._mixer.forward(stream, names, normed.y, tokens.shape[0])
                    blocks.append((normed, mixed))
                    normed = layers.add_norm(stream, next_norm, normed.x, branch)
            with stage("head"):
                logits = layers.project(stream, "lm_head", normed.y)
        return Mamba2LMTrace(tokens, tuple(blocks), normed, logits)

    def loss(self, stream: int, trace: Mamba2LMTrace, targets: Slice) -> Slice:
        """Mean cross-entropy in nats, [1], of targets, int32 [B, T]; backward cannot follow."""
        with stage("loss"):
            trace.read_logits()
            return self._layers.loss(stream, trace.logits, targets)

    def loss_and_gradient(self, stream: int, trace: Mamba2LMTrace, targets: Slice) -> Slice:
        """As `loss`, and turns the trace's logits into their gradient, where backward starts.

        Raises ConfigError for logits that are their gradient already, as `loss` does then.
        """
        with stage("loss"):
            trace.turn_logits()
            return self._layers.loss_and_gradient(stream, trace.logits, targets)

    def backward(self, stream: int, trace: Mamba2LMTrace) -> None:
        """Overwrite every gradient; gives the trace's slices back. After `loss_and_gradient`."""
        trace.read_gradient()
        layers, batch = self._layers, trace.tokens.shape[0]
        branches = Branches(self._blas, stream, self.branches, layers.drop)
        with stage("backward"):
            with stage("embedding"):
                order = layers.token_order(branches.fork(), trace.tokens)
                sorted_ = branches.mark()
            with stage("head"):
                read = trace.logits, trace.norm.y
                dnormed = layers.project_backward(stream, "lm_head", *read, side=branches.fork())
                dx = layers.norm_backward(stream, _LAST_NORM, dnormed, trace.norm, branches)
                branches.drop(trace.logits, dnormed, *trace.norm)
            for (norm, names), (normed, mixed) in zip(
                reversed(self._blocks), reversed(trace.blocks), strict=True
            ):
                with stage("mixer"):
                    dnormed = self._mixer.backward(
                        stream, names, dx.operand, normed.y, mixed, batch, branches
                    )
                    layers.norm_backward(stream, norm, dnormed, normed, branches, dx)
                    branches.drop(dnormed, *normed)
            with stage("embedding"):
                branches.wait_for(sorted_)
                layers.embed_backward(stream, _EMBEDDING, dx.exact, order, trace.tokens)
            layers.drop(order, *dx.pieces)
            branches.join()
