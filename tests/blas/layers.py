"""A linear layer's call on the device, and what it must give in float64."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from lowgraph.blas import Blas, Form, Layer, Route, Routes
from lowgraph.memory import Slice, download, upload
from lowgraph.ops.layernorm import EPSILON
from lowgraph.precision import BFLOAT16, Precision, bfloat16_bits, bfloat16_values
from tests.blas.bench import Bench
from tests.ops import twins
from tests.ops.rounding import BF16, to_bfloat16, to_tf32

Array = np.ndarray[Any, np.dtype[Any]]

STEEPEST = 1.13
"""The slope of gelu is no larger."""
_SUM = 2.0**-22
"""Of a term's size: what a float32 addition, of tensor cores too, cuts off at most."""
_GATE = 80 * 2.0**-24
"""Of a result: a gate or slope in float32, at an exponent of up to 20."""
_NORM = 128 * 2.0**-24
"""Of a row's 128 numbers: their sums and what is made of those, a few dozen roundings each."""
_LIBRARY_GATE = 2.0**-10
"""The same of cublasLt, which promises nothing: twice what a GPU's own tanh is off."""


def routed(first: Route, weight: Route | None = None) -> Any:
    """A table with one entry."""
    return lambda layer, backend: Routes(first, first if weight is None else weight)


@contextmanager
def blas_with(bench: Bench, *routes: Route) -> Iterator[Blas]:
    """A Blas over the bench's pool whose layers take these routes."""
    rig = bench.rig
    made = Blas(rig.device, rig.library, rig.stream, bench.pool, routes=routed(*routes))
    try:
        yield made
    finally:
        rig.sync()
        made.close()


class LayerCase:
    """See the module. Outputs hold NaN until `run`. roundings: to bfloat16 before the last one."""

    def __init__(self, bench: Bench, layer: Layer, seed: int = 0) -> None:
        self.bench, self.layer, self.gate = bench, layer, _GATE
        self.pieces: dict[str, Slice] = {}
        self.values: dict[str, Array] = {}
        chance = np.random.default_rng(seed + sum(layer[1:4]))
        for tensor in layer.tensors():
            if tensor is None:
                continue
            values = chance.standard_normal(tensor.shape).astype(np.float32)
            if tensor.role == "y" and layer.form is Form.BACKWARD_RELU:
                values = np.maximum(values, 0)
            if tensor.role == "hidden" and layer.form is Form.BACKWARD_GELU:
                values *= 3  # into both of gelu's tails
            self.pieces[tensor.role] = bench.pool.take(tensor.role, tensor.shape, tensor.dtype)
            self._put(tensor.role, values)
        if layer.form is Form.BACKWARD_NORM:
            normed = self.values["normed"]
            _, mean, rstd = twins.layernorm_forward(normed, normed, normed, EPSILON)
            self._put("mean", mean.astype(np.float32))
            self._put("rstd", rstd.astype(np.float32))
        self.poison()

    def _put(self, role: str, values: Array) -> None:
        piece = self.pieces[role]
        narrow = piece.dtype == BFLOAT16
        upload(piece, bfloat16_bits(values) if narrow else values, self.bench.rig.stream)
        self.values[role] = (to_bfloat16(values) if narrow else values).astype(float)

    @property
    def outputs(self) -> list[str]:
        given = {
            Form.BIAS: ["y"], Form.RELU: ["y"], Form.GELU: ["active", "hidden"],
            Form.RESIDUAL: ["out"], Form.NORM: ["out", "y", "mean", "rstd"],
            Form.BACKWARD: ["dx", "dweight", "dbias"],
            Form.BACKWARD_RELU: ["dx", "dweight", "dbias"],
            Form.BACKWARD_GELU: ["dhidden", "dweight", "dbias"],
            Form.BACKWARD_NORM: ["dx", "narrow", "partial"],
        }  # fmt: skip
        return [role for role in given[self.layer.form] if role in self.pieces]

    def poison(self) -> None:
        for role in self.outputs:
            piece = self.pieces[role]
            if role == "dx" and self.layer.accumulate:
                self._put(role, self.values[role].astype(np.float32))
                continue
            upload(piece, np.full(piece.nbytes, 0xFF, np.uint8).view(piece.dtype)
                   .reshape(piece.shape), self.bench.rig.stream)  # fmt: skip

    def run(self, blas: Blas, stream: int, **given: int) -> None:
        """The call, by its method of Blas. given: what else it takes."""
        methods = {
            Form.BIAS: blas.linear, Form.RELU: blas.linear_relu, Form.GELU: blas.linear_gelu,
            Form.RESIDUAL: blas.linear_residual, Form.NORM: blas.linear_norm,
            Form.BACKWARD: blas.linear_backward,
            Form.BACKWARD_RELU: blas.linear_relu_backward,
            Form.BACKWARD_GELU: blas.linear_gelu_backward,
            Form.BACKWARD_NORM: blas.linear_norm_backward,
        }  # fmt: skip
        tensors = [None if t is None else self.pieces[t.role] for t in self.layer.tensors()]
        call: Any = methods[self.layer.form]
        if self.layer.form is Form.BACKWARD_NORM:
            given = {"columns": self.layer.columns, "accumulate": self.layer.accumulate, **given}
        call(stream, *tensors, self.layer.precision, **given)

    def bits(self) -> dict[str, bytes]:
        return {role: download(self.pieces[role], self.bench.rig.stream).tobytes()
                for role in self.outputs}  # fmt: skip

    def check(self, roundings: int = 1, *, library: bool = False) -> None:
        """Compare with float64. roundings: to bfloat16, the last included, of what is narrow.

        library: GELU is cublasLt's.
        """
        self.gate = _LIBRARY_GATE if library else _GATE
        for role, (want, slack) in self._wanted().items():
            if role not in self.pieces:
                continue
            piece = self.pieces[role]
            got = download(piece, self.bench.rig.stream)
            narrow = piece.dtype == BFLOAT16
            numbers = bfloat16_values(got) if narrow else got
            # Each rounding but the last is of a number as large as the terms; the slope of gelu
            # makes an error no more than STEEPEST times as large.
            size = np.abs(want) + slack
            limit = slack + (BF16 * (size + (roundings - 1) * self._size(role)) if narrow else 0.0)
            error = np.abs(numbers - want)
            assert (error <= limit).all(), (
                f"{role}: beyond its limit by {(error - limit).max():.2e}"
            )

    # ---- inside ----

    def _wanted(self) -> dict[str, tuple[Array, Array]]:
        """Result and float32 error bound, by role."""
        if self.layer.form is Form.BACKWARD_NORM:
            return self._norm_gradients()
        if self.layer.form.is_backward:
            return self._gradients()
        product, slack = self._product(self.values["x"], self.values["weight"].T)
        sum_, bias = product + self.values["bias"], np.abs(self.values["bias"])
        slack = slack + 2 * _SUM * (np.abs(product) + bias)
        if self.layer.form is Form.BIAS:
            return {"y": (sum_, slack)}
        if self.layer.form is Form.RELU:
            return {"y": (np.maximum(sum_, 0), slack)}
        if self.layer.form in (Form.RESIDUAL, Form.NORM):
            residual = self.values["residual"]
            out = {"out": (residual + sum_, slack + 2 * _SUM * np.abs(residual))}
            return out if self.layer.form is Form.RESIDUAL else out | self._norm()
        active = twins.gelu_forward(sum_), STEEPEST * slack + self.gate * np.abs(sum_)
        return {"hidden": (sum_, slack), "active": active}

    def _norm(self) -> dict[str, tuple[Array, Array]]:
        """Of the out that the call has written."""
        out = self._read("out").astype(float)
        scale, shift = self.values["scale"], self.values["shift"]
        y, mean, rstd = twins.layernorm_forward(out, scale, shift, EPSILON)
        far = np.abs(out - out[:, :1]).max(axis=1)
        steps = _NORM * (np.abs(y) + np.abs(scale) + np.abs(shift))
        found = {"mean": (mean, _NORM * (np.abs(mean) + far)), "rstd": (rstd, _NORM * rstd)}
        return {"y": (y, steps), **found}

    def _norm_gradients(self) -> dict[str, tuple[Array, Array]]:
        """dx, and sums of 16 rows each, of columns of the norm alone."""
        dy, slack = self._product(self.values["dy"], self.values["weight"])
        slack = slack + _NORM * np.abs(dy)
        normed, scale, rstd = (self.values[role] for role in ("normed", "scale", "rstd"))
        dx, _, _ = twins.layernorm_backward(dy, normed, scale, EPSILON)
        xhat = (normed - self.values["mean"][:, None]) * rstd[:, None]
        before = self.values["dx"] if self.layer.accumulate else np.zeros_like(dx)
        most = (slack * np.abs(scale)).max(axis=1, keepdims=True) * rstd[:, None]
        off = most * (2 + np.abs(xhat) * np.abs(xhat).max(axis=1, keepdims=True))
        off = off + _SUM * np.abs(before)
        terms, sizes = np.hstack([dy * xhat, dy]), np.hstack([slack * (1 + np.abs(xhat)), slack])
        starts = np.arange(0, len(dy), 16)
        sums = np.add.reduceat(terms, starts).ravel(), np.add.reduceat(sizes, starts).ravel()
        return {"dx": (before + dx, off), "narrow": (before + dx, off), "partial": sums}

    def _read(self, role: str) -> Array:
        return download(self.pieces[role], self.bench.rig.stream)

    def _gradients(self) -> dict[str, tuple[Array, Array]]:
        gelu = self.layer.form is Form.BACKWARD_GELU
        dy, x = self.values["dy"], self.values["active" if gelu else "x"]
        if self.layer.form is Form.BACKWARD_RELU:
            dy = np.where(self.values["y"] > 0, dy, 0)
        found = {
            "dweight": self._product(dy.T, x),
            "dbias": (dy.sum(axis=0), len(dy) * _SUM * np.abs(dy).sum(axis=0)),
        }
        dx, slack = self._product(dy, self.values["weight"])
        if not gelu:
            return {"dx": (dx, slack), **found}
        slack = STEEPEST * slack + self.gate * np.abs(dx)
        return {"dhidden": (twins.gelu_backward(dx, self.values["hidden"]), slack), **found}

    def _product(self, a: Array, b: Array) -> tuple[Array, Array]:
        tf32 = self.layer.precision is Precision.TF32
        left, right = (to_tf32(a), to_tf32(b)) if tf32 else (a, b)
        # TF32: a GPU may round its operands otherwise than to nearest, by two units at most.
        unit = a.shape[1] * _SUM + (2.0**-9 if tf32 else 0.0)
        return left @ right, unit * (np.abs(a) @ np.abs(b))

    def _size(self, role: str) -> Array:
        """What is rounded before `role` is: the plain product, the sum with the bias."""
        if self.layer.form.has_norm:
            return np.zeros(1)  # nothing is
        if role in ("dx", "dhidden"):
            return STEEPEST * np.abs(self.values["dy"] @ self.values["weight"])
        product = self.values["x"] @ self.values["weight"].T
        return STEEPEST * (np.abs(product) + np.abs(self.values["bias"]))
