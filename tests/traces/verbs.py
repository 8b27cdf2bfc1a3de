"""All verbs, and the step that calls one."""

from __future__ import annotations

from typing import Any

from lowgraph.errors import DriverError
from tests.traces import (
    verbs_ask,
    verbs_attributes,
    verbs_bodies,
    verbs_bounds,
    verbs_build,
    verbs_capture,
    verbs_conditional,
    verbs_contexts,
    verbs_edges,
    verbs_graphs,
    verbs_handles,
    verbs_managed,
    verbs_nodes,
    verbs_objects,
    verbs_owned,
    verbs_params,
    verbs_settings,
    verbs_virtual,
    verbs_words,
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
    **verbs_params.VERBS,
    **verbs_graphs.VERBS,
    **verbs_objects.VERBS,
    **verbs_handles.VERBS,
    **verbs_ask.VERBS,
    **verbs_contexts.VERBS,
    **verbs_owned.VERBS,
    **verbs_words.VERBS,
    **verbs_attributes.VERBS,
    **verbs_managed.VERBS,
    **verbs_virtual.VERBS,
    **verbs_edges.VERBS,
    **verbs_settings.VERBS,
    **verbs_bounds.VERBS,
}


def perform(world: World, step: str) -> tuple[int, Any]:
    """Make one step's call, on the second thread if it begins with `@`: (code, extra).

    Notes whether all steps so far went well. Raises KeyError or IndexError for what is not there.
    """
    try:
        code, extra = _answer(world, step)
    except LookupError:
        world.all_good = False
        raise
    world.all_good = world.all_good and code == 0
    return code, extra


def _answer(world: World, step: str) -> tuple[int, Any]:
    verb, *arguments = step.removeprefix("@").split()
    make = VERBS[verb]
    try:
        if step.startswith("@"):
            return world.other.submit(make, world, *arguments).result()
        return make(world, *arguments)
    except DriverError as error:  # of a call beside the one that the step stands for
        return error.code, str(error.call)
