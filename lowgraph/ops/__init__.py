"""Launchers of the kernels in kernels_cu: one file a layer, forward beside backward.

A launcher takes its kernels at construction and then only launches: no allocation, no copy, no
sync, no state. Outputs come before inputs before sizes. Buffers are device addresses or objects
with an `.address`; workspaces are the caller's, of the shape that `*_shape()` says. Sizes of zero
launch what is left to do, or nothing. Matrix products are in `lowgraph.blas`.

ControlBlock and RandomState are no launchers: they own device state, in a slice of the pool, that a
recorded step reads and the host writes between replays.
"""

from __future__ import annotations

from lowgraph.ops.accumulate import Accumulate
from lowgraph.ops.adamw import AdamW
from lowgraph.ops.attention import CausalAttention
from lowgraph.ops.attention_mma import FlashAttention
from lowgraph.ops.batch import BatchGather
from lowgraph.ops.bce import BinaryCrossEntropy
from lowgraph.ops.bias import Bias
from lowgraph.ops.bias_sums import BiasSums
from lowgraph.ops.cast import Cast
from lowgraph.ops.control import Control
from lowgraph.ops.control_block import ControlBlock
from lowgraph.ops.conv1d import CausalConv1d
from lowgraph.ops.cross_entropy import CrossEntropy
from lowgraph.ops.dropout import Dropout
from lowgraph.ops.embedding import Embedding
from lowgraph.ops.evaluation import EvaluationRecord
from lowgraph.ops.fill import Fill
from lowgraph.ops.gated_loop import GatedLoop
from lowgraph.ops.gated_norm import GatedRmsNorm
from lowgraph.ops.gated_update import GatedUpdate
from lowgraph.ops.gelu import BiasGelu
from lowgraph.ops.gemm_mma import FusedLinear
from lowgraph.ops.gemm_mma_norm import NormedLinear
from lowgraph.ops.grad_norm import GradientNorm
from lowgraph.ops.layernorm import LayerNorm
from lowgraph.ops.linear_tf32 import LinearTf32
from lowgraph.ops.loss_ring import LossRing
from lowgraph.ops.random_state import RandomState
from lowgraph.ops.readout import Readout
from lowgraph.ops.relu import BiasRelu
from lowgraph.ops.residual import Residual
from lowgraph.ops.rms_norm import RmsNorm
from lowgraph.ops.sgd import Sgd
from lowgraph.ops.ssd import Ssd
from lowgraph.ops.staged import StagedCopy

__all__ = [
    "Accumulate",
    "AdamW",
    "BatchGather",
    "Bias",
    "BiasGelu",
    "BiasRelu",
    "BiasSums",
    "BinaryCrossEntropy",
    "Cast",
    "CausalAttention",
    "CausalConv1d",
    "Control",
    "ControlBlock",
    "CrossEntropy",
    "Dropout",
    "Embedding",
    "EvaluationRecord",
    "Fill",
    "FlashAttention",
    "FusedLinear",
    "GatedLoop",
    "GatedRmsNorm",
    "GatedUpdate",
    "GradientNorm",
    "LayerNorm",
    "LinearTf32",
    "LossRing",
    "NormedLinear",
    "RandomState",
    "Readout",
    "Residual",
    "RmsNorm",
    "Sgd",
    "Ssd",
    "StagedCopy",
]
