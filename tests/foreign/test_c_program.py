"""Plain C programs, linked with libcuda.so.1, run on either device: one captures, replays and
updates, one builds a graph and edits its executable."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowgraph.driver import Device
from tests.foreign import programs

pytestmark = pytest.mark.both

SAYS = """\
captured: 3 nodes
3 replays: y = 6 x
updated: a = 5
3 replays: y = 21 x
refused: code 910, reason 2
1 replays: y = 26 x
ok
"""  # 910 GRAPH_EXEC_UPDATE_FAILURE, 2 TOPOLOGY_CHANGED: recorded on an H200


BY_HAND = Path(__file__).with_name("by_hand.c")
# x = 3 and y = x * x + a * x with a = 2; a = 4; without the product; x = 2; y = x + a * x.
BY_HAND_SAYS = """\
waits blocked: yes
as built: y = 15
another factor: y = 21
without the kernel: y = 9
another x: y = 12
another source: y = 10
host functions: 3 and 2
kept: yes
ok
"""


@pytest.fixture(scope="module")
def image(device: Device, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("c") / "capture.image"
    path.write_bytes(programs.image_of(device, programs.EXAMPLE.with_suffix(".cu")))
    return path


@pytest.mark.parametrize("define", [(), ("-DCUDA_API_PER_THREAD_DEFAULT_STREAM",)])
def test_the_example_runs(
    device: Device, image: Path, tmp_path: Path, define: tuple[str, ...]
) -> None:
    """With per-thread default streams it is linked to other symbols (cuLaunchKernel_ptsz)."""
    program = programs.build(device, programs.EXAMPLE, tmp_path / "capture", *define)
    done = programs.run_program(program, image)
    assert done.returncode == 0, done.stderr
    title, said = done.stdout.split("\n", 1)
    assert title == f"device: {device.title}"
    assert said == SAYS


@pytest.mark.parametrize("define", [(), ("-DCUDA_API_PER_THREAD_DEFAULT_STREAM",)])
def test_a_graph_is_built_node_by_node_and_edited(
    device: Device, image: Path, tmp_path: Path, define: tuple[str, ...]
) -> None:
    program = programs.build(device, BY_HAND, tmp_path / "by_hand", *define)
    done = programs.run_program(program, image)
    assert done.returncode == 0, done.stderr
    assert done.stdout == BY_HAND_SAYS


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (None, "301 CUDA_ERROR_FILE_NOT_FOUND"),
        (b"hello, this is not an image" + bytes(200), "200 CUDA_ERROR_INVALID_IMAGE"),
    ],
)
def test_it_names_the_call_that_failed(
    device: Device, tmp_path: Path, content: bytes | None, code: str
) -> None:
    program = programs.build(device, programs.EXAMPLE, tmp_path / "capture")
    other = tmp_path / "other.image"
    if content is not None:
        other.write_bytes(content)
    done = programs.run_program(program, other)
    assert done.returncode == 1
    assert f"cuModuleLoad(&module, argv[1]) gives {code}" in done.stderr
