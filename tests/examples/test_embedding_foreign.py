"""The numbered examples of embedding that work with other libraries run, and say what they show."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.support.process import ROOT, words_of

FOLDER = ROOT / "examples" / "embedding"


def has_cuda() -> bool:
    import torch

    return bool(torch.cuda.is_available())


def lines_of(name: str, spec: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", FOLDER / name, spec], cwd=ROOT, capture_output=True,
        text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert words_of(done.stderr) == ""
    return done.stdout.splitlines()


@pytest.mark.both
def test_pytorchs_moving_optimizer_is_refused_and_then_pinned(
    request: pytest.FixtureRequest,
) -> None:
    if find_spec("torch") is None:  # not imported here: the example does that
        pytest.skip("the oracle extra is not installed")
    spec = request.config.getoption("--device")
    if spec.startswith("cuda") and not has_cuda():
        pytest.skip("this PyTorch has no CUDA")
    refused, *report = lines_of("3_pytorch_pin.py", spec)
    assert re.match(
        r"refused: \S+3_pytorch_pin.py:\d+: input 'w' of 'step' moved \(address\)", refused
    )
    assert "nothing was launched" in refused and "CopyIn" in refused
    assert "  steps 20: 1 eager, 19 replayed" in report
    assert any("copy-in pin 'w': pin=1 launch, 64 bytes copied a replay" in one for one in report)


@pytest.mark.both
def test_a_foreign_capture_is_joined_and_looked_into(request: pytest.FixtureRequest) -> None:
    spec = request.config.getoption("--device")
    joined, form, *rest = lines_of("6_foreign_capture.py", spec)
    assert joined == "joined: 1 node (1 kernel)"
    assert form.startswith("graph 'theirs' on ") and "2 nodes" in form
    assert any("kernel leaky_sum" in one and "perhaps y" in one for one in rest)
    assert "(kernel leaky_sum): argument 1 = 0x" in rest[-1]
    assert "was byte 0 of 'x'" in rest[-1] and "held by part" in rest[-1]


@pytest.mark.gpu
def test_cupys_operations_are_in_the_graph(request: pytest.FixtureRequest) -> None:
    pytest.importorskip("cupy")
    said = lines_of("2_cupy_window.py", request.config.getoption("--device"))
    assert "  steps 10: 1 eager, 9 replayed" in said
    assert said[-1].startswith("loss ") and float(said[-1].split()[1]) > 0


@pytest.mark.host
def test_cupy_without_a_gpu_is_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", FOLDER / "2_cupy_window.py", "host"], cwd=ROOT,
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 2 and words_of(done.stderr).count("\n") == 1
    assert "it is not on a GPU" in done.stderr


@pytest.mark.parametrize("number", [2, 3, 6])
def test_each_is_short(number: int) -> None:
    (script,) = FOLDER.glob(f"{number}_*.py")
    assert len(script.read_text(encoding="utf-8").splitlines()) < 60
