"""cuGraphExecUpdate: what may change between two captures, and the reason where it may not."""

from __future__ import annotations

from tests.traces.scenario import Scenario

_CHAIN = "launch s; launch s; launch s"
_FORK = "launch s; record e1 s; wait t e1; launch t; launch s; record e2 t; wait s e2; launch s"
_COPY = "copy_dtod_async s"

_CHANGES = (
    ("nothing", _CHAIN, _CHAIN),
    ("kernel arguments", _CHAIN, "launch s; launch s swapped=1; launch s"),
    ("grid and block", _CHAIN, "launch s; launch s grid=5 block=64; launch s"),
    ("dynamic shared memory", _CHAIN, "launch s; launch s shared=1024; launch s"),
    ("the function", _CHAIN, "launch s; launch s kernel=noop2; launch s"),
    ("the function, to another signature", _CHAIN, "launch s; launch s kernel=cluster_size; "
     "launch s"),
    ("one node more", _CHAIN, f"{_CHAIN}; launch s"),
    ("one node fewer", _CHAIN, "launch s; launch s"),
    ("to an empty graph", _CHAIN, ""),
    ("from an empty graph", "", _CHAIN),
    ("empty to empty", "", ""),
    ("same count, other edges", f"{_CHAIN}; launch s", _FORK),
    ("same count, from a fork to a chain", _FORK, f"{_CHAIN}; launch s"),
    ("kernel to memset", _CHAIN, "launch s; memset_async s; launch s"),
    ("kernel to allocation", _CHAIN, "launch s; alloc_async p s; launch s"),
    ("kernel to host function", _CHAIN, "launch s; host_function s; launch s"),
    ("kernel to external event record", _CHAIN, "launch s; record_external e3 s; launch s"),
    ("memset to memcpy", "memset_async s", _COPY),
    ("memcpy size", _COPY, "copy_dtod_async s 128"),
    ("memcpy pointers", _COPY, "copy_dtod_async s 64 10"),
    ("memcpy device to device, then host to device", _COPY, "copy_htod_async s"),
    ("memcpy host to device, then device to host", "copy_htod_async s", "copy_dtoh_async s"),
    ("memcpy pinned, then pageable", "copy_htod_async s", "copy_htod_async s pageable"),
    ("memset value", "memset_async s", "memset_async s 1"),
    ("memset size", "memset_async s", "memset_async s 0 128"),
    ("memset width", "memset_async s", "memset_async s 0 16 32"),
    ("normal to cooperative", "launch s", "launch s cooperative=1"),
    ("cooperative to normal", "launch s cooperative=1", "launch s"),
    ("host function to itself", "host_function s", "host_function s"),
    ("external record, another event", "record_external e3 s", "record_external e1 s"),
    ("an allocation node on both sides", "alloc_async p s", "alloc_async q s"),
    ("two kernels in the other order", "launch s; launch s kernel=noop2",
     "launch s kernel=noop2; launch s"),
    ("a fork whose branches changed places",
     "launch s; record e1 s; wait t e1; launch t kernel=noop2; launch s; record e2 t; wait s e2; "
     "launch s",
     "launch s; record e1 s; wait t e1; launch s; launch t kernel=noop2; record e2 t; wait s e2; "
     "launch s"),
)  # fmt: skip

_CLUSTERS = ((None, 2), (2, 4), (4, 2), (2, None))


def _change(name: str, first: str, second: str) -> Scenario:
    """Instantiate the first, update by the second, launch what came of it, ask once more."""
    return Scenario(
        f"update: {name}",
        f"begin s; {first}; end s g; instantiate g x; begin s; {second}; end s h; update x h; "
        "graph_launch x s; sync s; update x h; update x g; graph_launch x s; sync s",
    )


def _cluster(old: int | None, new: int | None, seen: str = "") -> Scenario:
    """The codes of a change of cluster size; with `seen`, also what the kernel itself reads."""
    first, second = (f"launch s kernel=cluster_size grid=8{f' cluster={n}' if n else ''}"
                     for n in (old, new))  # fmt: skip
    name = "cluster size as the kernel sees it" if seen else "update: cluster size"
    return Scenario(
        f"{name}, {old or 'none'} to {new or 'none'}",
        f"begin s; {first}; end s g; instantiate g x; graph_launch x s; sync s; {seen}; "
        f"begin s; {second}; end s h; update x h; graph_launch x s; sync s; {seen}; "
        f"instantiate h y; graph_launch y s; sync s; {seen}; cluster_attribute g; "
        "cluster_attribute h",
    )


SCENARIOS = (
    *(_change(*row) for row in _CHANGES),
    *(_cluster(*pair) for pair in _CLUSTERS),
    *(_cluster(*pair, seen="cluster_seen") for pair in _CLUSTERS),
    Scenario("update: too much shared memory ends the second capture",
             "begin s; launch s; end s g; instantiate g x; begin s; launch s shared=300000; "
             "end s h; graph_launch x s; sync s"),
    Scenario("update: an executable in flight", "begin s; launch s kernel=hold; end s g; "
             "instantiate g x; begin s; launch s; end s h; graph_launch x s; query s; update x h; "
             "release; sync s; graph_launch x s; sync s"),
    Scenario("update: the old graph destroyed first", f"begin s; {_CHAIN}; end s g; "
             f"instantiate g x; graph_destroy g; begin s; {_CHAIN}; end s h; update x h; "
             "graph_launch x s; sync s"),
    Scenario("update: the new graph destroyed after", f"begin s; {_CHAIN}; end s g; "
             f"instantiate g x; begin s; {_CHAIN}; end s h; update x h; graph_destroy h; "
             "graph_launch x s; sync s"),
    Scenario("update: with its own graph", f"begin s; {_CHAIN}; end s g; instantiate g x; "
             "update x g; graph_launch x s; sync s"),
)  # fmt: skip
