"""The verdict of a diff is the driver's own answer, on every scenario with an update."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import Any

import pytest

from lowgraph import debug
from lowgraph.debug import Form, Verdict
from lowgraph.driver import Device
from tests.traces import verbs
from tests.traces.catalogue import runs
from tests.traces.not_on_host import reason_for
from tests.traces.runner import run_here
from tests.traces.world import World, module_image

pytestmark = pytest.mark.both

FEWEST_ANSWERS = 250


# What a graph as data does not hold (docs/graphs.md): whose context a node or its memory is of,
# whether a copy's memory is mapped, what a copy's caller said of its sides, what an edge is beside
# its ends, and kernels' priorities, with whether the executable goes by them.
NOT_HELD = re.compile(
    r"contexts: |programmatic edges: |.*priority, in the executable: "
    r"|(?:memcpy|memset) node .*: (?:updated to every (?:kind|form)|of a child graph) "
)


def _scenarios() -> list[str]:
    """Runs with an update, one mode of each; not those that end the process, nor of NOT_HELD."""
    found: dict[str, str] = {}
    for key, (scenario, _) in runs().items():
        steps = {step.removeprefix("@").split()[0] for step in scenario.steps}
        if "update" in steps and not scenario.kills and not NOT_HELD.match(key):
            found.setdefault(scenario.name, key)
    return list(found.values())


class Watch:
    """The verbs of graphs, with a form of each executable beside the driver's own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held: dict[str, Form | None] = {}
        self.answers: list[tuple[Verdict, str, int | str | None, int, Any]] = []
        for name in ("instantiate", "instantiate_flags", "instantiate_with"):
            monkeypatch.setitem(verbs.VERBS, name, self._instantiate(verbs.VERBS[name]))
        monkeypatch.setitem(verbs.VERBS, "update", self._update(verbs.VERBS["update"]))
        for name in ("exec_set", "node_set_params", "node_set_enabled", "exec_set_inner"):
            if name in verbs.VERBS:
                monkeypatch.setitem(verbs.VERBS, name, self._set(verbs.VERBS[name]))

    def _instantiate(self, verb: Any) -> Any:
        def run(world: World, graph: str, name: str, *rest: str) -> Any:
            answer = verb(world, graph, name, *rest)
            self.held[name] = form_of(world, graph) if answer[0] == 0 else None
            return answer

        return run

    def _update(self, verb: Any) -> Any:
        def run(world: World, name: str, graph: str) -> Any:
            old, new = self.held.get(name), form_of(world, graph)
            code, extra = verb(world, name, graph)
            if old is not None and new is not None and code in (0, 910):
                found = debug.diff(old, new)
                inside = found.at is not None and new.nodes[found.at].body != 0
                at = "elsewhere" if inside else found.at  # as the traces name a child's node
                self.answers.append((found.verdict, found.reason, at, code, extra))
                if code == 0:
                    self.held[name] = _updated(old, new)
            return code, extra

        return run

    def _set(self, verb: Any) -> Any:
        """What is set in an executable cannot be read back: nothing is compared from there on."""

        def run(world: World, *words: str) -> Any:
            self.held.clear()
            return verb(world, *words)

        return run


def form_of(world: World, graph: str) -> Form | None:
    return debug.read_handle(int(world.graphs[graph])) if graph in world.graphs else None


def _updated(old: Form, new: Form) -> Form | None:
    """What the executable holds then; None where cluster sizes stayed and cannot be paired."""
    sizes = [[n.attributes.get("cluster") for n in form.nodes] for form in (old, new)]
    return new if sizes[0] == sizes[1] else None


@cache
def _image(device: Device) -> bytes:
    return module_image(device)


def _answers(device: Device, key: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    scenario, mode = runs()[key]
    with monkeypatch.context() as patch:
        watch = Watch(patch)
        run_here(device, _image(device), scenario, mode)
    return watch.answers


def test_every_update_is_judged_as_the_driver_answers(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: Counter[Verdict] = Counter()
    wrong, unknown = [], set()
    for key in _scenarios():
        if device.kind == "host" and reason_for(key) is not None:
            continue
        for verdict, reason, at, code, extra in _answers(device, key, monkeypatch):
            seen[verdict] += 1
            told = f"{key}: {verdict.text} ({reason}, {at}), the driver: {code} {extra}"
            if verdict is Verdict.UNKNOWN:
                unknown.add(reason)
            elif code == 0 and verdict is Verdict.REINSTANTIATE:
                wrong.append(told)
            elif code == 910:
                judged = verdict, reason, at
                if judged != (Verdict.REINSTANTIATE, extra["reason"], extra["node"]):
                    wrong.append(told)
    assert wrong == [], "\n" + "\n".join(wrong)
    held_back = {"a node of type conditional", "a node of type batch_mem_op"}
    assert unknown == held_back, "what a form does not hold"
    told_apart = sum(seen.values()) - seen[Verdict.UNKNOWN]
    assert told_apart >= FEWEST_ANSWERS and min(seen[each] for each in Verdict) > 0, seen
