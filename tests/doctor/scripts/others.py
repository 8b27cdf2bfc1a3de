"""Captures that lowgraph has no part in: a good one, and one for each thing that can go wrong."""

from __future__ import annotations

import ctypes

from cuda.bindings import driver as cu
from parts import N, begin, end, raw, raw_add, stream, y

begin()
raw_add(stream)
assert end() == 0  # good

begin()
raw_add(stream)
assert int(cu.cuMemAlloc(256)[0]) == 900  # BREAKS
assert raw_add(stream) == 901  # REFUSED
assert raw_add(stream) == 901
assert end() == 901

begin()
raw_add(stream)
assert raw_add(0) == 0  # ELSEWHERE
raw("cuMemsetD8", y.address, 0, N)  # AT ONCE
assert end() == 0

begin("RELAXED")
raw_add(stream)
code, block = cu.cuMemAlloc(256)  # LET THROUGH
assert end() == 0
cu.cuMemFree(block)

begin()
code, block = cu.cuMemAllocAsync(256, stream)
assert end() == 0  # a graph with an allocation

begin()
raw_add(stream)
library = ctypes.CDLL("libcuda.so.1")  # as a C library does it
assert library.cuCtxSynchronize() == 900  # IN C
assert end() == 901
