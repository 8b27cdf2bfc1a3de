"""Checks of what a graph's file holds: each takes a value of JSON, and returns it or raises Bad."""

from __future__ import annotations

import string
from collections.abc import Callable, Collection, Mapping
from typing import Any

from lowgraph.debug.form import ATTRIBUTES, Attribute

__all__ = ["Bad", "Check", "attributes", "flag", "hexadecimal", "number", "objects", "one_of",
           "optional", "pairs", "record", "text", "texts"]  # fmt: skip

Check = Callable[[Any], Any]

_LONGEST = 1 << 16  # characters of a name: that of a kernel made of templates has thousands
_MOST_DATA = 1 << 16  # bytes of one argument; the driver takes 32764 of all
_MOST_ITEMS = 1 << 20
_WORD = 1 << 64
_NONE: Mapping[str, Check] = {}
_HEX = frozenset(string.hexdigits)


class Bad(ValueError):
    """What is wrong, and where in the file."""


def record(
    given: object, wanted: Mapping[str, Check], where: str, perhaps: Mapping[str, Check] = _NONE
) -> dict[str, Any]:
    """An object with exactly the wanted names, and any of those in `perhaps`, each checked."""
    if not isinstance(given, dict):
        raise Bad(f"{where} is no object")
    known = {**wanted, **{name: perhaps[name] for name in perhaps if name in given}}
    missing, strange = known.keys() - given.keys(), given.keys() - known.keys()
    if missing:
        raise Bad(f"{where} has no {min(missing)!r}")
    if strange:
        raise Bad(f"{where} has a name that is not known, {ascii(min(strange))[:60]}")
    found = {}
    for name, check in known.items():
        try:
            found[name] = check(given[name])
        except Bad as error:
            raise Bad(f"{where}: {name}: {error}") from None
    return found


def objects(wanted: Mapping[str, Check], perhaps: Mapping[str, Check] = _NONE) -> Check:
    """A list of such objects."""

    def check(given: Any) -> list[dict[str, Any]]:
        entries = enumerate(_items(given))
        return [record(one, wanted, f"entry {at}", perhaps) for at, one in entries]

    return check


def text(given: Any) -> str:
    """A string of a bearable length."""
    if not isinstance(given, str) or len(given) > _LONGEST:
        raise Bad(f"it must be a text of at most {_LONGEST} characters")
    return given


def texts(given: Any) -> list[str]:
    """A list of those."""
    return [text(one) for one in _items(given)]


def number(given: Any) -> int:
    """A whole number of 64 bits, not negative."""
    if type(given) is not int or not 0 <= given < _WORD:
        raise Bad("it must be a whole number from 0 to 2**64 - 1")
    return given


def flag(given: Any) -> bool:
    """True or false."""
    if not isinstance(given, bool):
        raise Bad("it must be true or false")
    return given


def hexadecimal(given: Any) -> bytes:
    """Bytes, two digits each."""
    good = isinstance(given, str) and not len(given) % 2 and len(given) <= 2 * _MOST_DATA
    if not good or not _HEX.issuperset(given):
        raise Bad(f"it must be at most {_MOST_DATA} bytes in hexadecimal")
    return bytes.fromhex(given)


def pairs(given: Any) -> list[tuple[int, int]]:
    """A list of pairs of numbers."""
    found = []
    for one in _items(given):
        if not isinstance(one, list) or len(one) != 2:
            raise Bad("it must be a list of [from, to]")
        found.append((number(one[0]), number(one[1])))
    return found


def one_of(words: Collection[str]) -> Check:
    """One of those words."""

    def check(given: Any) -> str:
        if not isinstance(given, str) or given not in words:
            raise Bad(f"it must be one of {', '.join(map(repr, words))}")
        return given

    return check


def optional(check: Check) -> Check:
    """The same, or null."""
    return lambda given: None if given is None else check(given)


class _Attributes:
    """An object whose names depend on the node's kind, which is known later: see `of_kind`."""

    def __call__(self, given: Any) -> dict[str, Any]:
        if not isinstance(given, dict):
            raise Bad("it must be an object")
        return given

    def of_kind(self, kind: str, given: dict[str, Any], where: str) -> dict[str, Attribute]:
        """The attributes of a node of that kind, checked."""
        wanted = ATTRIBUTES.get(kind, {})
        checks = {name: _OF_TYPE[one] for name, one in wanted.items()}
        return record(given, checks, f"{where}.attributes")


def _three(given: Any) -> tuple[int, ...]:
    if not isinstance(given, list) or len(given) != 3:
        raise Bad("it must be three numbers")
    return tuple(number(one) for one in given)


def _items(given: Any) -> list[Any]:
    if not isinstance(given, list) or len(given) > _MOST_ITEMS:
        raise Bad(f"it must be a list of at most {_MOST_ITEMS} entries")
    return given


_OF_TYPE: dict[type, Check] = {str: text, int: number, bool: flag, tuple: _three}
attributes = _Attributes()
