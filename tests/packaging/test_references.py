"""What the pages name is there: links, files, options of ours and commands with their options."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from lowgraph import cli
from tests.packaging.tree import CODE_SUFFIXES, PYTHON_FOLDERS, ROOT, files

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *files("docs", suffixes={".md"})]
LINK = re.compile(r"\]\(([^)\s]+)\)")
QUOTED = re.compile(r"`([^`\n]+)`")
FENCED = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
# Names in capitals stand for the reader's (SCRIPT.py, F.json.gz).
SUFFIX = r"\.(?:py|cu|cuh|cpp|h|c|md|json|sh|js|gz)\b(?![\w(])"
FILE = re.compile(r"(?<![\w./*{<-])[\w./-]*[a-z][\w-]*" + SUFFIX)
OURS = re.compile(
    r"(?<![\w./-])(?:\.ci|benchmarks|docs|examples|kernels_cu|lowgraph|tests|tools)/[\w./-]+"
)
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
COMMAND = re.compile(r"python -m lowgraph ([a-z][\w-]*)([^#\n|;&)]*)")
# Of the toolkit, of transformers and of programs that a page shows.
FOREIGN_FILES = {"cuda.h", "vector_types.h", "config.json", "library.c", "transformer.h", "x.cu"}
FOREIGN_OPTIONS = {"--headless", "--window-size", "--screenshot"}  # of a browser
FOREIGN_OPTIONS |= {"--includes", "--embed", "--ldflags"}  # of python3-config


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _anchors(page: Path) -> set[str]:
    """The names that a page's headings can be linked by."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(_text(page)))
    return {heading.strip().replace(" ", "-") for heading in plain}


def _fenced(page: Path) -> list[str]:
    """Blocks of code."""
    return FENCED.findall(_text(page))


def _quoted(page: Path) -> list[str]:
    """Words between backticks."""
    return QUOTED.findall(FENCED.sub("", _text(page)))


@cache
def _paths() -> tuple[str, ...]:
    folders = (*PYTHON_FOLDERS, "docs", "kernels_cu", ".ci")
    suffixes = {*CODE_SUFFIXES, ".c", ".md", ".json", ".js", ".gz"}
    return tuple(
        f"/{path.relative_to(ROOT).as_posix()}" for path in files(*folders, suffixes=suffixes)
    )


@cache
def _options() -> set[str]:
    """Every option that a command, a tool, a benchmark, an example or the tests take."""
    quoted = re.compile(r"[\"'](--[a-z][\w-]*)")
    sources = files(*PYTHON_FOLDERS, ".ci", suffixes={".py", ".sh"})
    return {found for path in sources for found in quoted.findall(_text(path))}


@cache
def _commands() -> dict[str, set[str]]:
    """The options of each command of `python -m lowgraph`."""
    known = {}
    for name, module in cli.COMMANDS.items():
        parser = argparse.ArgumentParser()
        module.add_arguments(parser)
        known[name] = {word for word in _words_of(parser) if word.startswith("--")}
    return known


def _words_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _words_of(below)


def lost_links(page: Path) -> list[str]:
    lost = []
    for target in LINK.findall(_text(page)):
        name, _, anchor = target.partition("#")
        there = page.parent / name if name else page
        if not there.exists() or (anchor and anchor not in _anchors(there)):
            lost.append(target)
    return lost


def lost_files(page: Path) -> list[str]:
    """Files between backticks, by their last parts; in blocks only paths from the checkout's root.

    A block shows programs of the reader's too.
    """
    whole = {name.rstrip("./") for code in _fenced(page) for name in OURS.findall(code)}
    lost = [name for name in whole if name == name.lower() and not (ROOT / name).exists()]
    found = {name for code in _quoted(page) for name in FILE.findall(code) if name == name.lower()}
    return lost + [
        name for name in found - FOREIGN_FILES if not any(path.endswith(name) for path in _paths())
    ]


def lost_options(page: Path) -> list[str]:
    found = {name for code in _fenced(page) + _quoted(page) for name in OPTION.findall(code)}
    return sorted(found - _options() - FOREIGN_OPTIONS)


def lost_commands(page: Path) -> list[str]:
    lost = []
    for name, behind in (
        two for code in _fenced(page) + _quoted(page) for two in COMMAND.findall(code)
    ):
        if name not in _commands():
            lost.append(name)
        else:
            unknown = set(OPTION.findall(behind)) - _commands()[name]
            lost += [f"{name} {option}" for option in sorted(unknown)]
    return lost


@pytest.mark.parametrize("lost", [lost_links, lost_files, lost_options, lost_commands])
def test_what_the_pages_name_is_there(lost: Callable[[Path], list[str]]) -> None:
    found = {page.name: names for page in PAGES if (names := lost(page))}
    assert not found


def test_readme_leads_to_every_page() -> None:
    linked = set(LINK.findall(_text(ROOT / "README.md")))
    pages = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    assert pages <= {target.partition("#")[0] for target in linked}


def test_the_decisions_are_all_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    linked = set(LINK.findall(_text(folder / "README.md")))
    assert {path.name for path in folder.glob("0*.md")} <= linked
