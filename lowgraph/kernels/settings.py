"""BuildSettings: what a user's source is compiled with beside lowgraph's own flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lowgraph.errors import ConfigError

__all__ = ["BuildSettings", "Options"]

Options = Mapping[str, Sequence[str]]
"""Flags by the kind of device ("cuda": NVRTC's, "host": the C++ compiler's)."""

_KINDS = ("cuda", "host")
# What decides the image from outside the command line must be known to the cache.
_KNOWN_OTHERWISE = {
    "-I": "include_dirs",
    "--include-path": "include_dirs",
    "-isystem": "include_dirs",
    "-iquote": "include_dirs",
    "-D": "defines",
    "--define-macro": "defines",
    "-include": "an #include in the source",
    "--pre-include": "an #include in the source",
}


@dataclass(frozen=True)
class BuildSettings:
    """Macros, folders for includes, and flags, in an order of their own: equal ones are one module.

    Make it by `of`.
    """

    macros: tuple[tuple[str, str], ...] = ()
    folders: tuple[Path, ...] = ()
    flags: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        kind: str,
        defines: Mapping[str, str | int] | None,
        include_dirs: Sequence[str | Path],
        options: Options | None,
    ) -> BuildSettings:
        """Settings for a device of that kind.

        Raises ConfigError: a folder that is not there, flags of an unknown kind of device, and
        flags that name files or macros.
        """
        macros = tuple(sorted((key, str(value)) for key, value in (defines or {}).items()))
        if isinstance(include_dirs, (str, Path)):
            raise ConfigError(f"include_dirs={include_dirs!r}: give a list of folders")
        return cls(macros, tuple(map(_folder, include_dirs)), _flags(kind, options or {}))

    @property
    def defines(self) -> dict[str, str]:
        """The macros."""
        return dict(self.macros)


def _folder(given: str | Path) -> Path:
    folder = Path(given).absolute()
    if not folder.is_dir():
        raise ConfigError(f"include_dirs: {folder} is no folder")
    return folder.resolve()


def _flags(kind: str, options: Options) -> tuple[str, ...]:
    unknown = sorted(set(options) - set(_KINDS))
    if unknown:
        raise ConfigError(
            f"options: {unknown[0]!r} is no kind of device; give flags as "
            '{"cuda": [...], "host": [...]}, those of NVRTC and of the C++ compiler'
        )
    for device, flags in options.items():
        if isinstance(flags, str):
            raise ConfigError(f"options[{device!r}] is {flags!r}: give a list of flags")
        for flag in flags:
            instead = next((v for k, v in _KNOWN_OTHERWISE.items() if flag.startswith(k)), None)
            if instead is not None:
                raise ConfigError(f"options[{device!r}]: {flag!r} is not seen by the cache of "
                                  f"images; use {instead}")  # fmt: skip
    return tuple(options.get(kind, ()))
