"""The version, in a module that imports nothing, so that a build can read it."""

from __future__ import annotations

VERSION = "0.1.0"
