"""Which slice of a pass an address was in, where many shared a block, against a plain search."""

from __future__ import annotations

import random

import pytest

from lowgraph.capture.records import Sized
from lowgraph.debug.known_memory import _Taken

pytestmark = pytest.mark.host


def plainly(taken: list[Sized], address: int, launches: int) -> Sized | None:
    """The latest slice that covers the address, one looked at after the other."""
    for one in reversed(taken):
        nbytes = one.sizes[0]
        assert isinstance(nbytes, int)
        if one.after <= launches and one.address <= address < one.address + nbytes:
            return one
    return None


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_latest_that_covers_the_address(seed: int) -> None:
    draw = random.Random(seed)
    taken = [
        Sized("slice", f"s{n}", (draw.randint(1, 8),), "", n // 2, 100 + draw.randint(0, 24))
        for n in range(draw.randint(1, 40))
    ]
    others = [Sized("product", "p", (2, 3, 4), "", 0), Sized("call", "c", ("c",), "", 0)]
    found = _Taken([*others, *taken])
    for address in range(98, 136):
        for launches in range(-1, 22):
            assert found.at(address, launches) is plainly(taken, address, launches)


def test_a_pass_that_took_nothing_has_no_answer() -> None:
    assert _Taken([]).at(100, 3) is None
