"""The file of tools/sanitizer_table.py: runs of the seeded bugs, each with what it was of."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from tests.check.bugs.digest import digest, digest_of_clean
from tests.check.bugs.table import BY_NAME
from tools.environment import commit

CLEAN = "all scenarios"


def source_of(name: str) -> str:
    """Digest of what a run of the bug, or of all scenarios, depends on."""
    return digest_of_clean() if name == CLEAN else digest(BY_NAME[name])


class Table:
    """Runs by bug and tool, in `file`.

    begin_with: where there is no file yet, its runs are taken, if they are of the same `facts`
    (gpu, driver, version). Raises SystemExit where the file itself is of others.
    """

    def __init__(self, file: Path, begin_with: Path | None, facts: dict[str, str]) -> None:
        self.file, self._lock, self._commit = file, threading.Lock(), commit()
        self._sources = {name: source_of(name) for name in [*BY_NAME, CLEAN]}
        self.content: dict[str, Any] = {**facts, "bugs": {}, "clean": {}}
        held = next((path for path in (file, begin_with) if path and path.is_file()), None)
        if held is not None:
            self._take(held, facts)
        self._write()

    def _take(self, held: Path, facts: dict[str, str]) -> None:
        before = json.loads(held.read_text(encoding="utf-8"))
        other = {key: before.get(key) for key in facts if before.get(key) != facts[key]}
        if not other:
            self.content.update(bugs=before["bugs"], clean=before["clean"])
        elif held == self.file:
            raise SystemExit(f"{held} holds runs of {other}, this is {facts}: name another file")
        else:
            print(f"no run is taken from {held}: they are of {other}, this is {facts}", flush=True)

    def has(self, name: str, tool: str) -> bool:
        """Whether that run was made, of the sources as they are."""
        return self._row(name).get(tool, {}).get("source") == self._sources[name]

    def put(self, name: str, tool: str, run: dict[str, Any]) -> None:
        """Enter a run, and write the file anew beside the old one."""
        with self._lock:
            origin = {"source": self._sources[name], "commit": self._commit}
            self._row(name)[tool] = {**run, **origin}
            self._write()

    def _write(self) -> None:
        fresh = self.file.with_suffix(".new")
        fresh.write_text(json.dumps(self.content, indent=1) + "\n", encoding="utf-8")
        fresh.replace(self.file)

    def _row(self, name: str) -> dict[str, Any]:
        if name == CLEAN:
            return self.content["clean"]  # type: ignore[no-any-return]
        return self.content["bugs"].setdefault(name, {})  # type: ignore[no-any-return]
