"""GraphPart: launches of ours in a graph that somebody else captures.

    part = GraphPart(body, device=device, pool=pool, library=library)
    part.prime(stream)              # a real run, outside the capture
    ...their begin on `theirs`...
    part.record(theirs)             # our launches are nodes of their graph
    ...their end; their launches...
    part.close()                    # once their graph will not run again

Their graph holds bare addresses of our pool and functions of our modules: until `close` the part
keeps that memory. It cannot see their launches: nothing is checked before one, which is why a part
has no pins, and it is theirs to say when the last one is done. So a part that is dropped unclosed
keeps its memory: their graph may run still.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from lowgraph import driver
from lowgraph.capture import watching
from lowgraph.capture.census import Census
from lowgraph.capture.closing import Closing
from lowgraph.capture.joined import JoinedWindow
from lowgraph.capture.passes import Body, StepPasses, to_stderr
from lowgraph.capture.pin_set import PinSet
from lowgraph.capture.recording import Recording
from lowgraph.capture.report import StepReport
from lowgraph.driver.foreign_stream import StreamLike, stream_handle
from lowgraph.errors import PhaseError
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool

__all__ = ["GraphPart"]


class GraphPart(Closing):
    """See the module. One part may be recorded into several captures, each primed before it.

    body: a plain callable that enqueues its launches on the stream it is given, as a step's.
    mode: of their capture, which the driver does not tell; "global" is safe for all. say: told
        warnings. per_step: names of by-value arguments that no graph may freeze (FrozenScalar).

    Attributes
    ----------
    census: the nodes that the latest `record` added, None before it.
    """

    def __init__(
        self,
        body: Body,
        *,
        device: driver.Device,
        pool: PersistentPool,
        library: Library,
        label: str = "part",
        mode: str = "global",
        say: Callable[[str], None] = to_stderr,
        per_step: Collection[str] = (),
    ) -> None:
        """Make a part that is in no graph; nothing runs yet."""
        self.label = label
        self.census: Census | None = None
        self._recordings: list[Recording] = []
        self._closed = False
        self._primed = False
        counts = StepReport(label, device.spec)
        pins = PinSet((), (), per_step=per_step, pool=pool, library=library, stream=0, label=label)
        self._passes = StepPasses(body, 0, pool, library, mode, counts, pins, say=say)
        self._passes.window = JoinedWindow
        self._library = library

    @property
    def retained_bytes(self) -> int:
        """Bytes of the pool that only the graphs with this part keep."""
        pool = self._passes.pool
        return sum(pool.retained(recording.owner) for recording in self._recordings)

    def prime(self, stream: StreamLike) -> None:
        """Run the body once for real; the slices that it takes are kept for `record`.

        Raises what the body raises, PoolError, and PhaseError once closed, from the body itself,
        and on a stream that captures: what a real run allocates and loads would break that.
        """
        self._enter("prime", stream)
        if driver.stream.capture_status(self._passes.stream) != "none":
            raise PhaseError(
                f"prime of {self.label!r} on stream {self._passes.stream:#x}, which is in a "
                "capture: prime it before that begins, or on another stream after it has ended"
            )
        self._primed = False
        self._passes.prime()
        self._primed = True
        # The window may neither load nor wait: the capture is open by then.
        self._library.make_resident()
        self._passes.prepare()

    def record(self, stream: StreamLike) -> Census:
        """Add the body's launches to the capture that `stream` is in; returns the nodes added.

        Raises CaptureRefused with the reason, and what the body raises: nodes that came before it
        are in their graph all the same, which should not be used then. PhaseError unless primed.
        """
        self._enter("record", stream)
        if not self._primed:
            raise PhaseError(
                f"record of {self.label!r} before it was primed for it: call prime(stream) outside "
                "the capture, each time, so that its memory is there and its kernels are loaded"
            )
        self._primed = False  # what was primed is taken, or given back where this is refused
        with self._passes.recorded() as recording:
            recording.owner.adopted = True
            self._recordings.append(recording)
        self.census = recording.census
        watching.joined(self.label, recording.census, recording.began_at)
        return recording.census

    def close(self) -> None:
        """Give the memory back. Idempotent. Their graphs must not run any more."""
        if self._closed:
            return
        self._passes.refuse_nested("close")
        self._closed = True
        self._passes.drop_primed()
        while self._recordings:
            owner = self._recordings.pop().owner
            self._passes.pool.release(owner)
            owner.let_go()

    def _enter(self, call: str, stream: StreamLike) -> None:
        self._passes.refuse_nested(call)
        if self._closed:
            raise PhaseError(f"{call} of {self.label!r}, which is closed: make another one")
        self._passes.stream = stream_handle(stream)
