"""A browser for the tests of a process, and pages of the graphs of `graphs.py`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lowgraph import debug
from tests.page import graphs
from tests.page.browser import REQUIRED, Browser, missing


@pytest.fixture(scope="session")
def one_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    left = missing()
    if left and os.environ.get(REQUIRED) != "required":
        pytest.skip(f"no browser to open the page in; not installed: {left}")
    assert not left, f"{REQUIRED}=required, and not installed: {left}"
    made = Browser(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


@pytest.fixture
def browser(one_browser: Browser) -> Iterator[Browser]:
    """The browser. A test fails if its page complained, or asked for anything but itself."""
    one_browser.resize(1280, 800)
    yield one_browser
    assert one_browser.errors() == []
    assert all(url.startswith(("file:", "about:")) for url in one_browser.requests())


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Writes a page once, of that name in `_made`."""
    folder = tmp_path_factory.mktemp("pages")

    def written(name: str) -> Path:
        path = folder / f"{name}.html"
        if not path.exists():
            path.write_text(_made(name), encoding="ascii")
        return path

    return written


def _made(name: str) -> str:
    if name == "diff":
        old = graphs.large(100)
        return debug.diff_html(old, graphs.changed(old))
    if name == "hostile":
        return debug.html(graphs.hostile())
    if name == "timed":
        return debug.html(graphs.large(100), {"forward/layer 0": 100.0, "backward/layer 1": 50.0})
    if name == "bodies":
        return debug.html(graphs.nested())
    if name == "forked":
        return debug.html(graphs.forked())
    if name == "many":
        return debug.html(graphs.many_arguments(300))
    return debug.html(graphs.large({"small": 100, "large": 5000}[name]))
