"""How a graph is launched that borrows workspaces: one stream at a time may use each of them."""

from __future__ import annotations

from collections.abc import Callable

from lowgraph import driver
from lowgraph.capture.handles import GraphHandles
from lowgraph.memory import Exclusive

__all__ = ["launcher"]


def launcher(handles: GraphHandles) -> Callable[[], None]:
    """What launches the executable: one driver call, behind a check of what the graph borrows.

    The check raises WorkspaceInUse, and nothing is launched then. Ask again when the owner changes.
    """
    run = driver.graph.launcher(handles.executable, handles.stream)
    lent = handles.pool.borrowed(handles.owner)
    if not lent:
        return run
    owner, stream = handles.owner, handles.stream
    return _one(run, lent[0], owner, stream) if len(lent) == 1 else _many(run, lent, owner, stream)


def _one(
    run: Callable[[], None], workspace: Exclusive, owner: object, stream: int
) -> Callable[[], None]:
    lock, enter = workspace.lock, workspace.enter

    def launch() -> None:
        with lock:
            enter(owner, stream)
            run()

    return launch


def _many(
    run: Callable[[], None], lent: tuple[Exclusive, ...], owner: object, stream: int
) -> Callable[[], None]:
    """Locks in the order of the pool, which is the same for every graph: no deadlock."""
    first, rest = lent[0], lent[1:]
    inner = _many(run, rest, owner, stream) if len(rest) > 1 else _one(run, rest[0], owner, stream)
    return _one(inner, first, owner, stream)
