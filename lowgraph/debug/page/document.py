"""The page put together: one file that loads nothing, and runs nothing but its own script.

The graph's data stand in the page as JSON in which no `<` is left; the script writes them to the
page as text only. The page's own policy forbids every request, and every other script and style.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib import resources
from typing import Any

from lowgraph.errors import ConfigError

__all__ = ["MAX_BYTES", "assemble"]

_STYLES = ("page.css", "graph.css", "views.css")
_SCRIPTS = ("dom.js", "model.js", "search.js", "inspector.js", "edges.js", "graph_view.js",
            "overview.js", "memory_view.js", "diff_view.js", "sidebar.js", "main.js")  # fmt: skip


MAX_BYTES = 64 << 20
"""Size of a page that is written; a browser opens a larger one slowly or not at all."""


def assemble(title: str, data: dict[str, Any]) -> str:
    """The page's whole text, ASCII only. data: see `graph_data` and `diff_data`.

    Raises ConfigError for a page of more than MAX_BYTES.
    """
    embedded = _embedded(data)
    if len(embedded) > MAX_BYTES:
        raise ConfigError(
            f"the page would have {len(embedded)} bytes, and may have {MAX_BYTES}: names and "
            "arguments of this graph are too long; write it with --json or --dot"
        )
    style = "\n".join(map(_read, _STYLES))
    script = "\n".join(map(_read, _SCRIPTS))
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    parts = {
        "POLICY": policy,
        "TITLE": html.escape(title),
        "STYLE": style,
        "DATA": embedded,
        "SCRIPT": script,
    }
    # In one pass: what was put in is not looked at again.
    page = re.sub(r"\{\{([A-Z]+)\}\}", lambda found: parts[found.group(1)], _read("page.html"))
    return page.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _read(name: str) -> str:
    text = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    assert text.isascii() or name == "page.html", f"{name}: its hash is of ASCII"
    return text


def _hash(text: str) -> str:
    """The text as a policy names it: what stands between the tags, byte for byte."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embedded(data: dict[str, Any]) -> str:
    """JSON that ends no script element and opens no comment, whatever the names in it are."""
    told = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return told.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
