"""A page to look at graphs in a browser: `html` of one, `diff_html` of two compared."""

from __future__ import annotations

from collections.abc import Mapping

from lowgraph.debug.comparison import Diff, diff
from lowgraph.debug.form import Form
from lowgraph.debug.page.data import graph_data
from lowgraph.debug.page.diff_data import diff_data
from lowgraph.debug.page.document import assemble
from lowgraph.debug.text import printable

__all__ = ["diff_html", "html"]

_LONGEST_TITLE = 100


def html(form: Form, own_us: Mapping[str, float] | None = None) -> str:
    """One page of HTML that needs nothing else; its text is ASCII.

    own_us: microseconds of each stage by its full name, without the stages inside of it, as the
    atlas measures them; "" is outside of any. Raises ConfigError for a graph that is too large for
    a page, and for times of other stages.
    """
    data = {"graphs": [graph_data(form, own_us)], "diff": None}
    return assemble(_title(form), data)


def diff_html(old: Form, new: Form, found: Diff | None = None) -> str:
    """The same of two graphs, side by side, with what differs; found: their `diff`, if at hand."""
    found = diff(old, new) if found is None else found
    graphs = [graph_data(one, narrow=True) for one in (old, new)]
    data = {"graphs": graphs, "diff": diff_data(old, new, found)}
    return assemble(f"{_title(old)} / {_title(new)}", data)


def _title(form: Form) -> str:
    return printable(form.label)[:_LONGEST_TITLE]
