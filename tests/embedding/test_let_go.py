"""How takers let go of a slice's memory: with an error under way, without a word, after Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lowgraph.capture import CopyIn
from lowgraph.interop import ordered
from lowgraph.memory import dlpack, memory_report
from tests.embedding.small import N, Small
from tests.support.process import run_python, words_of

pytestmark = pytest.mark.both


def _capsule(piece: Any) -> object:
    return piece.__dlpack__(max_version=(1, 0))


def _old_capsule(piece: Any) -> object:
    return piece.__dlpack__()


def _array(piece: Any) -> Any:
    return np.from_dlpack(piece)


def _tensor(piece: Any) -> Any:
    return pytest.importorskip("torch").from_dlpack(piece)


def _old_tensor(piece: Any) -> Any:
    return pytest.importorskip("torch").utils.dlpack.from_dlpack(piece.__dlpack__())


host = pytest.mark.host
TAKERS = [_capsule, _old_capsule, pytest.param(_array, marks=host),
          pytest.param(_tensor, marks=host), pytest.param(_old_tensor, marks=host)]  # fmt: skip


@pytest.mark.parametrize("take", TAKERS)
def test_an_error_under_way_is_not_lost(small: Small, take: Callable[[Any], Any]) -> None:
    piece = small.pool.take("piece", N)

    missing: dict[str, str] = {}

    def never(array: Any, text: str) -> None:
        raise AssertionError

    with pytest.raises(KeyError, match="the user's own"):
        never(take(piece), missing["the user's own"])  # the array is dropped with the error set
    small.pool.give_back(piece)
    assert small.pool.stats().retained == 0, "and it was let go of"


def test_an_array_is_over_once(small: Small) -> None:
    piece = small.pool.take("piece", N)
    lent = dlpack.lend(piece.address, piece.shape, piece.dtype, (1, 0), versioned=True)
    kept = lent.capsule
    assert not lent.is_over()
    del kept
    assert lent.is_over() and lent.is_over() and lent.capsule is None


@pytest.mark.parametrize("name", [b"dltensor", b"dltensor_versioned"])
@pytest.mark.parametrize("address", [0, 1, 0xFFFF_FF00, 0x7FFF_0000_1000, 0x7FFF_FFFF_FFFF])
def test_a_taker_holds_it_until_it_calls_the_deleter(name: bytes, address: int) -> None:
    versioned = name.endswith(b"versioned")
    lent = dlpack.lend(address, (4,), np.dtype("u1"), (1, 0), versioned=versioned)
    pointer = dlpack._pointer(lent.capsule, name)
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes, used = [ctypes.py_object, ctypes.c_char_p], b"used_" + name
    rename(lent.capsule, used)
    assert not lent.is_over() and lent.capsule is None, "the capsule is gone, the memory is not"
    managed = dlpack._LAYOUTS[name].from_address(pointer)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)(pointer)
    assert lent.is_over()


@pytest.mark.host
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_an_array_that_outlives_python_is_let_go_of_in_peace(library: str) -> None:
    pytest.importorskip(library)
    done = run_python(f"""
import sys, builtins, {library}
from lowgraph import PersistentPool, open_device
pool = PersistentPool(open_device("host"))
sys.kept = {library}.from_dlpack(pool.take("x", 10))
builtins.kept = {library}.from_dlpack(pool.take("y", 10)), pool.take("z", 10).__dlpack__()
print("done")
""")
    assert (done.returncode, done.stdout, words_of(done.stderr)) == (0, "done\n", "")


def test_arrays_that_are_made_at_each_replay_are_settled_on_the_way(small: Small) -> None:
    piece = small.put("piece", 1)
    step = small.over(pin := CopyIn("x", lambda: ordered(piece, small.stream)), pins=[pin])
    for _ in range(300):
        step()
    assert len(small.pool._loans) < 150  # before the report, which looks at the pool
    assert step.report().replays > 290


def test_settling_goes_on_where_all_are_still_held(small: Small) -> None:
    piece = small.put("piece", 1)
    kept = [piece.__dlpack__() for _ in range(200)]
    small.pool.give_back(piece)
    assert small.pool.stats().retained == 4096 and len(small.pool._loans) == 200
    shares = {(share.kind, share.name) for share in memory_report(small.pool).shares}
    assert ("graph", "an array over 'piece'") in shares, "named once"
    del kept[1:]
    assert small.pool.stats().retained == 4096 and len(small.pool._loans) == 1
    kept.clear()
    assert small.pool.stats().retained == 0
