"""Kernels that begin with grid_wait(): found in their source, launched so, compiled in order."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lowgraph.driver import overlap
from lowgraph.driver.launch import LaunchConfig
from lowgraph.errors import ConfigError, KernelSourceError
from lowgraph.kernels import Kernel, Library, source
from lowgraph.kernels.signature import kernel_names, read_signature
from tests.support.process import ROOT
from tests.support.rig import Rig

# Those that do not wait, and why: nothing follows on set_condition but its own node.
PLAIN = {("conditional.cu", "set_condition")}
HEAD = '#include "common/grid_wait.cuh"\n'
K = 'extern "C" __global__ void k(float* y, const float* __restrict__ x, int n)'
STORE = "if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] + 1.0f;"


def waits(tmp_path: Path, text: str) -> bool:
    path = tmp_path / "source.cu"
    path.write_text(text)
    return read_signature(path, "k").waits


@pytest.mark.parametrize(
    "text",
    [
        f"{K} {{ grid_wait(); {STORE} }}",
        f"{K}\n{{\n    // ahead of all\n    grid_wait ( ) ;\n    {STORE}\n}}\n",
        f"{K};\n{K} {{ /* grid_wait(); twice */ grid_wait(); {STORE} }}",
        f'{K} {{ grid_wait(); printf("}} grid_wait("); {STORE} }}',
        f"{K} {{ grid_wait(); {STORE} }}\n{K.replace(' k(', ' other(')} {{ {STORE} }}",
    ],
)
def test_a_body_that_begins_with_the_wait_is_found(tmp_path: Path, text: str) -> None:
    assert waits(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        f"{K} {{ {STORE} }}",
        f"{K};",
        f"{K} {{ grid_waits(); {STORE} }}",
        f"{K} {{ // grid_wait();\n {STORE} }}",
        f'{K} {{ printf("grid_wait();"); {STORE} }}',
        f"__device__ void grid_wait();\n{K} {{ {STORE} }}\n"
        f"{K.replace(' k(', ' other(')} {{ grid_wait(); {STORE} }}",
    ],
)
def test_one_without_it_is_not(tmp_path: Path, text: str) -> None:
    assert not waits(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "how"),
    [
        (f"{K} {{ int i = threadIdx.x; grid_wait(); {STORE} }}", "does not stand first"),
        (f"{K} {{ if (n == 0) return; grid_wait(); {STORE} }}", "does not stand first"),
        (f"{K} {{ if (n) {{ grid_wait(); }} {STORE} }}", "does not stand first"),
        (f"{K} {{ grid_wait(); {STORE} grid_wait(); }}", "stands twice"),
        (f"{K}\n{{\n#ifdef FAST\n    grid_wait();\n#endif\n    {STORE}\n}}", "preprocessor line"),
    ],
)
def test_a_wait_elsewhere_is_refused(tmp_path: Path, text: str, how: str) -> None:
    told = rf"source\.cu:1: kernel k: grid_wait\(\) .*{how}: make `grid_wait\(\);` the kernel's f"
    with pytest.raises(KernelSourceError, match=told):
        waits(tmp_path, text)


def own_kernels() -> Iterator[tuple[Path, str]]:
    for path in sorted(source.kernels_folder().glob("*.cu")):
        yield from ((path, name) for name in kernel_names(path))


def test_every_kernel_of_lowgraph_waits_but_those_named_here() -> None:
    plain = {(path.name, name) for path, name in own_kernels()
             if not read_signature(path, name).waits}  # fmt: skip
    assert plain == PLAIN


def test_the_header_stands_ahead_of_all_that_kernels_are_made_of() -> None:
    """Below it __restrict__ is nothing on a GPU that overlaps; a line above it would keep it."""
    for path in sorted({path for path, name in own_kernels() if read_signature(path, name).waits}):
        text = path.read_text()
        head, found, _ = text.partition(HEAD.strip())
        assert found, f"{path.name} does not include it"
        code = [line for line in head.splitlines() if line and not line.startswith("//")]
        ahead = [line for line in code if line.startswith('#include "') or line[0] != "#"]
        assert not ahead, f"{path.name}: {ahead}"
        assert not re.search(r"\b__ldg\b|\bld\.global", text), path.name


@pytest.mark.parametrize(
    ("told", "capability", "on"),
    [
        (None, (9, 0), True),
        (None, (8, 9), False),
        ("1", (10, 0), True),
        ("", (9, 0), True),
        ("0", (9, 0), False),
        ("1", (8, 0), False),
    ],
)
def test_what_the_device_and_the_environment_say(
    monkeypatch: pytest.MonkeyPatch, told: str | None, capability: tuple[int, int], on: bool
) -> None:
    monkeypatch.delenv("LOWGRAPH_OVERLAP", raising=False)
    if told is not None:
        monkeypatch.setenv("LOWGRAPH_OVERLAP", told)
    assert overlap.is_on(capability) is on


def test_another_word_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWGRAPH_OVERLAP", "off")
    with pytest.raises(ConfigError, match=r"\$LOWGRAPH_OVERLAP is 'off': give 0 for"):
        overlap.is_on((9, 0))


CLUSTER = "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION"
OVERLAP = "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION"


def attributes(config: LaunchConfig) -> list[str]:
    assert config.raw.numAttrs == len(config.raw.attrs)
    return [attribute.id.name for attribute in config.raw.attrs]


@pytest.mark.parametrize("cluster", [None, (2, 1, 1)])
@pytest.mark.parametrize("overlaps", [False, True])
def test_a_launch_has_the_attributes_asked_for(
    cluster: tuple[int, int, int] | None, overlaps: bool
) -> None:
    config = LaunchConfig(1, 4, 128, cluster=cluster, overlaps=overlaps)
    assert attributes(config) == [CLUSTER] * (cluster is not None) + [OVERLAP] * overlaps
    for attribute in config.raw.attrs:
        value = attribute.value
        if attribute.id.name == OVERLAP:
            assert value.programmaticStreamSerializationAllowed == 1
        else:
            assert (value.clusterDim.x, value.clusterDim.y, value.clusterDim.z) == cluster
    config.set(2, 5, 64)
    assert attributes(config) == [CLUSTER] * (cluster is not None) + [OVERLAP] * overlaps


def increment(rig: Rig, tmp_path: Path, first: str) -> Kernel:
    path = tmp_path / "own.cu"
    path.write_text(f"{HEAD}{K} {{ {first} {STORE} }}\n")
    return Library(rig.device).kernel(path, "k")


@pytest.mark.parametrize("first", ["", "grid_wait();"])
@pytest.mark.parametrize("overlaps", [False, True])
def test_only_a_kernel_that_waits_is_launched_early_and_only_where_the_device_does(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, overlaps: bool
) -> None:
    monkeypatch.setattr(rig.device, "overlaps", overlaps)
    kernel = increment(rig, tmp_path, first)
    assert attributes(kernel._config) == [OVERLAP] * (overlaps and bool(first))
    x, y = rig.put(np.arange(33, dtype=np.float32)), rig.put(np.full(33, np.nan, np.float32))
    for _ in range(3):
        kernel(rig.stream, 1, 64, y, x, 33)
        kernel(rig.stream, 1, 64, x, y, 33)
    assert rig.get(x).tolist() == [n + 6.0 for n in range(33)]


@pytest.mark.host
def test_the_host_device_launches_one_behind_the_other(rig: Rig) -> None:
    assert rig.device.overlaps is False
    assert rig.device.compute_capability >= (9, 0), "it is not for its age"


def test_an_image_may_hold_code_without_the_wait(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its source says that it waits; PTX for an earlier GPU would not."""
    monkeypatch.setattr(rig.device, "overlaps", True)
    increment(rig, tmp_path, "grid_wait();")
    library = Library(rig.device)
    image = library.load(library.compiled(tmp_path / "own.cu"))
    kernel = image.kernel("k", source=tmp_path / "own.cu")
    assert isinstance(kernel, Kernel) and kernel.signature.waits
    assert attributes(kernel._config) == []


def compile_tool(path: Path, arch: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "tools/compile_kernels.py", "--arch", arch, str(path)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("head", "arch", "wrong"),
    [
        (HEAD, "sm_90", ""),
        (f"{HEAD}#undef __restrict__\n", "sm_90", "kernel k reads through the read-only cache"),
        (f"{HEAD}#undef __restrict__\n", "sm_80", ""),
        ("__device__ void grid_wait() {}\n", "sm_90", "kernel k has no griddepcontrol.wait"),
        (
            "__device__ int early;\n__device__ void grid_wait() {\n#if __CUDA_ARCH__ >= 900\n"
            'early = 1; asm volatile("griddepcontrol.wait;" ::: "memory");\n#endif\n}\n',
            "sm_90",
            "kernel k: st.global.u32 stands ahead of griddepcontrol.wait",
        ),
    ],
)
def test_the_tool_sees_what_the_wait_became(
    tmp_path: Path, head: str, arch: str, wrong: str
) -> None:
    path = tmp_path / "own.cu"
    path.write_text(f"{head}{K} {{ grid_wait(); {STORE} }}\n")
    done = compile_tool(path, arch)
    assert done.returncode == (1 if wrong else 0), done.stdout + done.stderr
    assert wrong in done.stderr
