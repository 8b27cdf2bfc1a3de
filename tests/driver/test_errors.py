"""The exception tree is what its docstring draws, and each message can stand alone."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from lowgraph import errors


def drawn_tree() -> dict[str, str]:
    """Each exception's parent, as the docstring draws it."""
    parents: dict[str, str] = {}
    above = ["LowgraphError"]
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"([│ ]*)[├└]── (\w+)", line)
        if match:
            depth = len(match[1]) // 4 + 1
            parents[match[2]] = above[depth - 1]
            above[depth:] = [match[2]]
    return parents


def test_tree_is_as_drawn() -> None:
    defined = {
        name: cls
        for name, cls in vars(errors).items()
        if inspect.isclass(cls) and cls.__module__.startswith(f"{errors.__name__}.")
    }
    assert {name: cls.__bases__[0].__name__ for name, cls in defined.items()} == {
        "LowgraphError": "Exception",
        **drawn_tree(),
    }
    assert sorted(defined) == sorted(errors.__all__)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (errors.ConfigError("no such preset"), "no such preset"),
        (errors.BuildError("cannot compile"), "cannot compile"),
        (errors.BuildError("cannot compile", "k.cu(3): error\n"), "cannot compile\nk.cu(3): error"),
        (errors.ArgTypeError("scale", "n", "int", "1.5"), "scale: n wants int, given 1.5"),
        (errors.EmptyCapture("nothing was recorded"), "nothing was recorded"),
        (
            errors.SyncDuringCapture("a wait", where="train.py:7", remedy="move it out"),
            "train.py:7: a wait; move it out",
        ),
    ],
)
def test_messages(error: errors.LowgraphError, text: str) -> None:
    assert str(error) == text
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (type(error), text)
