"""Which driver calls a step makes, and where a capture stands to it.

A verb's text begins with the calls whose code it returns. Those that take the call from a table
are looked up there.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.traces import verbs_params
from tests.traces.scenario import Scenario
from tests.traces.verbs import VERBS
from tests.traces.verbs_ask import ON_STREAM

_NAME = re.compile(r"\bcu[A-Z]\w+")
_OURS = ("tests.traces", "lowgraph.driver")
_TABLES: dict[str, Callable[[list[str]], str]] = {
    "ask": lambda words: words[0].rstrip(","),
    "null": lambda words: words[0],
    "node_get": lambda words: verbs_params.READ[words[0]][0].__name__,
    "node_set": lambda words: verbs_params.NODE_CALLS[words[0]].__name__,
    "exec_set": lambda words: verbs_params.EXEC_CALLS[words[0]].__name__,
}


@dataclass(frozen=True)
class Made:
    """One call in a window: the stream that began it, the thread, the stream it is made on."""

    name: str
    window: str
    by_another: bool
    stream: str | None


def without_version(name: str) -> str:
    """The versions of a call are one."""
    return re.sub(r"_v\d$", "", name)


def named_by(verb: str) -> set[str]:
    """The calls that the verb's text begins with; none where a table has them."""
    if verb in _TABLES:
        return set()
    first = (inspect.getdoc(VERBS[verb]) or "").partition(";")[0]
    return {without_version(name) for name in _NAME.findall(first)}


def made_by(verb: str) -> set[str]:
    """The calls in the code of the verb, and of what it uses of the verbs and the driver layer.

    Of a call whose name is put together (`f"cuStreamWriteValue{bits}"`) the part that stands there.
    """
    found: set[str] = set()
    waiting: list[Any] = [VERBS[verb]]
    seen: list[Any] = []
    while waiting:
        one = waiting.pop()
        if any(one is other for other in seen):
            continue
        seen.append(one)
        if _is_call(one):
            found.add(without_version(one.__name__))
        elif isinstance(one, dict | list | tuple):
            waiting += one.values() if isinstance(one, dict) else one
        elif inspect.isfunction(one) and one.__module__.startswith(_OURS):
            found |= _literals(one)
            waiting += _used(one)
    return found


def _is_call(one: Any) -> bool:
    return callable(one) and bool(_NAME.fullmatch(getattr(one, "__name__", "")))


def _literals(function: Any) -> set[str]:
    """Names of calls among the strings of its code, its text left out."""
    held = [one for one in function.__code__.co_consts if one != function.__doc__]
    texts = [one.decode() if isinstance(one, bytes) else one for one in held]
    return {without_version(one) for one in texts if isinstance(one, str) and _NAME.fullmatch(one)}


def _used(function: Any) -> Iterator[Any]:
    """What its code names, of its module or of a module that it names."""
    known = function.__globals__
    names = set(function.__code__.co_names)
    modules = [known[name] for name in names if inspect.ismodule(known.get(name))]
    for name in names:
        yield from (space[name] for space in [known, *map(vars, modules)] if name in space)


def calls_of(step: str) -> set[str]:
    """The driver calls whose code the step returns."""
    verb, *words = step.removeprefix("@").split()
    return {without_version(_TABLES[verb](words))} if verb in _TABLES else named_by(verb)


def _stream_of(verb: str, words: list[str]) -> str | None:
    """The stream that the step is made on; `ask` names one whether its call takes it or not."""
    if verb == "ask":
        return words[-1] if " ".join(words[:-1]) in ON_STREAM else None
    given = inspect.signature(VERBS[verb]).bind(None, *words).arguments.get("stream")
    return given if isinstance(given, str) else None


def made_in_windows(scenario: Scenario) -> Iterator[Made]:
    """Every call of the scenario between a stream's begin and its end."""
    window: str | None = None
    for step in scenario.steps:
        verb, *words = step.removeprefix("@").split()
        if window is not None:
            for name in calls_of(step):
                yield Made(name, window, step.startswith("@"), _stream_of(verb, words))
        if verb in ("begin", "begin_to"):
            window = window or words[0]
        elif verb in ("end", "end_to") and words[0] == window:
            window = None
