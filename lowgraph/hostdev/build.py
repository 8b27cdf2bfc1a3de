"""Builds the host device's library from its C++ parts, once for each source, compiler and CPU."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lowgraph.errors import BuildError
from lowgraph.hostdev.cachedir import cache_dir, check_private, make_private
from lowgraph.hostdev.settings import sanitizer_flags
from lowgraph.hostdev.toolchain import (
    INCLUDE_DIR,
    cpu_key,
    cuda_include_dirs,
    find_compiler,
    run_compiler,
)

__all__ = ["LIBRARY_NAME", "SOURCE_DIR", "library", "link_folder", "precompile"]

# The name that cuda.bindings, cuBLAS and linked programs ask for: whoever has it loaded is found
# before any file of that name.
LIBRARY_NAME = "libcuda.so.1"

SOURCE_DIR = Path(__file__).parent / "src"
# No -Werror here: a compiler that we do not know must not stop a user with a new warning. The tests
# hold the parts to it.
_COMPILE_FLAGS = ("-std=c++20", "-O2", "-g1", "-fPIC", "-pthread", "-Wall", "-Wextra")
_LINK_FLAGS = (
    "-shared",
    "-pthread",
    f"-Wl,-soname,{LIBRARY_NAME}",
    # Its own calls stay inside, whatever else is loaded.
    "-Wl,-Bsymbolic",
    "-Wl,-z,defs",
)
# Included by nearly every part; compiled once, since parsing is two thirds of a part's time.
_COMMON = '#include "queue.h"\n#include <algorithm>\n#include <cstring>\n'
_SECONDS_A_PART = 1.0  # measured with g++ 12 on one core at 2.1 GHz


def library(source: Path = SOURCE_DIR) -> Path:
    """Return the path of the library that is built from `source`; builds it on first use.

    Safe for several processes at once: one builds, the others wait and take its result.
    Raises BuildError: no compiler or headers, a compile error, or a cache that cannot be used.
    """
    home = make_private(cache_dir() / "hostdev")
    parts = sorted(source.glob("*.cpp"))
    path = home / _key(source, [*parts, source / "exports.map"]) / LIBRARY_NAME
    if not _is_sound(path):
        # One lock for all builds: each ends by deleting the object files that it does not need.
        with _locked(home / "lock"), _disk_errors(home):
            if not _is_sound(path):
                _build_into(path, source, parts, home)
    check_private(path)
    return path


def link_folder() -> Path:
    """Return the library's folder, with the name in it that a linker's `-lcuda` looks for.

    Raises BuildError as `library` does.
    """
    folder = library().parent
    with _disk_errors(folder), contextlib.suppress(FileExistsError):
        (folder / LIBRARY_NAME.removesuffix(".1")).symlink_to(LIBRARY_NAME)
    return folder


def _is_sound(path: Path) -> bool:
    """Whether a file is there and as it was built.

    Its hash lies beside it; a crash of the machine or a full disk can tear either. Loading a torn
    library would end the process; a torn object file can fail every link, and an empty one none.
    """
    try:
        return _hash_file(path).read_text() == hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, UnicodeDecodeError):
        return False


def _hash_file(path: Path) -> Path:
    return path.with_suffix(".sha256")


def _put(built: Path, path: Path) -> None:
    """Move a finished file to its place in the cache, its hash before it."""
    _hash_file(path).write_text(hashlib.sha256(built.read_bytes()).hexdigest())
    os.replace(built, path)


def _key(source: Path, parts: list[Path]) -> str:
    """What these parts' build depends on, as a hexadecimal hash; any header may be included."""
    digest = hashlib.sha256()
    facts = (find_compiler().version, cpu_key(), *_compile_flags(), *_link_flags(), _COMMON)
    digest.update("\n".join(facts).encode())
    headers = (file for file in INCLUDE_DIR.rglob("*") if file.is_file())
    for file in sorted((*parts, *source.glob("*.h"), *headers)):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:24]


def _compile_flags() -> tuple[str, ...]:
    return (*_COMPILE_FLAGS, *sanitizer_flags())


def _link_flags() -> tuple[str, ...]:
    return (*_LINK_FLAGS, *sanitizer_flags())


def _build_into(path: Path, source: Path, parts: list[Path], home: Path) -> None:
    objects = make_private(home / "objects")
    wanted = {part: objects / f"{_key(source, [part])}.o" for part in parts}
    missing = [part for part, target in wanted.items() if not _is_sound(target)]
    for abandoned in home.glob(".building-*"):  # of builds that were killed: we hold the lock
        shutil.rmtree(abandoned, ignore_errors=True)
    begin = time.perf_counter()
    for part in missing:
        if wanted[part].exists():
            _say(f"the cached object file of {part.name} is damaged; it is compiled again")
    _say_how_long(len(missing))
    with tempfile.TemporaryDirectory(prefix=".building-", dir=home) as name:
        folder = Path(name)
        if missing:
            _compile_all(missing, wanted, source, folder)
        built = folder / LIBRARY_NAME
        exports = f"-Wl,--version-script={source / 'exports.map'}"
        command = [*map(str, wanted.values()), *_link_flags(), exports, "-o", str(built)]
        run_compiler(command, "linking the host device")
        built.chmod(0o700)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        _put(built, path)
    _say(f"host device built: done in {time.perf_counter() - begin:.0f} s")
    kept = {*wanted.values(), *map(_hash_file, wanted.values())}
    for file in set(objects.iterdir()) - kept:
        file.unlink()


def _say_how_long(parts: int) -> None:
    cores = os.cpu_count() or 1
    seconds = round(parts * _SECONDS_A_PART / cores) + 4
    idle = f"{cores} idle core{'s' * (cores > 1)}"
    _say(f"building the host device (first use, about {seconds} s on {idle}) ...")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _compile_all(parts: list[Path], targets: dict[Path, Path], source: Path, folder: Path) -> None:
    """Compile each part to its target, several at once."""
    flags = precompile(source, folder)

    def compile_one(part: Path) -> None:
        output = folder / f"{part.stem}.o"
        what = f"compiling the host device ({part.name})"
        run_compiler([*flags, "-c", str(part), "-o", str(output)], what)
        _put(output, targets[part])

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for _ in pool.map(compile_one, parts):
            pass


def precompile(source: Path, folder: Path) -> list[str]:
    """Compile the common headers into `folder`; returns the flags that every part takes."""
    search = [f"-I{place}" for place in (source, *cuda_include_dirs())]
    flags = [*_compile_flags(), *search]
    common = folder / "common.h"
    common.write_text(_COMMON)
    output = ["-x", "c++-header", str(common), "-o", f"{common}.gch"]
    run_compiler([*flags, *output], "compiling the host device")
    return [*flags, "-include", str(common)]


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a file's lock; it is let go with the process, so that a killed build blocks nobody."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unusable(path.parent, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another process is building the host device; waiting ...")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _disk_errors(home: Path) -> Iterator[None]:
    """Turn a full disk, met by us or by the compiler, into one clear line."""
    try:
        yield
    except BuildError as error:
        if "No space left on device" not in error.log + error.message:
            raise
        raise BuildError(f"the disk of the build cache {home} is full: {_REMEDY}") from error
    except OSError as error:
        raise _unusable(home, error) from error


_REMEDY = "free space there, or name another folder in $LOWGRAPH_CACHE_DIR"


def _unusable(home: Path, error: OSError) -> BuildError:
    why = error.strerror or str(error)
    return BuildError(f"cannot write the build cache {home}: {why}; {_REMEDY}")
