"""The bench on the rig's device, closed at the test's end; with a stand-in for cublasLt, too."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.blas.bench import Bench
from tests.blas.fake_cublas import FakeCublasLt
from tests.support.rig import Rig


@pytest.fixture
def bench(rig: Rig) -> Iterator[Bench]:
    made = Bench(rig)
    yield made
    made.close()


@pytest.fixture
def fake(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> FakeCublasLt:
    made = FakeCublasLt(rig.library)
    monkeypatch.setitem(sys.modules, "nvmath.bindings.cublasLt", made)
    monkeypatch.setattr(rig.device, "blas_backend", "cublas", raising=False)
    return made


@pytest.fixture
def faked(rig: Rig, fake: FakeCublasLt) -> Iterator[Bench]:
    made = Bench(rig)
    yield made
    made.close()
    assert fake.calls.count("create") == fake.calls.count("destroy") >= 1
    assert fake.alive == {}, "every descriptor is destroyed"
