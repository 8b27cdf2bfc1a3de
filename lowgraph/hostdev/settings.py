"""The environment variables that change how the host device runs kernels."""

from __future__ import annotations

import os

from lowgraph.errors import ConfigError

__all__ = ["is_debug", "sanitizer_flags", "shuffle"]

_SHUFFLE = "LOWGRAPH_HOST_SHUFFLE"
_DEBUG = "LOWGRAPH_HOST_DEBUG"
_SANITIZE = "LOWGRAPH_HOST_SANITIZE"
_LARGEST_SEED = 2**64 - 1
_SANITIZERS = {"thread": "thread", "address": "address,undefined"}


def shuffle() -> str | None:
    """Return $LOWGRAPH_HOST_SHUFFLE, a seed or "random"; None if it is unset or empty.

    The library reads it by itself, so that a program without Python can use it too; here it is only
    checked. Raises ConfigError for anything else.
    """
    told = os.environ.get(_SHUFFLE, "")
    is_seed = told.isascii() and told.isdecimal() and int(told) <= _LARGEST_SEED
    if told and told != "random" and not is_seed:
        raise ConfigError(
            f"${_SHUFFLE} is {told!r}: give a seed, an integer from 0 to {_LARGEST_SEED}, or the "
            "word random"
        )
    return told or None


def is_debug() -> bool:
    """Return whether $LOWGRAPH_HOST_DEBUG asks for kernels that a debugger can walk through.

    "1" does; "0", empty or unset do not. Raises ConfigError for anything else.
    """
    told = os.environ.get(_DEBUG, "")
    if told not in ("", "0", "1"):
        raise ConfigError(f"${_DEBUG} is {told!r}: give 1 for kernels without optimisation, or 0")
    return told == "1"


def sanitizer_flags() -> tuple[str, ...]:
    """Return the compiler's flags for the sanitizer that $LOWGRAPH_HOST_SANITIZE names, if any.

    "thread", or "address" (with undefined behaviour). They are for the library alone: kernels stay
    as they are. The sanitizer's runtime has to be in the process from its start: tools/sanitize.py
    sees to it. Raises ConfigError for another name.
    """
    told = os.environ.get(_SANITIZE, "")
    if not told:
        return ()
    if told not in _SANITIZERS:
        raise ConfigError(f"${_SANITIZE} is {told!r}: give one of {', '.join(_SANITIZERS)}")
    # -O1 and frame pointers: what the sanitizers' own documentation asks for.
    return ("-O1", "-g", "-fno-omit-frame-pointer", f"-fsanitize={_SANITIZERS[told]}")
