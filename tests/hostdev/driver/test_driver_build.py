"""The build of the host device: once, by one process, into a cache that only the user can write."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lowgraph.errors import BuildError
from lowgraph.hostdev import build, cachedir
from lowgraph.hostdev.toolchain import find_compiler
from tests.support.process import ROOT, output_of, run_python

pytestmark = pytest.mark.host


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A library of two small parts in place of the host device's."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "queue.h").write_text("int one();\n")
    (folder / "one.cpp").write_text('#include "queue.h"\nint one() { return 1; }\n')
    (folder / "two.cpp").write_text('extern "C" int cuTwo() { return one() + 1; }\n')
    (folder / "exports.map").write_text("{ global: cu*; local: *; };\n")
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("LOWGRAPH_CACHE_DIR", str(folder))
    return folder


BUILD = """
from pathlib import Path
from lowgraph.hostdev import build
print(build.library(Path({0!r})))
"""


def test_first_use_says_that_it_builds_and_how_long_it_took(source: Path, cache: Path) -> None:
    first, second = (run_python(BUILD.format(str(source))) for _ in range(2))
    assert first.returncode == second.returncode == 0
    assert first.stderr.startswith("building the host device (first use, about ")
    said, done = first.stderr.splitlines()
    assert re.search(r"\d+ s on \d+ idle cores?\) \.\.\.$", said)
    assert re.fullmatch(r"host device built: done in \d+ s", done)
    assert second.stderr == ""
    assert first.stdout == second.stdout


def test_two_processes_at_once_build_once(source: Path, cache: Path) -> None:
    command = [sys.executable, "-c", BUILD.format(str(source))]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT}
    running = [subprocess.Popen(command, env=env, **pipes) for _ in range(3)]  # type: ignore[call-overload]
    outputs = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len({out for out, _ in outputs}) == 1
    assert sum(err.startswith("building the host device") for _, err in outputs) == 1


def test_the_folders_are_private(source: Path, cache: Path) -> None:
    path = build.library(source)
    assert [p.stat().st_mode & 0o777 for p in (cache, cache / "hostdev", path.parent)] == [
        0o700
    ] * 3
    assert path.stat().st_mode & 0o077 == 0


def test_a_changed_part_is_compiled_alone(source: Path, cache: Path) -> None:
    before = build.library(source)
    kept = {file.name: file.stat().st_mtime_ns for file in (cache / "hostdev/objects").glob("*.o")}
    (source / "two.cpp").write_text('extern "C" int cuTwo() { return one() + 2; }\n')
    assert build.library(source) != before
    now = {file.name: file.stat().st_mtime_ns for file in (cache / "hostdev/objects").glob("*.o")}
    assert len(now) == 2
    assert len(now.items() & kept.items()) == 1


@pytest.mark.parametrize("torn", [b"", b"junk", None], ids=["empty", "junk", "hole"])
def test_a_torn_library_is_built_again(source: Path, cache: Path, torn: bytes | None) -> None:
    path = build.library(source)
    whole = path.read_bytes()
    path.write_bytes(bytes(len(whole)) if torn is None else torn)
    assert build.library(source) == path
    assert path.read_bytes() == whole


@pytest.mark.parametrize("torn", [b"", b"junk", None], ids=["empty", "junk", "half"])
def test_a_torn_object_file_is_built_again(source: Path, cache: Path, torn: bytes | None) -> None:
    path = build.library(source)
    whole = path.read_bytes()
    path.unlink()
    for file in (cache / "hostdev" / "objects").glob("*.o"):
        file.write_bytes(file.read_bytes()[:700] if torn is None else torn)
    done = run_python(BUILD.format(str(source)))
    assert done.stdout.strip() == str(path), done.stderr
    for part in ("one.cpp", "two.cpp"):
        assert f"the cached object file of {part} is damaged; it is compiled" in done.stderr
    assert path.read_bytes() == whole
    assert run_python(BUILD.format(str(source))).stderr == "", "it is whole now"


def test_what_a_killed_build_left_is_removed(source: Path, cache: Path) -> None:
    abandoned = cachedir.make_private(cache / "hostdev" / ".building-killed")
    (abandoned / "common.h.gch").write_bytes(b"x")
    build.library(source)
    assert not abandoned.exists()


def test_a_cache_that_others_can_write_is_refused(source: Path, cache: Path) -> None:
    cache.mkdir()
    cache.chmod(0o777)
    with pytest.raises(BuildError, match="others may write to the build cache"):
        build.library(source)


def test_a_library_that_others_can_write_is_refused(source: Path, cache: Path) -> None:
    build.library(source).chmod(0o722)
    with pytest.raises(BuildError, match="others may write"):
        build.library(source)


def test_a_cache_of_someone_else_is_refused(
    source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: cache.stat().st_uid + 1)
    with pytest.raises(BuildError, match="belongs to user"):
        cachedir.cache_dir()


def test_a_cache_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LOWGRAPH_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(BuildError, match=r"cannot make the build cache .*LOWGRAPH_CACHE_DIR"):
        cachedir.cache_dir()


def test_without_the_variable_the_cache_is_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOWGRAPH_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cachedir.cache_dir() == tmp_path / ".cache" / "lowgraph"


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=128k,mode=0700", "tmpfs", str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"cannot mount a small file system here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_one_clear_line(
    source: Path, full_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOWGRAPH_CACHE_DIR", str(full_disk))
    with pytest.raises(BuildError, match=r"full|No space left") as raised:
        build.library(source)
    assert "\n" not in str(raised.value)
    assert "LOWGRAPH_CACHE_DIR" in str(raised.value)
    assert [file.name for file in full_disk.rglob(".building*")] == []


def test_a_compile_error_names_the_part(source: Path, cache: Path) -> None:
    (source / "two.cpp").write_text("int broken( {\n")
    with pytest.raises(BuildError, match=r"compiling the host device \(two.cpp\)"):
        build.library(source)
    assert not list(cache.rglob("libcuda.so.1"))


NO_COMPILER = """
from pathlib import Path
from lowgraph.errors import BuildError
from lowgraph.hostdev import build
try:
    build.library(Path({0!r}))
except BuildError as error:
    print(error)
"""


def test_no_compiler_is_one_clear_line(source: Path, cache: Path) -> None:
    message = output_of(NO_COMPILER.format(str(source)), {"PATH": "", "LOWGRAPH_CXX": ""})
    assert message.startswith("no C++ compiler found")
    assert message.count("\n") == 1


@pytest.mark.parametrize("program", ["true", "cat", "sh -c exit"])
def test_a_program_that_is_no_compiler_is_named(source: Path, cache: Path, program: str) -> None:
    message = output_of(NO_COMPILER.format(str(source)), {"LOWGRAPH_CXX": program})
    assert program in message and message.count("\n") == 1
    assert "is not a C++20 compiler" in message or "does not run" in message
    assert "LOWGRAPH_CXX" in message
    assert not list(cache.rglob("libcuda.so.1"))


@pytest.mark.exhaustive
def test_no_part_has_a_warning(tmp_path: Path) -> None:
    flags = [*build.precompile(build.SOURCE_DIR, tmp_path), "-fsyntax-only", "-Werror"]
    compiler = find_compiler().command

    def complaints(part: Path) -> str:
        command = [*compiler, *flags, str(part)]
        return subprocess.run(command, check=False, capture_output=True, text=True).stderr

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = list(pool.map(complaints, sorted(build.SOURCE_DIR.glob("*.cpp"))))
    assert "".join(found) == ""


@pytest.mark.parametrize("part", sorted(build.SOURCE_DIR.glob("*.*")), ids=lambda part: part.name)
def test_parts_stay_readable_in_size(part: Path) -> None:
    assert len(part.read_text().splitlines()) <= 300
