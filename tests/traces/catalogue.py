"""Every scenario, in the order of their recording, and those the host device does not do yet."""

from __future__ import annotations

from tests.traces import (
    scenarios_ask,
    scenarios_attributes,
    scenarios_bounds,
    scenarios_build,
    scenarios_calls,
    scenarios_conditional,
    scenarios_contexts,
    scenarios_copies,
    scenarios_edges,
    scenarios_events,
    scenarios_faults,
    scenarios_forks,
    scenarios_graphs,
    scenarios_into,
    scenarios_kinds,
    scenarios_library,
    scenarios_memory,
    scenarios_met,
    scenarios_modes,
    scenarios_nodes,
    scenarios_objects,
    scenarios_owned,
    scenarios_params,
    scenarios_threads,
    scenarios_update,
    scenarios_words,
)
from tests.traces.scenario import Scenario

MODULES = (
    scenarios_calls,
    scenarios_threads,
    scenarios_events,
    scenarios_forks,
    scenarios_graphs,
    scenarios_nodes,
    scenarios_update,
    scenarios_conditional,
    scenarios_faults,
    scenarios_build,
    scenarios_params,
    scenarios_kinds,
    scenarios_into,
    scenarios_modes,
    scenarios_objects,
    scenarios_ask,
    scenarios_contexts,
    scenarios_owned,
    scenarios_words,
    scenarios_memory,
    scenarios_edges,
    scenarios_copies,
    scenarios_met,
    scenarios_library,
    scenarios_attributes,
    scenarios_bounds,
)


def runs() -> dict[str, tuple[Scenario, str]]:
    """Each run's key with its scenario and mode."""
    found: dict[str, tuple[Scenario, str]] = {}
    for module in MODULES:
        for scenario in module.SCENARIOS:
            for mode in scenario.modes:
                key = scenario.key(mode)
                if key in found:
                    raise ValueError(f"two scenarios are called {key!r}")
                found[key] = (scenario, mode)
    return found
