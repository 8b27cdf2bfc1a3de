"""A thread beside a window, and what came of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from tests.capture.micro import Micro

Act = Callable[[], Any]


class Worker:
    """A thread with the device current that runs one act; `result` waits for what came of it."""

    def __init__(self, micro: Micro, act: Act, name: str = "watchdog") -> None:
        self.answer: Any = None
        self.finished_at = 0.0
        self._act = act
        self._micro = micro
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._micro.rig.device.make_current()
            self.answer = self._act()
        except BaseException as error:  # shown to the test's thread
            self.answer = error
        self.finished_at = time.monotonic()

    def result(self) -> Any:
        self._thread.join(timeout=30)
        assert not self._thread.is_alive(), "the worker hangs"
        return self.answer
