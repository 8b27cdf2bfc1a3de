"""KernelFolder: the kernels of every .cu file of a folder, by name alone."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lowgraph.errors import KernelSourceError
from lowgraph.kernels.launch import Kernel
from lowgraph.kernels.settings import Options
from lowgraph.kernels.signature import kernel_names

if TYPE_CHECKING:
    from lowgraph.kernels.library import Library

__all__ = ["KernelFolder", "near"]


class KernelFolder:
    """See the module; made by `Library.folder`. Folders inside of it are not searched.

    path: of the folder. files: of each kernel's name the files that declare it.
    """

    def __init__(
        self,
        library: Library,
        path: Path,
        defines: Mapping[str, str | int] | None,
        include_dirs: Sequence[str | Path],
        options: Options | None,
    ) -> None:
        """Read which kernels there are; nothing is compiled. Raises KernelSourceError."""
        self.path = path.absolute()
        self.files: dict[str, list[Path]] = defaultdict(list)
        self._library = library
        self._settings = defines, include_dirs, options
        sources = sorted(self.path.glob("*.cu"))
        if not sources:
            state = "holds no .cu file" if self.path.is_dir() else "is no folder"
            raise KernelSourceError(f"folder of kernels {self.path} {state}")
        for source in sources:
            for name in kernel_names(source):
                self.files[name].append(source)

    def kernel(self, name: str) -> Kernel:
        """Return the kernel, compiling its file if need be, as `Library.kernel` does and raises.

        Raises KernelSourceError too for a name that no file declares, or more than one.
        """
        found = self.files.get(name, [])
        if not found:
            raise KernelSourceError(
                f"no file of {self.path} declares a kernel {name}{near(name, self.files)}"
            )
        if len(found) > 1:
            listed = ", ".join(file.name for file in found)
            raise KernelSourceError(
                f"kernel {name} is declared in {listed} of {self.path}: ask "
                f"library.kernel(Path(...), {name!r}) for that of one file"
            )
        defines, include_dirs, options = self._settings
        return self._library.kernel(
            found[0], name, defines, include_dirs=include_dirs, options=options
        )

    def __repr__(self) -> str:
        """Return the folder and how much it has."""
        return f"<KernelFolder {self.path}: {len(self.files)} kernels>"


def near(name: str, known: Collection[str]) -> str:
    """The end of a sentence about a name that is not there: those that are like it, or all."""
    inside = [other for other in known if name in other or other in name]
    like = list(dict.fromkeys((*difflib.get_close_matches(name, known), *inside)))
    if like:
        return f"; did you mean {', '.join(like[:3])}?"
    shown = sorted(known)
    more = f" and {len(shown) - 8} more" if len(shown) > 8 else ""
    return f"; there are {', '.join(shown[:8]) or 'none'}{more}"
