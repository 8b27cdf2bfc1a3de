"""All turns of a loop of gated refinements in one launch each way (kernels_cu/gated_loop.cu)."""

from __future__ import annotations

from lowgraph.errors import ConfigError
from lowgraph.kernels import Library
from lowgraph.ops.shapes import Fork, Pointer, Stream, behind, ceil_div, check_sizes
from lowgraph.precision import Precision

__all__ = ["GatedLoop"]

_BLOCK = 256
_ROWS = 16  # of a block at a time
_MOST_CHUNKS = 128  # blocks: each reads the weights, and leaves a sum of the biases' gradients
_UNIT, _MOST_CHANNELS = 8, 128  # the weights of more stay in no block


class GatedLoop:
    """h_{k+1} = h_k + sigmoid(h_k Wg^T + gate_bias) * tanh(h_k Wc^T + candidate_bias), k < turns.

    channels: of h, a multiple of 8, 128 at most. precision: FP32 or TF32, what the factors of
    products are rounded to; all else is float32. Raises ConfigError for others: see `fits`.

    Shapes: x, branch and gradients of h [rows,channels]; states [turns+1,rows,channels], h of each
    turn; gates [turns,rows,2*channels], sigmoid and tanh of each turn, then their arguments'
    gradients; weight [2*channels,channels], Wg and below it Wc; biases [channels]; float32, each
    at a multiple of 16 bytes. Sums are in an order that depends on the sizes alone.
    """

    def __init__(self, library: Library, channels: int, precision: Precision) -> None:
        """Take the kernels from `library`."""
        if not self.fits(channels, precision):
            raise ConfigError(
                f"GatedLoop: channels must be a multiple of {_UNIT} up to {_MOST_CHANNELS} and "
                f"precision fp32 or tf32, got {channels} and {precision}: make each turn of a "
                "product and a GatedUpdate"
            )
        self._channels = channels
        defines = {"LOOP_TF32": int(precision is Precision.TF32)}
        self._forward = library.kernel("gated_loop.cu", "gated_loop_forward", defines)
        self._backward = library.kernel("gated_loop.cu", "gated_loop_backward", defines)
        types = {"act_t": Precision.FP32.ctype}
        self._final = library.kernel("gated_update.cu", "gated_update_bias_final", types)

    @staticmethod
    def fits(channels: int, precision: Precision) -> bool:
        """Return whether there are kernels for this width and precision."""
        narrow = precision is Precision.BF16
        return not narrow and channels in range(_UNIT, _MOST_CHANNELS + 1, _UNIT)

    def partial_shape(self, rows: int) -> tuple[int, int]:
        """Return the shape of backward's float32 workspace."""
        return (_chunks(rows)[0], 2 * self._channels)

    def forward(
        self,
        stream: Stream,
        states: Pointer,
        gates: Pointer,
        x: Pointer,
        branch: Pointer,
        weight: Pointer,
        gate_bias: Pointer,
        candidate_bias: Pointer,
        rows: int,
        turns: int,
    ) -> None:
        """Overwrite states, from h_0 = x + branch, and gates; one launch."""
        check_sizes("GatedLoop", rows=rows, turns=turns)
        chunks, groups = _chunks(rows)
        if rows:
            self._forward(
                stream, chunks, _BLOCK, states, gates, x, branch, weight, gate_bias, candidate_bias,
                rows, self._channels, turns, groups,
            )  # fmt: skip

    def backward(
        self,
        stream: Stream,
        dh: Pointer,
        gates: Pointer,
        dgate_bias: Pointer,
        dcandidate_bias: Pointer,
        partial: Pointer,
        weight: Pointer,
        rows: int,
        turns: int,
        *,
        accumulate: bool = False,
        side: Fork | None = None,
    ) -> None:
        """Turn dh, the gradient of the last state, into that of the first; two launches.

        Overwrites sigmoid and tanh in gates with their arguments' gradients, and the biases'
        gradients with the sums of those, or adds to them if `accumulate`. partial: workspace of
        `partial_shape(rows)`. side: for the second launch, which leaves the biases' gradients. The
        weight's gradient is a product of gates with states.
        """
        check_sizes("GatedLoop", rows=rows, turns=turns)
        (chunks, groups), channels = _chunks(rows), self._channels
        if rows and turns:
            self._backward(
                stream, chunks, _BLOCK, dh, gates, partial, weight, rows, channels, turns, groups
            )
        count, columns = chunks if rows and turns else 0, ceil_div(2 * channels, 64)
        sums = dgate_bias, dcandidate_bias, partial
        self._final(behind(stream, side), columns, 64, *sums, count, channels, accumulate)


def _chunks(rows: int) -> tuple[int, int]:
    """How many blocks share the rows, and how often each takes 16 of them.

    A function of the rows alone, as the order of sums is with it.
    """
    blocks = ceil_div(rows, _ROWS)
    groups = max(1, ceil_div(blocks, _MOST_CHUNKS))
    return max(1, ceil_div(blocks, groups)), groups
