"""All scenarios by name."""

from __future__ import annotations

from tests.check.bugs import (  # noqa: F401  each enters its scenarios
    scenarios_backward,
    scenarios_batches,
    scenarios_biases,
    scenarios_elements,
    scenarios_fused,
    scenarios_layers,
    scenarios_mamba,
    scenarios_mma,
    scenarios_nodes,
    scenarios_norm,
    scenarios_own,
    scenarios_products,
    scenarios_state,
)
from tests.check.bugs.registry import SCENARIOS

__all__ = ["SCENARIOS"]
