"""Carries out one sequence through cuda.bindings and notes what the driver answered."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from cuda.bindings import driver as cu

from tests.conformance.objects import Fixtures, Objects, short
from tests.conformance.plan import STREAMS, Call, calls_of, is_guided

# [what, code, capture status of the three streams after it, extra]
Entry = list[Any]
# The call's name in the record, the driver's answer, extra; None: there was nothing to call it on.
Outcome = tuple[str, tuple[Any, ...], Any] | None

_CAPTURE_MODES = (
    cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL,
    cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
    cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED,
)
_BYTES = 64


class Session:
    """One sequence with fresh objects; `run` is called once."""

    def __init__(self, fixtures: Fixtures) -> None:
        self._use = Objects(fixtures)
        self._log: list[Entry] = []

    def run(self, seed: int) -> list[Entry]:
        """Make the seed's calls; returns the record in the form of the recorded data."""
        for call in calls_of(seed):
            outcome: Outcome = getattr(self, f"_{call.op}")(call)
            if outcome is not None:
                self._note(*outcome)
        if is_guided(seed):
            for index, stream in enumerate(self._use.streams):
                answer = cu.cuStreamEndCapture(stream)
                self._note(f"finalend({STREAMS[index]})", answer, self._use.keep_graph(answer))
        self._use.tear_down()
        return self._log

    def _note(self, what: str, answer: tuple[Any, ...], extra: Any) -> None:
        # Whether work in flight is done is not the rules' business.
        code = short(answer[0]).replace("NOT_READY", "SUCCESS")
        # A graph's shape is asked for before the statuses, as when the data was recorded.
        self._log.append([what, code, self._use.statuses(), extra])

    def _stream(self, call: Call) -> Any:
        return self._use.stream(call.stream)

    def _on(self, call: Call, *answer: Any, extra: Any = None) -> Outcome:
        return f"{call.op}({STREAMS[call.stream]})", answer, extra

    def _enqueue_kernel(self, call: Call, threads: int) -> Outcome:
        address = ctypes.addressof(self._use.shared.arguments)
        kernel = self._use.shared.kernels[call.kernel]
        stream = self._stream(call)
        return self._on(
            call, *cu.cuLaunchKernel(kernel, 1, 1, 1, threads, 1, 1, 0, stream, address, 0)
        )

    def _launch(self, call: Call) -> Outcome:
        return self._enqueue_kernel(call, call.block)

    def _badlaunch(self, call: Call) -> Outcome:
        return self._enqueue_kernel(call, 4096)

    def _begin(self, call: Call) -> Outcome:
        answer = cu.cuStreamBeginCapture(self._stream(call), _CAPTURE_MODES[call.mode])
        return f"begin({STREAMS[call.stream]},{call.mode})", answer, None

    def _end(self, call: Call) -> Outcome:
        answer = cu.cuStreamEndCapture(self._stream(call))
        return self._on(call, *answer, extra=self._use.keep_graph(answer))

    def _record(self, call: Call) -> Outcome:
        answer = cu.cuEventRecord(self._use.events[call.event], self._stream(call))
        return f"record(e{call.event},{STREAMS[call.stream]})", answer, None

    def _recordext(self, call: Call) -> Outcome:
        answer = cu.cuEventRecordWithFlags(self._use.events[call.event], self._stream(call), 1)
        return f"recordext(e{call.event},{STREAMS[call.stream]})", answer, None

    def _wait(self, call: Call) -> Outcome:
        answer = cu.cuStreamWaitEvent(self._stream(call), self._use.events[call.event], 0)
        return f"wait({STREAMS[call.stream]},e{call.event})", answer, None

    def _memset(self, call: Call) -> Outcome:
        stream = self._stream(call)
        return self._on(call, *cu.cuMemsetD8Async(self._use.shared.buffers[0], 0, _BYTES, stream))

    def _memcpy(self, call: Call) -> Outcome:
        _, dst, src = self._use.shared.buffers
        return self._on(call, *cu.cuMemcpyDtoDAsync(dst, src, _BYTES, self._stream(call)))

    def _h2d(self, call: Call) -> Outcome:
        dst = self._use.shared.buffers[1]
        stream = self._stream(call)
        return self._on(call, *cu.cuMemcpyHtoDAsync(dst, self._use.shared.pinned, _BYTES, stream))

    def _alloc(self, _: Call) -> Outcome:
        answer = cu.cuMemAlloc(256)
        if int(answer[0]) == 0:
            self._use.allocations.append(answer[1])
        return "alloc", answer, None

    def _free(self, _: Call) -> Outcome:
        if not self._use.allocations:
            return None
        answer = cu.cuMemFree(self._use.allocations[-1])
        if int(answer[0]) == 0:
            self._use.allocations.pop()
        return "free", answer, None

    def _allocasync(self, call: Call) -> Outcome:
        answer = cu.cuMemAllocAsync(256, self._stream(call))
        if int(answer[0]) == 0:
            capturing = any(status != "NONE" for status in self._use.statuses())
            self._use.async_allocations.append((answer[1], capturing))
        return self._on(call, *answer)

    def _freeasync(self, call: Call) -> Outcome:
        if not self._use.async_allocations:
            return None
        answer = cu.cuMemFreeAsync(self._use.async_allocations[-1][0], self._stream(call))
        if int(answer[0]) == 0:
            self._use.async_allocations.pop()
        return self._on(call, *answer)

    def _sync(self, call: Call) -> Outcome:
        return self._on(call, *cu.cuStreamSynchronize(self._stream(call)))

    def _sync0(self, _: Call) -> Outcome:
        return "sync(legacy)", cu.cuStreamSynchronize(cu.CUstream(0)), None

    def _query(self, call: Call) -> Outcome:
        return self._on(call, *cu.cuStreamQuery(self._stream(call)))

    def _evquery(self, call: Call) -> Outcome:
        return f"evquery(e{call.event})", cu.cuEventQuery(self._use.events[call.event]), None

    def _evsync(self, call: Call) -> Outcome:
        return f"evsync(e{call.event})", cu.cuEventSynchronize(self._use.events[call.event]), None

    def _elapsed(self, call: Call) -> Outcome:
        start, end = call.event, (call.event + 1) % 3
        answer = cu.cuEventElapsedTime(self._use.events[start], self._use.events[end])
        return f"elapsed(e{start},e{end})", answer, None

    def _ctxsync(self, _: Call) -> Outcome:
        return "ctxsync", cu.cuCtxSynchronize(), None

    def _inst(self, call: Call) -> Outcome:
        if not self._use.graphs:
            return None
        answer = cu.cuGraphInstantiate(self._use.graphs[call.pick % len(self._use.graphs)], 0)
        if int(answer[0]) == 0:
            self._use.executables.append(answer[1])
        return "inst", answer, None

    def _glaunch(self, call: Call) -> Outcome:
        if not self._use.executables:
            return None
        executable = self._use.executables[call.pick % len(self._use.executables)]
        return self._on(call, *cu.cuGraphLaunch(executable, self._stream(call)))

    def _update(self, call: Call) -> Outcome:
        if not self._use.executables or not self._use.graphs:
            return None
        executable = self._use.executables[call.pick % len(self._use.executables)]
        graph = self._use.graphs[call.mode % len(self._use.graphs)]
        return "update", cu.cuGraphExecUpdate(executable, graph), None

    def _capinfo(self, call: Call) -> Outcome:
        answer = cu.cuStreamIsCapturing(self._stream(call))
        return self._on(call, *answer, extra=short(answer[1]) if int(answer[0]) == 0 else None)

    def _gdestroy(self, call: Call) -> Outcome:
        return self._destroy("gdestroy", self._use.graphs, call, cu.cuGraphDestroy)

    def _edestroy(self, call: Call) -> Outcome:
        return self._destroy("edestroy", self._use.executables, call, cu.cuGraphExecDestroy)

    def _destroy(
        self, what: str, handles: list[Any], call: Call, destroy: Callable[[Any], Any]
    ) -> Outcome:
        # The handle is forgotten whatever the answer, as when the data was recorded.
        return (what, destroy(handles.pop(call.pick % len(handles))), None) if handles else None
