"""CuPy itself, imported on first use: a run that never asks for it never needs it."""

from __future__ import annotations

import importlib
from typing import Any

from lowgraph import driver
from lowgraph.errors import ConfigError

__all__ = ["MAJORS", "load"]

MAJORS = (13, 14)
"""Major versions whose behaviour this package was written for."""


def load(what: str) -> Any:
    """The module cupy. what: that needs it, for the message.

    Raises ConfigError where it is not installed, cannot be loaded, or is another major version.
    """
    install = f"pip install 'lowgraph[cuda{driver.compat.BINDINGS_MAJOR}]'"
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise ConfigError(f"{what} needs CuPy ({error}): {install}") from error
    version = str(cupy.__version__)
    if not version.partition(".")[0].isdigit() or int(version.partition(".")[0]) not in MAJORS:
        wanted = " or ".join(map(str, MAJORS))
        raise ConfigError(f"{what} needs CuPy {wanted}, this is {version}: {install}")
    return cupy
