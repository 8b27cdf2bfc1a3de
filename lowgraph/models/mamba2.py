"""mamba2: says of every time step how likely an event is; forward and backward written out.

    h = e(x);  h = h + block(h);  K times h = h + sigmoid(g(h)) * tanh(k(h));  logits = o(h)

with one Mamba-2 block (mamba2_mixer.py), the K refinements sharing their weights, and the mean
binary cross-entropy of the logits. A precision rounds what products read; all else is float32, also
what they write. Shapes: B sequences of T time steps with F features
each, d channels; rows = B*T. The trace is kept and given back as in charlm.py. Training makes the
logits in the launch of the loss, and keeps none: `logits` is for who asks.

Stages: forward, loss, backward; in the first and the last input, mixer and loop; head in the last,
and in the first where logits are made by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowgraph import ops
from lowgraph.blas import Blas
from lowgraph.errors import ConfigError
from lowgraph.kernels import Library
from lowgraph.memory import Arena, PersistentPool, Slice
from lowgraph.models.branches import Branches, branch_count, spare_streams
from lowgraph.models.linear import Flow
from lowgraph.models.mamba2_config import Mamba2Config
from lowgraph.models.mamba2_layers import HeadGradient, Looped, PerceptionLayers
from lowgraph.models.mamba2_mixer import Mixed, Mixer
from lowgraph.models.mamba2_parameters import MixerNames, decayed_count, parameter_specs
from lowgraph.models.model import Model
from lowgraph.precision import Precision
from lowgraph.stages import stage

__all__ = ["Mamba2", "Mamba2Trace"]


@dataclass
class Mamba2Trace:
    """What backward reads; x [rows, d] is the block's input, features [rows, F] the model's.

    head: where backward starts, after `loss_and_gradient`.
    """

    inputs: Slice
    features: Flow
    x: Flow
    mixed: Mixed
    looped: Looped
    head: HeadGradient | None = None


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
        self._layers = PerceptionLayers(
            config, library, blas, pool, *own, self.shadow, precision, stream=stream
        )
        self._mixer = Mixer(config.mixer, self._layers, library, pool, *own, precision)
        self._names = MixerNames.perception()

    def forward(self, stream: int, inputs: Slice) -> Mamba2Trace:
        """What `logits`, loss and backward read, of inputs, float32 [B, T, F]."""
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
        return Mamba2Trace(inputs, features, flow, mixed, looped)

    def logits(self, stream: int, trace: Mamba2Trace) -> Slice:
        """The logit of each step, float32 [B * T, 1], a new slice; while the trace is kept."""
        with stage("forward"), stage("head"):
            return self._layers.read_out(stream, "o", self._last(trace))

    def loss(self, stream: int, trace: Mamba2Trace, targets: Slice) -> Slice:
        """Mean binary cross-entropy in nats, [1], of targets in [0, 1], float32 [B, T].

        Backward cannot follow.
        """
        logits = self.logits(stream, trace)
        with stage("loss"):
            loss = self._layers.loss(stream, logits, targets)
        self._layers.drop(logits)
        return loss

    def loss_and_gradient(self, stream: int, trace: Mamba2Trace, targets: Slice) -> Slice:
        """As `loss`, and leaves in the trace where backward starts; one launch.

        The two may differ by their last bit: they are sums of another order, in float64.
        """
        with stage("loss"):
            self._layers.drop(*(trace.head or ()))  # of an earlier call
            loss, trace.head = self._layers.loss_and_gradient(
                stream, "o", self._last(trace), targets
            )
            return loss

    def backward(self, stream: int, trace: Mamba2Trace) -> None:
        """Overwrite every gradient; gives the trace's slices back. After `loss_and_gradient`."""
        if trace.head is None:
            raise ConfigError("backward comes after loss_and_gradient: call that with the trace")
        layers, batch = self._layers, trace.inputs.shape[0]
        branches = Branches(self._blas, stream, self.branches, layers.drop)
        x, (dh, partial) = trace.x.operand, trace.head
        with stage("backward"):
            with stage("head"):
                layers.read_out_parameters(branches.fork(), "o", partial, dh.shape[0])
                branches.drop(partial)
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
                    stream, self._names, flow.operand, x, trace.mixed, batch, branches, dh, beside,
                    branches.fork_spare,
                )  # fmt: skip
                branches.drop(*trace.x.pieces)
            with stage("input"):
                layers.bias_gradient(branches.fork_spare(), "e", dh, branches.drop)
                layers.round_operand(stream, flow)
                layers.weight_gradient(stream, "e", flow.operand, trace.features.operand)
            branches.drop(*flow.pieces, *trace.features.copies)
            branches.join()

    def _last(self, trace: Mamba2Trace) -> Slice:
        """The head's input."""
        return self._layers.last(trace.looped, trace.x.exact.shape[0])


def _flat(inputs: Slice) -> Slice:
    """Inputs as a matrix [rows, F]."""
    batch, length, features = inputs.shape
    return inputs.part(0, (batch * length, features))
