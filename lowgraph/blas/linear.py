"""The calls of linear layers that a Blas has beside products."""

from __future__ import annotations

from typing import Any

from lowgraph.blas.layer import Form, Layer
from lowgraph.blas.operands import check_tensors
from lowgraph.errors import ConfigError
from lowgraph.memory import Slice
from lowgraph.precision import Precision

__all__ = ["LinearCalls"]


class LinearCalls:
    """Linear layers y = x weight^T + bias, and what follows them, as one call each.

    Shapes: x, active, dx, dhidden [rows,inputs]; weight, dweight [outputs,inputs]; y, out, dy,
    residual [rows,outputs]; bias, dbias [outputs]; row-major. Sizes are those of x and weight.
    Types: of the precision's operands (bfloat16 with BF16, else float32), but for dweight, dbias,
    the residual stream and the bias that is added to it: those are float32. So a bias has the type
    of the result that it is added to. Sums are float32. But for FP32, what is given begins at a
    multiple of 16 bytes. Outputs are overwritten, and overlap nothing else that is given.
    How a layer is computed depends on its sizes and the backend (`routes`), and is fixed by its
    first call or `prepare`: `Blas.algorithms` tells. Each raises ConfigError for memory that does
    not fit, LibraryNotReady in a window for a layer that was not seen before, and LibraryError.
    """

    def linear(
        self,
        stream: int,
        y: Slice,
        x: Slice,
        weight: Slice,
        bias: Slice,
        precision: Precision = Precision.FP32,
    ) -> None:
        """y = x weight^T + bias."""
        self._linear(Form.BIAS, stream, precision, (x, weight), y, x, weight, bias)

    def linear_relu(
        self,
        stream: int,
        y: Slice,
        x: Slice,
        weight: Slice,
        bias: Slice,
        precision: Precision = Precision.FP32,
    ) -> None:
        """y = max(x weight^T + bias, 0); a NaN stays one. Backward needs y. bias: float32."""
        self._linear(Form.RELU, stream, precision, (x, weight), y, x, weight, bias)

    def linear_gelu(
        self,
        stream: int,
        active: Slice,
        hidden: Slice,
        x: Slice,
        weight: Slice,
        bias: Slice,
        precision: Precision = Precision.FP32,
    ) -> None:
        """hidden = x weight^T + bias and active = gelu(hidden), both [rows,outputs].

        gelu: with the tanh (Hendrycks and Gimpel 2016), of hidden before or after it is rounded.
        """
        tensors = active, hidden, x, weight, bias
        self._linear(Form.GELU, stream, precision, (x, weight), *tensors)

    def linear_residual(
        self,
        stream: int,
        out: Slice,
        x: Slice,
        weight: Slice,
        bias: Slice,
        residual: Slice,
        precision: Precision = Precision.FP32,
    ) -> None:
        """out = residual + x weight^T + bias; out, residual and bias are float32."""
        if out.address == residual.address:
            raise ConfigError(
                f"linear: out {out.name!r} is residual itself, which a product may read after it "
                "has written there: give out a slice of its own"
            )
        tensors = out, x, weight, bias, residual
        self._linear(Form.RESIDUAL, stream, precision, (x, weight), *tensors)

    def linear_norm(
        self,
        stream: int,
        out: Slice,
        y: Slice,
        mean: Slice,
        rstd: Slice,
        x: Slice,
        weight: Slice,
        bias: Slice,
        residual: Slice,
        scale: Slice,
        shift: Slice,
        precision: Precision = Precision.FP32,
    ) -> None:
        """As `linear_residual`, and y = (out - mean) rstd scale + shift, the layer norm of out.

        mean, rstd [rows], scale, shift [outputs], float32; y [rows,outputs]. For layers of which
        `Blas.takes_norm` says so; out may be residual. As `ops.LayerNorm`, with its epsilon.
        """
        tensors = out, y, mean, rstd, x, weight, bias, residual, scale, shift
        self._linear(Form.NORM, stream, precision, (x, weight), *tensors)

    def linear_backward(
        self,
        stream: int,
        dx: Slice | None,
        dweight: Slice,
        dbias: Slice | None,
        dy: Slice,
        x: Slice,
        weight: Slice,
        precision: Precision = Precision.FP32,
        *,
        side: int | None = None,
    ) -> None:
        """dx = dy weight, dweight = dy^T x, and dbias, the sums of dy's columns.

        dx, dbias: None if nobody wants them. side: a stream for dweight and dbias, where another
        launch can compute them than dx; what they read comes before its next work, and the caller
        joins it. The bits are the same. None, or `stream` itself: no other.
        """
        tensors = dx, dweight, dbias, dy, x, weight
        self._linear(Form.BACKWARD, stream, precision, (x, weight), *tensors, side=side)

    def linear_relu_backward(
        self,
        stream: int,
        dx: Slice | None,
        dweight: Slice,
        dbias: Slice | None,
        dy: Slice,
        x: Slice,
        weight: Slice,
        y: Slice,
        precision: Precision = Precision.FP32,
    ) -> None:
        """As `linear_backward` of the layer whose result y `linear_relu` made.

        In place of dy its products read dz = dy where y > 0, 0 elsewhere. Some routes leave that in
        dy, others leave dy as it was.
        """
        tensors = dx, dweight, dbias, dy, x, weight, y
        self._linear(Form.BACKWARD_RELU, stream, precision, (x, weight), *tensors)

    def linear_gelu_backward(
        self,
        stream: int,
        dhidden: Slice,
        dweight: Slice,
        dbias: Slice | None,
        dy: Slice,
        active: Slice,
        weight: Slice,
        hidden: Slice,
        precision: Precision = Precision.FP32,
        *,
        side: int | None = None,
    ) -> None:
        """As `linear_backward` of the layer after a GELU: its input is active = gelu(hidden).

        dhidden = (dy weight) gelu'(hidden) in place of dx; hidden [rows,inputs] as `linear_gelu`
        of the layer before left it.
        """
        tensors = dhidden, dweight, dbias, dy, active, weight, hidden
        sizes = active, weight
        self._linear(Form.BACKWARD_GELU, stream, precision, sizes, *tensors, side=side)

    def linear_norm_backward(
        self,
        stream: int,
        dx: Slice,
        narrow: Slice,
        partial: Slice,
        dy: Slice,
        weight: Slice,
        normed: Slice,
        scale: Slice,
        mean: Slice,
        rstd: Slice,
        precision: Precision = Precision.FP32,
        *,
        columns: int = 0,
        accumulate: bool = False,
    ) -> None:
        """The gradient of what a layer norm normed, from dy, that of the layer behind the norm.

        For layers of which `Blas.takes_norm` says so; the layer's own parameters are another
        call's (`linear_backward` without dx). dx [rows,inputs], float32, is overwritten, or added
        to if `accumulate`; narrow is dx as an operand. normed [rows,inputs], scale [inputs], mean
        and rstd [rows], float32, as `linear_norm` has and leaves them. partial: where the norm's
        columns begin in a matrix of that many `columns`, or none else (0), as `ops.LayerNorm`
        leaves sums for `parameters`.
        """
        tensors = dx, narrow, partial, dy, weight, normed, scale, mean, rstd
        more = {"columns": columns, "accumulate": accumulate}
        sizes = normed, weight
        self._linear(Form.BACKWARD_NORM, stream, precision, sizes, *tensors, more=more)

    def _linear(
        self,
        form: Form,
        stream: int,
        precision: Precision,
        sizes: tuple[Slice, Slice],
        *tensors: Slice | None,
        side: int | None = None,
        more: dict[str, Any] | None = None,
    ) -> None:
        x, weight = sizes
        if len(x.shape) != 2 or len(weight.shape) != 2:
            shapes = f"{x.shape} and {weight.shape}"
            raise ConfigError(
                f"linear: the input and weight must be matrices, their shapes are {shapes}"
            )
        # What may be None is the first and the third: dx and dbias.
        wanted = tensors[2] is not None, tensors[0] is not None
        layer = Layer(form, *x.shape, weight.shape[0], precision, *wanted, **(more or {}))
        check_tensors(layer, tensors)
        self._call(layer, stream, tensors, side)

    def _call(
        self, key: Any, stream: int, tensors: tuple[Any, ...], side: int | None = None
    ) -> None:
        """Run what a key names; Blas has it."""
        raise NotImplementedError
