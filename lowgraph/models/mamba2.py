"""mamba2: says of every time step how likely an event is; forward and backward written out.

    h = e(x);  h = h + block(h);  K times h = h + sigmoid(g(h)) * tanh(k(h));  logits = o(h)

with one Mamba-2 block (mamba2_mixer.py), the K refinements sharing their weights, and the mean
binary cross-entropy of the logits. A precision rounds what products read; all else is float32, also
what they write. Shapes: B sequences of T time steps with F features
each, d channels; rows = B*T. The trace is kept and given back as in charlm.py.

Stages: forward, loss, backward; in the first and the last input, mixer, loop and head.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowgraph import ops
from lowgraph.blas import Blas
from lowgraph.kernels import Library
from lowgraph.memory import Arena, PersistentPool, Slice
from lowgraph.models.branches import Branches, branch_count, spare_streams
from lowgraph.models.linear import Flow
from lowgraph.models.mamba2_config import Mamba2Config
from lowgraph.models.mamba2_layers import Looped, PerceptionLayers
from lowgraph.models.mamba2_mixer import Mixed, Mixer
from lowgraph.models.mamba2_parameters import MixerNames, decayed_count, parameter_specs
from lowgraph.models.model import Model
from lowgraph.precision import Precision
from lowgraph.stages import stage

__all__ = ["Mamba2", "Mamba2Trace"]


@dataclass(frozen=True)
class Mamba2Trace:
    """What backward reads; x [rows, d] is the block's input, features [rows, F] the model's.

    logits [rows, 1] hold their own gradient after `loss_and_gradient`.
    """

    inputs: Slice
    features: Flow
    x: Flow
    mixed: Mixed
    looped: Looped
    logits: Slice


class Mamba2(Model):
    """A model on a device; calls enqueue and return, and allocate from the pool alone.

    config: its shape. precision: of its products; with BF16 it has a `shadow`. arenas: parameters
    and gradients to use instead of its own (`Model`). branches: side streams of its backward pass
    (`branches.py`), None for what suits its width.
    """

    def __init__(
        self,
        config: Mamba2Config,
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
        blas.sides.make(spare_streams(self.branches), yields=True)
        own = self.parameters, self.gradients
        self._layers = PerceptionLayers(config, library, blas, pool, *own, self.shadow, precision)
        self._mixer = Mixer(config.mixer, self._layers, library, pool, *own, precision)
        self._names = MixerNames.perception()

    def forward(self, stream: int, inputs: Slice) -> Mamba2Trace:
        """Logits of inputs, float32 [B, T, F], and what backward reads."""
        layers = self._layers
        with stage("forward"):
            with stage("input"):
                features = layers.flow(stream, "features", _flat(inputs))
                x = layers.linear(stream, "e", features.operand, wide=True)
                flow = layers.flow(stream, "x", x)
            with stage("mixer"):
                branch, mixed = self._mixer.forward(
                    stream, self._names, flow.operand, inputs.shape[0]
                )
            with stage("loop"):
                looped = layers.loop(stream, x, branch)
                layers.drop(branch)
            with stage("head"):
                logits = layers.read_out(stream, "o", layers.last(looped, x.shape[0]))
        return Mamba2Trace(inputs, features, flow, mixed, looped, logits)

    def loss(self, stream: int, trace: Mamba2Trace, targets: Slice) -> Slice:
        """Mean binary cross-entropy in nats, [1], of targets in [0, 1], float32 [B, T].

        Backward cannot follow.
        """
        with stage("loss"):
            return self._layers.loss(stream, trace.logits, targets)

    def loss_and_gradient(self, stream: int, trace: Mamba2Trace, targets: Slice) -> Slice:
        """As `loss`, and turns the trace's logits into their gradient, where backward starts."""
        with stage("loss"):
            return self._layers.loss_and_gradient(stream, trace.logits, targets)

    def backward(self, stream: int, trace: Mamba2Trace) -> None:
        """Overwrite every gradient; gives the trace's slices back. After `loss_and_gradient`."""
        layers, batch = self._layers, trace.inputs.shape[0]
        branches = Branches(self._blas, stream, self.branches, layers.drop)
        x = trace.x.operand
        with stage("backward"):
            with stage("head"):
                last = layers.last(trace.looped, x.shape[0])
                dh = layers.read_out_backward(stream, "o", trace.logits, last, branches)
                layers.drop(trace.logits)
            with stage("loop"):
                gates = layers.loop_backward(stream, dh, trace.looped, branches)
            with stage("mixer"):
                flow = layers.flow(stream, "dh", dh)

                def beside() -> None:
                    with stage("loop"):
                        layers.loop_weights(branches.fork(), trace.looped, gates)
                        branches.drop(*trace.looped.states.pieces, *gates.pieces)

                # h = x + block(x): the block's gradient of x joins the one that passed it by.
                self._mixer.backward(
                    stream, self._names, flow.operand, x, trace.mixed, batch, branches, dh, beside
                )
                branches.drop(*trace.x.pieces)
            with stage("input"):
                layers.bias_gradient(branches.fork_spare(), "e", dh, branches.drop)
                layers.round_operand(stream, flow)
                layers.weight_gradient(stream, "e", flow.operand, trace.features.operand)
            branches.drop(*flow.pieces, *trace.features.copies)
            branches.join()


def _flat(inputs: Slice) -> Slice:
    """Inputs as a matrix [rows, F]."""
    batch, length, features = inputs.shape
    return inputs.part(0, (batch * length, features))
