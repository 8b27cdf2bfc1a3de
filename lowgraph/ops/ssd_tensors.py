"""What the state space layer's launches are called with."""

from __future__ import annotations

from typing import NamedTuple

from lowgraph.ops.shapes import Pointer, ceil_div

__all__ = ["CHUNK", "SHORT", "SsdInputs", "SsdRows", "SsdSaved", "SsdSizes", "SsdWorkspace"]

CHUNK = 32
"""Time steps of a chunk of a long sequence."""

SHORT = 64
"""Most time steps, channels of a head and elements of its state that one block makes by itself."""


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
        return ceil_div(self.length, CHUNK)

    @property
    def short(self) -> bool:
        """Return whether one block makes a head of a sequence by itself (ssd_short.cu).

        A function of the shape alone: the order of sums, and so the bits, are those of every
        device.
        """
        return max(self.length, self.head_size, self.state_size) <= SHORT


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

    dt: the step sizes. decay: their sums times A from the start of each chunk, or of a short
    sequence. scores: c_t.b_s within each chunk. states: before each chunk. A short sequence has
    neither of the last two.
    """

    dt: Pointer
    decay: Pointer
    scores: Pointer
    states: Pointer


class SsdWorkspace(NamedTuple):
    """What backward's launches hand to each other, float32, of `Ssd.workspace_shapes`.

    dstates, pairs: of the chunks; a short sequence has none. by_head: each head's part of the
    gradients of b and c; only of short sequences. partial: sums of the parameters' gradients.
    """

    dstates: Pointer
    pairs: Pointer
    by_head: Pointer
    partial: Pointer
