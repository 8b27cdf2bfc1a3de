"""The parent's side: a process that holds arms, and requests to it that end in time."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lowgraph.errors import LowgraphError

__all__ = ["ArmFailed", "ArmProcess"]

_LAST_WORDS = 400  # characters of stderr that an error quotes


class ArmFailed(LowgraphError):
    """An arm answered with an error, died, or did not answer in time."""


class ArmProcess:
    """A started program that speaks the protocol of `serve`. Close it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], cwd: Path) -> None:
        self._name = Path(command[-1]).name
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `close`
        self._process = subprocess.Popen(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            env=dict(environment), cwd=cwd,
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._buffer = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._answers, selectors.EVENT_READ)

    def ask(self, timeout: float, **request: Any) -> Any:
        """The answer to a request. Raises ArmFailed; a process that is late is ended."""
        try:
            self._requests.write(json.dumps(request).encode() + b"\n")
            self._requests.flush()
        except OSError as error:
            raise ArmFailed(self._death()) from error
        answer = json.loads(self._line(time.monotonic() + timeout, request["do"]))
        if "error" in answer:
            raise ArmFailed(answer["error"])
        return answer["ok"]

    def close(self) -> None:
        """Ask it to end, end it if it does not. Idempotent."""
        if self._process.poll() is None:
            try:
                self._requests.write(b'{"do": "close"}\n')
                self._requests.flush()
                self._process.wait(30)
            except (OSError, subprocess.TimeoutExpired):
                self._process.kill()
                self._process.wait()
        self._selector.close()
        for pipe in (self._requests, self._answers, self._errors):
            try:
                pipe.close()
            except OSError:  # a request that a dead process never read
                continue

    def _line(self, deadline: float, what: str) -> bytes:
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0:
                self._process.kill()
                self._process.wait()
                raise ArmFailed(f"{what} did not end in time; the process was ended")
            if self._selector.select(left):
                part = os.read(self._answers.fileno(), 65536)
                if not part:
                    raise ArmFailed(self._death())
                self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _death(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip()
        return f"the process ended with {code}: {said[-_LAST_WORDS:] or 'it said nothing'}"
