"""Blas: the products and layers that a model calls, over one backend and one workspace a stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lowgraph import driver
from lowgraph.blas.backend import Backend, Product
from lowgraph.blas.cublas import CublasBackend
from lowgraph.blas.kernel import KernelBackend
from lowgraph.blas.layer import Layer, checked_keys
from lowgraph.blas.layers import Layers
from lowgraph.blas.linear import LinearCalls
from lowgraph.blas.operands import check_operands
from lowgraph.blas.routes import Chooser, Route, choose
from lowgraph.blas.sides import SideStreams
from lowgraph.blas.workspace import Workspaces, workspace_bytes
from lowgraph.errors import CaptureRefused, ConfigError, LibraryNotReady
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, Slice, fill_zero, open_window, readable
from lowgraph.precision import BFLOAT16, Precision

__all__ = ["Blas"]

_DESCRIBED = {
    Precision.FP32: "float32, no TF32",
    Precision.TF32: "TF32 operands, float32 sums",
    Precision.BF16: "bfloat16 operands, float32 sums",
}


class Blas(LinearCalls):
    """Products, and linear layers (see the base), on the streams that were prepared.

    What a product needs beside its operands is made outside of windows: the handle when the Blas is
    made, a stream's workspace and a shape's algorithm in `prepare` or by the first product of that
    stream and shape, which the priming pass of a step runs. In a window what is missing is refused
    (LibraryNotReady), for cuBLAS would allocate there, or take another algorithm than it was seen
    with. So it is with a layer.

    Attributes: backend ("cublas" or "kernel"), stream (that it was made for), workspaces, sides
    (streams beside that one, which are closed with it).
    """

    def __init__(
        self,
        device: driver.Device,
        library: Library,
        stream: int,
        pool: PersistentPool,
        workspace: int | None = None,
        routes: Chooser = choose,
    ) -> None:
        """Take the workspace (bytes; NVIDIA's advice if None) and make the handle for `stream`.

        routes: how layers are computed; another choice than the table's is for measuring it.

        Raises LibraryNotReady in a window, ConfigError when the device wants cuBLAS and its
        bindings are not installed, LibraryError when cuBLAS cannot make a handle.
        """
        _refuse_in_window("a Blas was made", "make it before the step")
        self.backend = device.blas_backend
        self.stream = stream
        self._pool = pool
        advised = workspace_bytes(device.compute_capability)
        self.workspaces = Workspaces(pool, advised if workspace is None else workspace)
        self.sides = SideStreams(stream)
        self._plans: dict[Product | Layer, Any] = {}
        self._closed = False
        self.workspaces.make(stream)
        try:
            self._backend: Backend = (
                CublasBackend(pool) if self.backend == "cublas" else KernelBackend(library)
            )
        except BaseException:
            self.workspaces.close()
            raise
        self._layers = Layers(self._backend, self.backend, library, routes)

    @property
    def workspace(self) -> Slice:
        """The workspace of the stream that it was made for."""
        return self.workspaces.make(self.stream)

    def describe(self, precision: Precision = Precision.FP32) -> str:
        """The header line of a run whose products have a precision: backend, it, workspace."""
        room = readable(self.workspaces.nbytes)
        return f"{self._backend.title} ({_DESCRIBED[precision]}), workspace {room}"

    def prepare(self, products: Iterable[Product | Layer] = (), stream: int | None = None) -> None:
        """Make a stream's workspace, and run each product or layer once on scratch of the pool.

        stream: that it was made for, if None. Waits for the stream. Raises LibraryNotReady in a
        window, ConfigError for what is no list of these, or one that cannot be; nothing ran then.
        """
        self._refuse_closed()
        _refuse_in_window("blas.prepare was called", "call it before the step")
        wanted = checked_keys(products)
        target = self.stream if stream is None else stream
        self.workspaces.make(target)
        for key in wanted:
            self._warm(key, target)
        driver.stream.synchronize(target)

    def algorithms(self) -> dict[Product | Layer, str]:
        """How all that was seen so far is run: what was picked for it, the same until `resize`."""
        return {key: self._runner(key).describe(plan) for key, plan in self._plans.items()}

    def prepared(self, product: Product | Layer, stream: int | None = None) -> bool:
        """Whether a window on the stream may record this product or layer."""
        target = self.stream if stream is None else stream
        return product in self._plans and self.workspaces.get(target) is not None

    def sums_bias(self, layer: Layer) -> bool:
        """Whether a backward layer's route sums dbias with what it reads anyway: OWN.

        The others read dy once more, in launches of their own.
        """
        return Route.OWN in self._layers.routes(layer)

    def takes_norm(self, layer: Layer) -> bool:
        """Whether a layer with a norm is one launch; else the caller has two."""
        return self._layers.routes(layer).first is Route.OWN

    def gemm(
        self,
        stream: int,
        out: Slice,
        a: Slice,
        b: Slice,
        m: int,
        n: int,
        k: int,
        trans_a: bool = False,
        trans_b: bool = False,
        accumulate: bool = False,
        precision: Precision = Precision.FP32,
    ) -> None:
        """out[m,n] = op(a)[m,k] op(b)[k,n], added to `out` with `accumulate`; row-major.

        trans_a: `a` is stored [k,m]; trans_b: `b` is stored [n,k]. precision: FP32 and TF32 take
        float32 operands, BF16 takes bfloat16 (`BFLOAT16`). out is float32, or bfloat16 where the
        operands are. Sums are float32 in each; but for FP32, what is given begins at a multiple of
        16 bytes. Raises ConfigError for memory that does not fit, LibraryNotReady, LibraryError.
        """
        narrow = out.dtype == BFLOAT16
        product = Product(m, n, k, trans_a, trans_b, accumulate, precision, narrow)
        check_operands(product, out, a, b)
        self._call(product, stream, (out, a, b))

    def resize(self, nbytes: int) -> None:
        """Give every stream a workspace of another size; all products are unseen again.

        Raises WorkspaceInUse while a graph borrows one, and changes nothing then.
        """
        self._refuse_closed()
        _refuse_in_window("blas.resize was called", "call it before the step")
        self.workspaces.resize(nbytes)
        self._drop_plans()

    def release(self, stream: int) -> None:
        """Give a stream's workspace back, as before the stream is destroyed.

        Raises WorkspaceInUse while a graph borrows it.
        """
        _refuse_in_window("blas.release was called", "call it after the step")
        self.workspaces.release(stream)

    def close(self) -> None:
        """Give the workspaces back and drop the handle. Idempotent.

        Raises WorkspaceInUse while a graph borrows one, and changes nothing then.
        """
        if self._closed:
            return
        _refuse_in_window("blas.close was called", "close it after the step")
        self.workspaces.close()
        self.sides.close()
        self._closed = True
        self._drop_plans()
        self._backend.close()

    # ---- inside ----

    def _call(
        self,
        key: Product | Layer,
        stream: int,
        tensors: tuple[Any, ...],
        side: int | None = None,
    ) -> None:
        recorder = open_window.recorder()
        if recorder is not None:
            recorder.sized("product", key.as_call(), key)
        plan = self._plans.get(key)
        streams = (stream,) if side in (None, stream) else (stream, side)
        if plan is not None and None not in map(self.workspaces.get, streams):
            self._run(key, plan, streams, tensors)
        else:
            self._first(key.plain().check(), streams, tensors)

    def _run(
        self, key: Product | Layer, plan: Any, streams: tuple[int, ...], tensors: tuple[Any, ...]
    ) -> None:
        main, *side = ((stream, self.workspaces.make(stream)) for stream in streams)
        if side:
            self._layers.run(plan, *main, *tensors, side=side[0])
        else:
            self._runner(key).run(plan, *main, *tensors)

    def _first(
        self, key: Product | Layer, streams: tuple[int, ...], tensors: tuple[Any, ...]
    ) -> None:
        """The first call of its shape, or on its streams."""
        self._refuse_closed()
        window = open_window.mine()
        if window is not None:
            bare = [stream for stream in streams if self.workspaces.get(stream) is None]
            raise self._not_ready(key, (bare or streams)[0], window.label)
        rooms = [self.workspaces.make(stream) for stream in streams]
        runner, plan = self._runner(key), self._plans.get(key)
        if plan is not None:
            self._run(key, plan, streams, tensors)
            return
        plan = runner.plan(key, rooms[0].nbytes)
        try:
            self._run(key, plan, streams, tensors)
        except BaseException:
            runner.drop(plan)
            raise
        self._plans[key] = plan

    def _runner(self, key: Product | Layer) -> Any:
        """What plans and runs it."""
        return self._layers if isinstance(key, Layer) else self._backend

    def _drop_plans(self) -> None:
        while self._plans:
            key, plan = self._plans.popitem()
            self._runner(key).drop(plan)

    def _not_ready(self, product: Product | Layer, stream: int, label: str) -> CaptureRefused:
        if product not in self._plans:
            what = f"{product.as_call()} was not seen before the window of {label!r}"
        else:
            what = f"stream {stream:#x} has no workspace yet in the window of {label!r}"
        target = "" if stream == self.stream else f", stream={stream:#x}"
        remedy = (
            f"call blas.prepare([{product.as_call()}]{target}) before the step, or prime with a "
            "pass that runs it"
        )
        reason = f"{self._backend.title}: {what}"
        return open_window.refused(LibraryNotReady(reason, open_window.requester(), remedy))

    def _warm(self, key: Product | Layer, stream: int) -> None:
        taken = [None if t is None else self._pool.take(f"scratch {t.role}", t.shape, t.dtype)
                 for t in key.tensors()]  # fmt: skip
        pieces = [piece for piece in taken if piece is not None]
        try:
            for piece in pieces:
                fill_zero(piece, stream)
            self._call(key, stream, tuple(taken))
        finally:
            # Another stream may be handed these blocks next.
            driver.stream.synchronize(stream)
            for piece in pieces:
                self._pool.give_back(piece)

    def _refuse_closed(self) -> None:
        if self._closed:
            raise ConfigError("this Blas is closed: make a new one")


def _refuse_in_window(what: str, remedy: str) -> None:
    window = open_window.mine()
    if window is not None:
        reason = f"{what} in the capture window of {window.label!r}"
        raise open_window.refused(LibraryNotReady(reason, open_window.requester(), remedy))
