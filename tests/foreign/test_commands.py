"""`python -m lowgraph compile` and `host-library`: what they print, write and refuse."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lowgraph.cli import main
from lowgraph.driver import Device
from lowgraph.hostdev import build
from tests.foreign import programs

SOURCE = programs.EXAMPLE.with_suffix(".cu")
CUDA_MACHINE = 190  # e_machine of a cubin

pytestmark = pytest.mark.host


def test_a_kernel_becomes_an_image_for_the_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = tmp_path / "k.image"
    assert main(["compile", str(SOURCE), "-o", str(image)]) == 0
    assert b"lowgraph_kernel_add_scaled" in image.read_bytes()
    assert capsys.readouterr().out == f"{image}: {image.stat().st_size} bytes for host\n"
    assert [path.name for path in tmp_path.iterdir()] == ["k.image"]


def test_the_image_is_an_ordinary_file(tmp_path: Path) -> None:
    """Other users' programs load it: only they whom the mask leaves out may not."""
    image = tmp_path / "k.image"
    before = os.umask(0o022)
    try:
        assert main(["compile", str(SOURCE), "-o", str(image)]) == 0
    finally:
        os.umask(before)
    assert image.stat().st_mode & 0o777 == 0o644


def test_a_kernel_becomes_a_cubin_for_a_gpu(tmp_path: Path) -> None:
    pytest.importorskip("nvidia.cuda_nvrtc", reason="NVRTC is not installed")
    image = tmp_path / "k.cubin"
    assert main(["compile", str(SOURCE), "-o", str(image), "--arch", "sm_90"]) == 0
    content = image.read_bytes()
    assert content[:4] == b"\x7fELF"
    assert int.from_bytes(content[18:20], "little") == CUDA_MACHINE


def test_macros_reach_the_compiler(tmp_path: Path) -> None:
    source, image = tmp_path / "k.cu", tmp_path / "k.image"
    source.write_text('extern "C" __global__ void NAME(int* out) { out[0] = FLAG; }\n')
    assert main(["compile", str(source), "-o", str(image), "-D", "NAME=named", "-DFLAG"]) == 0
    assert b"lowgraph_kernel_named" in image.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--arch", "ampere"], 2, "--arch ampere: must be host, or a GPU's such as sm_80"),
        (["-D", "1X=2"], 2, "-D 1X=2: must be NAME=VALUE"),
        (["-o", "{tmp}/no/k.image"], 2, "cannot write {tmp}/no/k.image: No such file"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    says: str,
) -> None:
    given = [text.format(tmp=tmp_path) for text in arguments]
    assert main(["compile", str(SOURCE), "-o", str(tmp_path / "k.image"), *given]) == code
    said = capsys.readouterr().err
    assert said.startswith("error: ") and says.format(tmp=tmp_path) in said
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_a_source_that_is_not_there_names_its_neighbours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = SOURCE.with_name("captur.cu")
    assert main(["compile", str(wrong), "-o", str(tmp_path / "k.image")]) == 2
    assert f"{wrong} does not exist; there are capture.cu" in capsys.readouterr().err
    assert main(["compile", str(tmp_path), "-o", str(tmp_path / "k.image")]) == 2
    assert f"{tmp_path} is no file" in capsys.readouterr().err


def test_a_source_that_cannot_be_compiled_names_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "k.cu"
    source.write_text('extern "C" __global__ void k(int* out) {\n    out[0] = nothing;\n}\n')
    assert main(["compile", str(source), "-o", str(tmp_path / "k.image")]) == 2
    assert "k.cu:2:" in capsys.readouterr().err


def test_the_library_is_where_the_command_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["host-library"]) == 0
    folder = Path(capsys.readouterr().out.rstrip("\n"))
    assert folder / "libcuda.so.1" == build.library()
    assert (folder / "libcuda.so").resolve() == build.library(), "for a linker's -lcuda"
    assert main(["host-library", "--flags"]) == 0
    flags = capsys.readouterr().out.split()
    assert flags[-3:] == [f"-L{folder}", "-lcuda", f"-Wl,--enable-new-dtags,-rpath,{folder}"]
    assert all(Path(flag[2:]).is_dir() for flag in flags[:-3])


FILES = {
    "cubin": (b"\x7fELF\x02\x01\x01\x33" + bytes(8) + b"\x02\x00\xbe\x00" + bytes(200), 209),
    "fatbin": (bytes.fromhex("50ed55ba01001000") + bytes(200), 209),
    "ptx": (b".version 8.8\n.target sm_90\n.address_size 64\n\0", 209),
    "text": (b"hello, this is not an image" + bytes(100), 200),
    "empty": (b"", 200),
}


@pytest.mark.parametrize("kind", FILES)
def test_files_for_a_gpu_are_refused(device: Device, tmp_path: Path, kind: str) -> None:
    """By the module and the library calls alike, and so is a file that is not there."""
    from cuda.bindings import driver as cu

    content, code = FILES[kind]
    path = tmp_path / kind
    path.write_bytes(content)
    name = str(path).encode()
    assert int(cu.cuModuleLoad(name)[0]) == code
    assert int(cu.cuLibraryLoadFromFile(name, [], [], 0, [], [], 0)[0]) == code
    path.unlink()
    assert int(cu.cuModuleLoad(name)[0]) == 301
    assert int(cu.cuLibraryLoadFromFile(name, [], [], 0, [], [], 0)[0]) == 301


def test_the_pages_commands_work(device: Device, tmp_path: Path) -> None:
    """The lines of docs/host-programs.md for the host device, as a shell runs them."""
    if shutil.which("cc") is None:
        pytest.skip("the page says cc, which is not here")
    page = (programs.ROOT / "docs" / "host-programs.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if "capture" in line and "cubin" not in line]
    commands = [
        line
        for line in lines
        if line.startswith(("python -m", "cc ", "./", "LD_LIBRARY_PATH"))
        and "/usr/local" not in line
        and "cuda_core" not in line
    ]
    assert len(commands) == 6, commands
    script = "\n".join(["set -e", *commands]).replace("examples/", f"{programs.ROOT}/examples/")
    python = programs.python_first(tmp_path)
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env=python, capture_output=True, text=True,
        check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\nok\n") == 3
    assert "0 findings in 14 launches checked" in done.stdout
