"""All verbs, and the step that calls one."""

from __future__ import annotations

from typing import Any

from tests.traces import (
    verbs_ask,
    verbs_build,
    verbs_capture,
    verbs_graphs,
    verbs_handles,
    verbs_nodes,
    verbs_objects,
    verbs_params,
    verbs_work,
)
from tests.traces.world import World

VERBS = {
    **verbs_work.VERBS,
    **verbs_capture.VERBS,
    **verbs_nodes.VERBS,
    **verbs_build.VERBS,
    **verbs_params.VERBS,
    **verbs_graphs.VERBS,
    **verbs_objects.VERBS,
    **verbs_handles.VERBS,
    **verbs_ask.VERBS,
}


def perform(world: World, step: str) -> tuple[int, Any]:
    """Make one step's call, on the second thread if it begins with `@`: (code, extra)."""
    verb, *arguments = step.removeprefix("@").split()
    if step.startswith("@"):
        return world.other.submit(VERBS[verb], world, *arguments).result()
    return VERBS[verb](world, *arguments)
