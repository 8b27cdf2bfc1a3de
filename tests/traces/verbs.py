"""All verbs, and the step that calls one."""

from __future__ import annotations

from typing import Any

from lowgraph.errors import DriverError
from tests.traces import (
    verbs_bodies,
    verbs_build,
    verbs_capture,
    verbs_conditional,
    verbs_nodes,
    verbs_work,
)
from tests.traces.world import World

VERBS = {
    **verbs_work.VERBS,
    **verbs_capture.VERBS,
    **verbs_nodes.VERBS,
    **verbs_build.VERBS,
    **verbs_conditional.VERBS,
    **verbs_bodies.VERBS,
}


def perform(world: World, step: str) -> tuple[int, Any]:
    """Make one step, and note whether it went well."""
    code, extra = _answer(world, step)
    world.all_good = world.all_good and code == 0
    return code, extra


def _answer(world: World, step: str) -> tuple[int, Any]:
    """Make one step's call, on the second thread if it begins with `@`: (code, extra).

    Code -2: it names what an earlier step was to make, and that step was answered with an error.
    """
    verb, *arguments = step.removeprefix("@").split()
    make = VERBS[verb]
    try:
        if step.startswith("@"):
            return world.other.submit(make, world, *arguments).result()
        return make(world, *arguments)
    except KeyError as error:
        return -2, f"there is no {error.args[0]}"
    except DriverError as error:  # of a call beside the one that the step stands for
        return error.code, str(error.call)
