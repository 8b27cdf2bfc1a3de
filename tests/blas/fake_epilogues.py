"""The epilogues of the stand-in for cublasLt, by kernels of lowgraph, and what they ask for."""

from __future__ import annotations

import enum
from typing import Any

from lowgraph.kernels import Library
from lowgraph.ops import Bias, BiasGelu
from lowgraph.precision import Precision

_KINDS = {0: Precision.FP32, 14: Precision.BF16}  # by CUDA_R_32F, CUDA_R_16BF


class Epilogue(enum.IntEnum):
    DEFAULT = 1
    BIAS = 4
    GELU_AUX_BIAS = 164
    DGELU = 192
    BGRADB = 512


class NotSupported(Exception):
    """The library would refuse this."""


class FakeEpilogues:
    """Sizes are those of the row-major product [m,n], whose columns are the library's rows."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._copy = library.kernel("copy.cu", "copy_bytes")

    def check(
        self, epilogue: Epilogue, kind: int, out_kind: int, rows: int, given: dict[str, Any]
    ) -> None:
        """Raise NotSupported for attributes that the manual excludes, and load the kernels."""
        takes_bias = epilogue in (Epilogue.BIAS, Epilogue.GELU_AUX_BIAS, Epilogue.BGRADB)
        takes_aux = epilogue in (Epilogue.GELU_AUX_BIAS, Epilogue.DGELU)
        if takes_bias and not (given["BIAS_POINTER"] and given["BIAS_DATA_TYPE"] == out_kind):
            raise NotSupported("a bias of the type of the result")
        if takes_aux:
            aligned = given["EPILOGUE_AUX_POINTER"] and given["EPILOGUE_AUX_POINTER"] % 16 == 0
            if not aligned or given["EPILOGUE_AUX_LD"] != rows or rows % 8:
                raise NotSupported("aux at a multiple of 16 bytes, its rows of a multiple of 8")
        if epilogue is Epilogue.BGRADB and not given["TRANSB"]:
            raise NotSupported("the gradient of a bias wants B transposed")
        operand, out = _KINDS[kind], _KINDS[out_kind]
        self._bias = Bias(self._library, out, out)
        self._gelu = BiasGelu(self._library, out, out)
        self._sums = Bias(self._library, operand)
        self._size = out.operand.itemsize

    def copy(self, stream: int, to: int, start: int, count: int) -> None:
        """to = start, of the result's type: what a product adds to where C is not D."""
        nbytes = self._size * count
        self._copy(stream, -(-nbytes // 2048), 128, to, start, nbytes)

    def run(
        self, epilogue: Epilogue, stream: int, workspace: int, out: int, a: int, bias: int,
        aux: int, sizes: tuple[int, int, int],
    ) -> None:  # fmt: skip
        """What follows the product in `out`; a: the first operand of the row-major product."""
        m, n, k = sizes
        if epilogue is Epilogue.BIAS:
            self._bias.forward(stream, out, bias, m, n)
        elif epilogue is Epilogue.GELU_AUX_BIAS:
            # The kernel adds the bias in place, to what backward is to see.
            self.copy(stream, aux, out, m * n)
            self._gelu.forward(stream, out, aux, bias, m, n)
        elif epilogue is Epilogue.DGELU:
            self._gelu.backward(stream, out, out, aux, m, n)
        elif epilogue is Epilogue.BGRADB:
            self._sums.backward(stream, bias, workspace, a, k, m)
