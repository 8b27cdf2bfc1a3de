"""The doctor over the embedding examples: what they declare, close and hand out is no finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowgraph.driver import Device
from tests.doctor.kit import run_doctor

pytestmark = pytest.mark.both

# What else an example imports, by its name.
SOUND = {"1_raw_kernel.py": "numpy", "3_pytorch_pin.py": "torch", "6_foreign_capture.py": "numpy"}


@pytest.mark.parametrize("name", SOUND)
def test_nothing_is_found_in_an_example(device: Device, tmp_path: Path, name: str) -> None:
    pytest.importorskip(SOUND[name])
    script = f"examples/embedding/{name}"
    done = run_doctor(tmp_path, script, device.spec, flags=("--bisect", "--quiet"))
    assert done.code == 0 and done.report["findings"] == 0, done.out + done.err
    assert done.report["captures"] and not done.report["notes"]


def test_a_part_in_a_capture_of_others_is_told(device: Device, tmp_path: Path) -> None:
    """Their capture, too, where the device tells of it: on a GPU nothing below us does."""
    script = "examples/embedding/6_foreign_capture.py"
    done = run_doctor(tmp_path, script, device.spec, flags=("--quiet",))
    (part,) = done.of("captures", "part")
    assert (part["by"], part["outcome"], part["nodes"]) == ("lowgraph", "joined", {"kernel": 1})
    assert f"'part': 1 node: 1 kernel; added to a capture of others at {script}:" in done.out
