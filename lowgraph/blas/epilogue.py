"""What cublasLt does to a product before it writes it.

NVIDIA's manual of cublasLtEpilogue_t and cublasLtMatmulDescAttributes_t: a bias, or its gradient,
has the type of the product that is written; what GELU keeps has that type too, its rows begin at
multiples of 16 bytes; GELU is the one with the tanh. A row-major product is written transposed (see
`lt_plan`): its columns are the library's rows, along which a bias lies.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

__all__ = ["Epilogue", "Extras", "set_attribute"]

_BIAS = "BIAS_POINTER"
_AUX = "EPILOGUE_AUX_POINTER"
# Any address in a plan's place of one: the library wants one before it is asked for an algorithm.
_ANYWHERE = 256


class Epilogue(Enum):
    """Named as in cublasLt.

    BIAS: out = product + bias. GELU: aux = product + bias, out = gelu(aux). GELU_SLOPE: out =
    product gelu'(aux). BIAS_GRADIENT: the sums of the columns of `a`, of a product with `a`
    transposed, beside it. BIAS adds what `before` holds, too, where the product accumulates.
    """

    NONE = "DEFAULT"
    BIAS = "BIAS"
    GELU = "GELU_AUX_BIAS"
    GELU_SLOPE = "DGELU"
    BIAS_GRADIENT = "BGRADB"

    @property
    def pointers(self) -> tuple[str, ...]:
        """The attributes for the addresses that it takes, in the order of `Extras.put`."""
        return {
            Epilogue.NONE: (),
            Epilogue.BIAS: (_BIAS,),
            Epilogue.GELU: (_BIAS, _AUX),
            Epilogue.GELU_SLOPE: (_AUX,),
            Epilogue.BIAS_GRADIENT: (_BIAS,),
        }[self]


class Extras:
    """The addresses that an operation's epilogue uses, which are set before each call."""

    def __init__(
        self, api: Any, operation: int, epilogue: Epilogue, out_kind: int, columns: int
    ) -> None:
        """Set up an operation that writes `columns` columns of a cudaDataType."""
        self._set = api.matmul_desc_set_attribute
        self._operation = operation
        self._rooms: list[tuple[Any, np.ndarray[Any, Any], int]] = []
        if epilogue is Epilogue.NONE:
            return
        set_attribute(api, operation, "EPILOGUE", api.Epilogue[epilogue.value])
        if _BIAS in epilogue.pointers:
            set_attribute(api, operation, "BIAS_DATA_TYPE", out_kind)
        if _AUX in epilogue.pointers:
            set_attribute(api, operation, "EPILOGUE_AUX_LD", columns)
        for name in epilogue.pointers:
            attribute = api.MatmulDescAttribute[name]
            room = np.zeros(1, api.get_matmul_desc_attribute_dtype(attribute))
            self._rooms.append((attribute, room, room.ctypes.data))
        self.put((_ANYWHERE,) * len(self._rooms))

    def put(self, addresses: tuple[int, ...]) -> None:
        """Have the next call use these, in the order of the epilogue's pointers."""
        for (attribute, room, at), address in zip(self._rooms, addresses, strict=True):
            room[0] = address
            self._set(self._operation, attribute, at, room.nbytes)


def set_attribute(api: Any, operation: int, name: str, value: int) -> None:
    """Set an attribute of an operation by its name in the bindings."""
    attribute = api.MatmulDescAttribute[name]
    given = np.array([value], api.get_matmul_desc_attribute_dtype(attribute))
    api.matmul_desc_set_attribute(operation, attribute, given.ctypes.data, given.nbytes)
