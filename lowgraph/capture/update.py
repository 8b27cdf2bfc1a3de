"""Giving a live executable what a second recording holds, or saying why that cannot be.

cuGraphExecUpdate is asked first, with four exceptions, in which it would succeed and be wrong or
not be told apart from wrong: a kernel's cluster size that differs (it keeps the old one: measured),
disabled nodes, cluster sizes in graphs that we cannot pair node by node, and conditionals, whose
bodies we cannot pair.
"""

from __future__ import annotations

from lowgraph import driver
from lowgraph.capture import explain_update
from lowgraph.capture.node_params import Contents
from lowgraph.errors import ContextPoisoned, DriverError, ExecUpdateRejected

__all__ = ["update_executable"]


def update_executable(executable: int, old: Contents, new: Contents) -> bool:
    """Update the executable from `old`, what it holds, to `new`.

    Returns whether node k of `new` is known to have gone to the place of node k of `old`. Raises
    ExecUpdateRejected, and the executable is as it was; ContextPoisoned.
    """
    paired = len(old.nodes) == len(new.nodes) and old.waits == new.waits
    rejection = _not_to_ask(old, new, paired)
    if rejection is not None:
        raise rejection
    try:
        result = driver.graph.update(executable, new.graph)
    except ContextPoisoned:
        raise
    except DriverError as error:
        raise explain_update.failed_call(error) from error
    if not result.ok:
        raise explain_update.explain(result, old, new)
    return paired


def _not_to_ask(old: Contents, new: Contents, paired: bool) -> ExecUpdateRejected | None:
    if old.bodies or new.bodies:
        return explain_update.has_bodies(old, new)
    if old.disabled:
        return explain_update.node_disabled(old)
    if len(old.nodes) != len(new.nodes) or old.kinds != new.kinds:
        return None  # the driver refuses, and knows why
    if paired:
        place = _other_cluster(old, new)
        return None if place is None else explain_update.cluster_changed(old, new, place)
    return explain_update.order_unknown(new) if old.clusters or new.clusters else None


def _other_cluster(old: Contents, new: Contents) -> int | None:
    if old.clusters == new.clusters:
        return None
    places = sorted(old.clusters.keys() | new.clusters.keys())
    return next(n for n in places if old.clusters.get(n) != new.clusters.get(n))
