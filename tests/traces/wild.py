"""Random sequences of steps: which steps a seed stands for, drawn in full before anything runs.

Change no draw and no order here: the recorded answers belong to these steps. A sequence either
captures (forks, joins, memory nodes, a second thread) or builds a graph node by node; both then
instantiate, edit nodes, update and launch. Names are few, so that calls meet. From FIRST_WIDE_SEED
on a sequence has one theme of `wild_themes.py` or two beside that.
"""

from __future__ import annotations

import random

from tests.traces.scenario import EVERY_MODE, Scenario
from tests.traces.wild_themes import THEMES, Vocabulary

__all__ = ["FIRST_SEED", "FIRST_WIDE_SEED", "scenario_of"]

FIRST_SEED = 500_000
FIRST_WIDE_SEED = 700_000

_STREAMS = ("s", "s", "s", "t", "t", "u", "b")
_ANY_STREAM = (*_STREAMS, "legacy", "per_thread")
_EVENTS = ("e1", "e2", "t1")
_GRAPHS = ("g", "h", "k")
_EXECS = ("x", "y")
_NODES = ("n1", "n2", "n3", "n4", "n5")
_MEMORY = ("m1", "m2")
_KERNELS = ("noop", "noop2")

# {stream}, {event}, {graph}, ... are drawn anew at each place where they stand.
_CAPTURE = {
    "launch {stream}": 10,
    "launch {stream} kernel=noop2 grid=3": 3,
    "launch {any} block=64": 2,
    "memset_async {stream} 1 {count}": 3,
    "copy_dtod_async {stream}": 2,
    "copy_htod_async {stream}": 2,
    "copy_dtoh_async {stream}": 1,
    "host_function {stream}": 3,
    "record {event} {stream}": 8,
    "wait {stream} {event}": 9,
    "record_external {event} {stream}": 1,
    "wait_external {stream} {event}": 1,
    "alloc_async {new_memory} {stream}": 4,
    "free_async {memory} {stream}": 4,
    "capture_info {stream}": 2,
    "is_capturing {any}": 1,
    "begin {stream}": 3,
    "end {stream} {new_graph}": 2,
}
_BUILD = {
    "add_kernel {new_node} {graph}": 5,
    "add_kernel {new_node} {graph} {node}": 6,
    "add_kernel {new_node} {graph} {node} {node}": 2,
    "add_fill {new_node} {graph} {node}": 4,
    "add_copy {new_node} {graph} {node}": 3,
    "add_host {new_node} {graph} {node}": 3,
    "add_empty {new_node} {graph} {node}": 2,
    "add_child {new_node} {graph} {graph} {node}": 4,
    "add_record {new_node} {graph} {event} {node}": 1,
    "add_wait {new_node} {graph} {event} {node}": 1,
    "add_alloc {new_node} {graph} {new_memory} {node}": 3,
    "add_free {new_node} {graph} {memory} {node}": 3,
    "edge {graph} {node} {node}": 3,
    "edge_remove {graph} {node} {node}": 2,
    "node_destroy {node}": 2,
    "graph_create {new_graph}": 2,
    "shape {graph}": 2,
}
_USE = {
    "instantiate {graph} {new_exec}": 8,
    "instantiate {graph} {new_exec} auto_free": 2,
    "graph_launch {exec} {stream}": 8,
    "graph_launch {exec} {any}": 2,
    "upload {exec} {stream}": 1,
    "update {exec} {graph}": 8,
    "graph_clone {graph} {new_graph}": 2,
    "node_set_enabled {exec} {graph} {place} {bit}": 3,
    "node_enabled {exec} {graph} {place}": 2,
    "exec_kernel {exec} {graph} {place} {kernel} {count}": 4,
    "exec_fill {exec} {graph} {place} {count}": 2,
    "exec_copy {exec} {graph} {place} {kind} {count}": 2,
    "exec_host {exec} {graph} {place}": 1,
    "exec_child {exec} {graph} {place} {graph}": 2,
    "exec_record {exec} {graph} {place} {event}": 1,
    "exec_wait {exec} {graph} {place} {event}": 1,
    "node_kernel {graph} {place} {kernel} {count}": 3,
    "node_fill {graph} {place} {count}": 1,
    "sync {stream}": 3,
    "event_sync {event}": 1,
    "graph_destroy {graph}": 1,
    "exec_destroy {exec}": 1,
    "shape {graph}": 1,
}
_OUTSIDE = {
    "alloc {new_memory}": 1,
    "free {memory}": 1,
    "sync {any}": 2,
    "query {any}": 1,
    "ctx_sync": 1,
    "event_query {event}": 2,
    "elapsed t1 t2": 1,
    "mem_info": 1,
    "copy_htod": 1,
    "memset": 1,
    "exchange_mode RELAXED": 1,
    "exchange_mode GLOBAL": 1,
    "launch {any}": 2,
    "begin {any}": 1,
}
_FIXED = {
    "stream": _STREAMS,
    "any": _ANY_STREAM,
    "event": _EVENTS,
    "kernel": _KERNELS,
    "place": ("0", "0", "1", "1", "2", "3"),
    "count": ("1", "2", "64", "96"),
    "kind": ("dtod", "dtod", "htod"),
    "bit": ("0", "1"),
}
_NAMES = {"graph": _GRAPHS, "exec": _EXECS, "node": _NODES, "memory": _MEMORY}
_PLAIN = Vocabulary(_CAPTURE, _BUILD, _USE, _OUTSIDE, _FIXED, _NAMES)
_SHARE_OF_OTHER_THREAD = 0.1
_SHARE_OF_STRANGERS = 0.06  # a name that nothing has, or a node of another graph


def scenario_of(seed: int) -> Scenario:
    """Return the sequence of a seed, the same on every machine (Mersenne twister): 5 to 30 calls
    and what closes it, in the mode that the seed draws."""
    draw = random.Random(seed)
    mode = draw.choice(EVERY_MODE)
    if seed >= FIRST_WIDE_SEED:
        return Scenario(f"wild {seed}", "; ".join(_wide(draw)), (mode,))
    steps = _steps(draw, _PLAIN)
    closing = ["end s g", "end t h", "end u k", "end b k", "shape g", "shape h"]
    return Scenario(f"wild {seed}", "; ".join([*steps, *closing]), (mode,))


def _steps(draw: random.Random, words: Vocabulary) -> list[str]:
    kind = _Captured if draw.random() < 0.55 else _Built
    return kind(draw, words).steps()


def _wide(draw: random.Random) -> list[str]:
    """Steps of a sequence with themes: what they need, the drawn ones, and what is asked once all
    captures have ended and all work is done."""
    themes = draw.sample(THEMES, draw.choice((1, 1, 2)))
    words = _PLAIN
    for theme in themes:
        words = words.with_theme(theme)
    steps = _steps(draw, words)
    ends = ["end s g", "end t h", "end u k", "end b k", "end per_thread k", "@end per_thread k"]
    ends += [*(theme.ends for theme in themes), "ctx_sync"]
    lasts = [*(theme.last for theme in themes), "shape g", "shape h"]
    return [*(theme.first for theme in themes), *steps, *ends, *lasts]


class _Sequence:
    """Draws steps that speak, mostly, of what earlier ones made."""

    def __init__(self, draw: random.Random, words: Vocabulary) -> None:
        self._draw = draw
        self._words = words
        self._known: dict[str, list[str]] = {name: [] for name in words.names}
        self._graph_of: dict[str, str] = {}
        self._source_of: dict[str, str] = {}  # an executable's graph

    def step(self, table: dict[str, int]) -> str:
        """One step of a table, by weight; drawn again when it speaks of what is not there."""
        while True:
            text = self._draw.choices(list(table), list(table.values()))[0]
            words = text.split()
            needed = {word.strip("{}") for word in words[1:]} & self._words.names.keys()
            if all(self._known[kind] for kind in needed) or self._strange():
                return self._filled(words)

    def _filled(self, words: list[str]) -> str:
        graph, filled = "", []
        for word in words:
            hole = word.strip("{}")
            name = word if hole == word else self._name(hole, graph)
            if hole == "graph" and len(filled) == 2 and not self._strange():
                name = self._source_of.get(filled[1], name)  # the graph of the executable
            graph = name if hole in ("graph", "new_graph") and not graph else graph
            filled.append(name)
            if hole == "new_node":
                self._graph_of[name] = ""
        self._note(words, filled, graph)
        step = " ".join(filled)
        return f"@{step}" if self._draw.random() < _SHARE_OF_OTHER_THREAD else step

    def _name(self, hole: str, graph: str) -> str:
        if hole in self._words.fixed:
            return self._draw.choice(self._words.fixed[hole])
        kind = hole.removeprefix("new_")
        names = list(self._words.names[kind])
        if hole in self._words.names and self._known[kind] and not self._strange():
            names = self._known[kind]
            if kind == "node":
                own = [name for name in names if self._graph_of[name] == graph]
                names = own if own else names
        return self._draw.choice(names)

    def _note(self, words: list[str], filled: list[str], graph: str) -> None:
        for word, name in zip(words, filled, strict=True):
            hole = word.strip("{}")
            kind = hole.removeprefix("new_")
            if hole.startswith("new_") and name not in self._known[kind]:
                self._known[kind].append(name)
            if hole == "new_node":
                self._graph_of[name] = graph
            if hole == "new_exec":
                self._source_of[name] = graph
        gone = {"graph_destroy": "graph", "exec_destroy": "exec", "node_destroy": "node"}
        kind = gone.get(words[0], "")
        if kind and filled[1] in self._known[kind]:
            self._known[kind].remove(filled[1])

    def _strange(self) -> bool:
        return self._draw.random() < _SHARE_OF_STRANGERS


class _Captured(_Sequence):
    """Captures, one begun at once and most kept alive; then use of what they gave."""

    def steps(self) -> list[str]:
        draw = self._draw
        start = draw.choice(_STREAMS)
        count = draw.randint(4, 29)
        until_end = draw.randint(2, max(2, count * 2 // 3))
        steps = [f"begin {start}"]
        for place in range(count):
            if place == until_end:
                steps.append(f"end {start} g")
                self._known["graph"].append("g")
            capture, use = self._words.capture, self._words.use
            table = capture if place < until_end else {**use, **self._few(capture)}
            steps.append(self.step(self._words.outside if draw.random() < 0.06 else table))
        return steps

    def _few(self, table: dict[str, int]) -> dict[str, int]:
        return {name: table[name] for name in self._draw.sample(sorted(table), 4)}


class _Built(_Sequence):
    """Graphs made node by node, in between and afterwards used."""

    def steps(self) -> list[str]:
        draw = self._draw
        self._known |= {"graph": ["g", "h"], "node": ["n1", "n2"]}
        self._graph_of = {"n1": "g", "n2": "h"}
        steps = ["graph_create g", "graph_create h", "add_kernel n1 g", "add_kernel n2 h"]
        for _ in range(draw.randint(2, 26)):
            table = self._words.build if draw.random() < 0.55 else self._words.use
            steps.append(self.step(self._words.outside if draw.random() < 0.04 else table))
        return steps
