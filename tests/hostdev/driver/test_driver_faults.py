"""Addresses that are not a kernel's: the code, the text that names them, and what goes on.

Each case breaks the context, so it runs in a process of its own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lowgraph.driver import Device
from tests.support.process import output_of

pytestmark = pytest.mark.host

SETUP = """
import ctypes, sys
from pathlib import Path
from cuda.bindings import driver as cu
from lowgraph.driver import open_device
from lowgraph.hostdev import control
from lowgraph.hostdev.control import FREE, GONE, LIVE
from tests.hostdev.driver.kit import Kit, must, pointer

kit = Kit(open_device("host"), Path({image!r}).read_bytes())
f32, i64 = ctypes.c_float, ctypes.c_longlong
slab = kit.alloc(8 * 4096)

def poke(address, index=0, value=1.0):
    kit.launch("poke", pointer(address), i64(index), f32(value))
    print(int(cu.cuCtxSynchronize()[0]))

def peek(address):
    kit.launch("peek", pointer(slab), pointer(address), i64(0))
    print(int(cu.cuCtxSynchronize()[0]))
"""


@pytest.fixture(scope="session")
def image_file(driver_image: bytes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("image") / "kernels.img"
    path.write_bytes(driver_image)
    return path


def run(image_file: Path, body: str) -> list[str]:
    ending = "\nprint(control.fault_text())\nprint(int(cu.cuMemAlloc(4)[0]))\n"
    code = SETUP.format(image=str(image_file)) + body + ending
    return output_of(code).splitlines()


def expect_fault(lines: list[str], *parts: str) -> None:
    assert lines[-3] == "700"
    assert lines[-1] == "700", "the error must be sticky"
    for part in parts:
        assert part in lines[-2]


def test_one_element_past_the_guarded_end(device: Device, image_file: Path) -> None:
    lines = run(image_file, "x = kit.alloc(4096)\npoke(x, 1024)")
    expect_fault(lines, "kernel 'poke'", "just past the end of the allocation (4096 bytes at 0x")


def test_the_last_slice_of_an_allocation_is_named(device: Device, image_file: Path) -> None:
    body = "control.annotate(slab + 4096, 7 * 4096, LIVE, 'logits')\npoke(slab, 8 * 1024 + 97)"
    expect_fault(run(image_file, body), "388 bytes past the end of slice 'logits' (28672 bytes at")


def test_a_write_into_the_slack_behind_an_allocation(device: Device, image_file: Path) -> None:
    lines = run(image_file, "x = kit.alloc(1000)\npoke(x, 250)")
    expect_fault(lines, "kernel 'poke' wrote past the end", "the allocation (1000 bytes at 0x")


@pytest.mark.parametrize("past", [0, 1, 3, 10, 18, 26])  # in front of, in and behind whole words
def test_any_byte_of_the_slack_is_looked_at(device: Device, image_file: Path, past: int) -> None:
    body = (
        f"x = kit.alloc(997)\nctypes.c_ubyte.from_address(x + 997 + {past}).value ^= 0x40\n"
        "print(int(cu.cuCtxSynchronize()[0]))"
    )
    place = f"{past} byte{'s' * (past > 1)} past the end" if past else "just past the end"
    expect_fault(run(image_file, body), place, "the allocation (997 bytes at 0x")


def test_a_write_into_the_slack_behind_a_slice(device: Device, image_file: Path) -> None:
    body = (
        "control.annotate(slab, 100, LIVE, 'bias')\n"
        "control.annotate(slab + 256, 100, LIVE, 'weight')\npoke(slab, 26)"
    )
    expect_fault(run(image_file, body), "4 bytes past the end of slice 'bias' (100 bytes at 0x")


def test_a_write_before_an_allocation_shows_at_a_synchronize(
    device: Device, image_file: Path
) -> None:
    lines = run(image_file, "x = kit.alloc(1000)\npoke(x, -2)")
    expect_fault(lines, "wrote before its memory", "8 bytes before the allocation (1000 bytes")


@pytest.mark.parametrize("access", ["poke", "peek"])
def test_memory_that_was_freed(device: Device, image_file: Path, access: str) -> None:
    lines = run(image_file, f"x = kit.alloc(1000)\nmust(cu.cuMemFree(x))\n{access}(x)")
    expect_fault(lines, "allocation (1000 bytes at", "which was freed")


@pytest.mark.parametrize("access", ["poke", "peek"])
def test_a_freed_slice_of_whole_pages(device: Device, image_file: Path, access: str) -> None:
    body = f"""
start = (slab + 4095) // 4096 * 4096
control.annotate(start, 8192, LIVE, "hidden")
control.annotate(start, 8192, FREE, "hidden")
{access}(start + 4096)
"""
    expect_fault(run(image_file, body), "4096 bytes into slice 'hidden'", "which was freed")


def test_a_write_into_a_freed_slice_that_shares_its_page(device: Device, image_file: Path) -> None:
    body = "control.annotate(slab, 512, FREE, 'mean')\npoke(slab, 3)"
    expect_fault(run(image_file, body), "wrote into freed memory: 12 bytes into slice 'mean'")


def test_a_copy_into_a_freed_slice(device: Device, image_file: Path) -> None:
    body = """
control.annotate(slab, 8192, FREE, "cache")
must(cu.cuMemsetD8Async(slab + 100, 0, 16, 0))
print(int(cu.cuCtxSynchronize()[0]))
"""
    expect_fault(run(image_file, body), "a memset writes 100 bytes into slice 'cache'")


def test_a_slice_is_freed_in_the_order_of_the_work(device: Device, image_file: Path) -> None:
    """Work issued before a slice was given back may still use it, work issued later may not."""
    body = """
stream = kit.stream()
control.annotate(slab, 8192, LIVE, "early")
with kit.held(stream):
    kit.launch("poke", pointer(slab), i64(0), f32(1), stream=stream)
    control.annotate(slab, 8192, FREE, "early")
print(int(cu.cuCtxSynchronize()[0]))
control.annotate(slab, 8192, LIVE, "late")
poke(slab)
control.annotate(slab, 8192, FREE, "late")
poke(slab, 1030)
"""
    lines = run(image_file, body)
    assert lines[:2] == ["0", "0"]
    expect_fault(lines, "slice 'late'", "which was freed")


def test_a_freed_slice_that_lives_again_holds_nan(device: Device, image_file: Path) -> None:
    body = """
must(cu.cuMemsetD8(slab, 0, 8192))
control.annotate(slab, 8192, FREE, "old")
control.annotate(slab, 8192, LIVE, "new")
print(kit.get(slab + 4, 1), kit.get(slab + 8000, 1))
must(cu.cuMemFree(slab))
peek(slab)
"""
    assert run(image_file, body)[0] == "[nan] [nan]"


@pytest.mark.parametrize(
    "call", ["cuMemcpyHtoD(slab, gone, 64)", "cuMemcpyHtoDAsync(slab, gone, 64, 0)"]
)
def test_freed_memory_that_a_copy_takes_for_the_hosts_ends_no_process(
    device: Device, image_file: Path, call: str
) -> None:
    """It is not staged, as pageable memory is, by a read of our own."""
    body = f"""
gone = int(must(cu.cuMemAlloc(4096)))
must(cu.cuMemFree(gone))
cu.{call}
print(int(cu.cuCtxSynchronize()[0]))
"""
    expect_fault(run(image_file, body), "a copy reads", "which was freed")


def test_a_null_pointer(device: Device, image_file: Path) -> None:
    expect_fault(run(image_file, "poke(0, 3)"), "kernel 'poke'", "null pointer (address 0xc)")


def test_work_behind_a_fault_does_not_run_and_waiting_ends(
    device: Device, image_file: Path
) -> None:
    body = """
other, ran = kit.stream(), []
kit.launch("poke", pointer(0), i64(0), f32(0), stream=other)
kit.call_host(other, lambda: ran.append(1))
print(int(cu.cuStreamSynchronize(other)[0]), ran)
print(int(cu.cuStreamQuery(other)[0]), int(cu.cuMemFree(slab)[0]), int(cu.cuCtxSynchronize()[0]))
"""
    lines = run(image_file, body)
    assert lines[0] == "700 []"
    assert lines[1] == "700 700 700"


def test_a_reset_of_the_context_gives_a_clean_one(device: Device, image_file: Path) -> None:
    body = """
poke(0)
must(cu.cuDevicePrimaryCtxReset(0))
print(int(cu.cuMemAlloc(4)[0]))
context = must(cu.cuDevicePrimaryCtxRetain(0))
must(cu.cuCtxSetCurrent(context))
print(int(cu.cuMemAlloc(4)[0]), repr(control.fault_text()))
"""
    lines = run(image_file, body)
    assert lines[:3] == ["700", "709", "0 ''"]
