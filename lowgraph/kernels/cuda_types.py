"""CUDA C type names as NumPy element types and struct letters."""

from __future__ import annotations

from typing import Any

import numpy as np

# type -> (NumPy name, struct letter); sizes are those of the LP64 model that nvcc and Linux share.
_NUMBERS: dict[str, tuple[str, str]] = {
    "float": ("float32", "f"),
    "double": ("float64", "d"),
    "__half": ("float16", "e"),
    "bool": ("bool", "?"),
    "char": ("int8", "b"),
    "signed char": ("int8", "b"),
    "unsigned char": ("uint8", "B"),
    "short": ("int16", "h"),
    "unsigned short": ("uint16", "H"),
    "int": ("int32", "i"),
    "unsigned int": ("uint32", "I"),
    "long": ("int64", "q"),
    "unsigned long": ("uint64", "Q"),
    # NumPy has no bfloat16: its bits travel as uint16.
    "__nv_bfloat16": ("uint16", "H"),
}

_ALIASES = {
    "half": "__half",
    "nv_bfloat16": "__nv_bfloat16",
    "unsigned": "unsigned int",
    "uint": "unsigned int",
    "signed": "int",
    "signed int": "int",
    "uchar": "unsigned char",
    "short int": "short",
    "unsigned short int": "unsigned short",
    "long int": "long",
    "long long": "long",
    "long long int": "long",
    "unsigned long int": "unsigned long",
    "unsigned long long": "unsigned long",
    "unsigned long long int": "unsigned long",
    "size_t": "unsigned long",
    "cudaGraphConditionalHandle": "unsigned long",
    "ptrdiff_t": "long",
    "int8_t": "signed char",
    "uint8_t": "unsigned char",
    "int16_t": "short",
    "uint16_t": "unsigned short",
    "int32_t": "int",
    "uint32_t": "unsigned int",
    "int64_t": "long",
    "uint64_t": "unsigned long",
}

# Packed types, as pointees only: their elements' type.
_VECTORS = {
    **{f"float{n}": "float" for n in "234"},
    **{f"double{n}": "double" for n in "24"},
    **{f"int{n}": "int" for n in "234"},
    **{f"uint{n}": "unsigned int" for n in "234"},
    **{f"uchar{n}": "unsigned char" for n in "24"},
    "__half2": "__half",
    "half2": "__half",
    "__nv_bfloat162": "__nv_bfloat16",
}


def element(base: str, stars: int) -> tuple[np.dtype[Any] | None, str]:
    """Return (element type, struct letter) of a parameter of type `base` with `stars` pointers.

    A pointer's letter is that of an address. Its element type is None for void and for a struct,
    which nothing can be checked against. Raises KeyError for a value that is no number.
    """
    name = _canonical(base.removeprefix("std::"))
    if stars == 0:
        numpy_name, letter = _NUMBERS[name]
        return np.dtype(numpy_name), letter
    if stars > 1:  # a table of addresses
        return np.dtype("uint64"), "Q"
    number = _NUMBERS.get(_VECTORS.get(name, name))
    return (None if number is None else np.dtype(number[0])), "Q"


def _canonical(name: str) -> str:
    """Return the type's one name, whatever the order of its words ("int unsigned")."""
    words = name.split()
    ordered = sorted(words, key=_word_rank)
    joined = " ".join(ordered)
    return _ALIASES.get(joined, joined)


def _word_rank(word: str) -> int:
    order = ("signed", "unsigned", "short", "long", "char", "int")
    return order.index(word) if word in order else -1
