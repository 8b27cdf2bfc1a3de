"""The list of public names in docs/public.md, made from the modules themselves.

    python tools/public_names.py            print the list
    python tools/public_names.py --write    put it into the page

A test compares the page with the modules, so that a name that comes or goes is seen in a review.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

from lowgraph.train.files import replace_file

PAGE = Path(__file__).resolve().parents[1] / "docs" / "public.md"
BEGIN, END = "<!-- public-names -->\n", "<!-- /public-names -->"
MODULES = (
    "lowgraph",
    "lowgraph.capture",
    "lowgraph.debug",
    "lowgraph.driver",
    "lowgraph.driver.event",
    "lowgraph.driver.graph",
    "lowgraph.driver.memory",
    "lowgraph.driver.stream",
    "lowgraph.errors",
    "lowgraph.interop",
    "lowgraph.kernels",
    "lowgraph.memory",
)


def names_of(module: ModuleType) -> list[str]:
    """`__all__`, or what the module itself defines; modules and dunder names are left out."""
    given = getattr(module, "__all__", None)
    if given is None:
        given = [name for name, value in vars(module).items() if _defined_in(module, value)]
    kept = (name for name in given if not name.startswith("_"))
    return sorted(name for name in kept if not inspect.ismodule(getattr(module, name)))


def _defined_in(module: ModuleType, value: object) -> bool:
    defines = inspect.isfunction(value) or inspect.isclass(value)
    return defines and getattr(value, "__module__", "") == module.__name__


def table() -> str:
    """The list as the page has it: a row a module."""
    rows = ["| module | names |", "|---|---|"]
    for name in MODULES:
        listed = ", ".join(f"`{each}`" for each in names_of(import_module(name)))
        rows.append(f"| `{name}` | {listed} |")
    return "\n".join(rows) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the list, or write it into the page; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--write", action="store_true", help="put it into docs/public.md")
    given = parser.parse_args(arguments)
    if not given.write:
        print(table(), end="")
        return 0
    text = PAGE.read_text(encoding="utf-8")
    section = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    replace_file(PAGE, section.sub(lambda _: BEGIN + table() + END, text).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
