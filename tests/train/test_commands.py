"""`python -m lowgraph info` and `cache`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.process import run_command


def _lowgraph(
    *arguments: str, cache: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    if cache is not None:
        variables["LOWGRAPH_CACHE_DIR"] = str(cache)
    return run_command("-m", "lowgraph", *arguments, timeout=60, **variables)


def test_info_names_the_device_and_the_versions(tmp_path: Path) -> None:
    file = tmp_path / "info.json"
    done = _lowgraph("info", "--json", str(file), cache=tmp_path / "cache")
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    keys = {"device", "driver", "cupy", "cuda_python", "nvmath", "compiler", "cache_dir"}
    assert keys <= found.keys()
    assert found["device"] in ("host", "cuda:0")
    assert found["cache_dir"] == str(tmp_path / "cache")
    for key in keys:
        assert key in done.stdout
    for name in ("cupy", "nvmath"):
        missing = f"{name:12} not installed (optional)" in done.stdout
        assert missing == (found[name] is None)


@pytest.mark.parametrize(("told", "shown"), [("", "off"), ("7", "7"), ("random", "random")])
def test_info_shows_how_the_host_device_runs_kernels(told: str, shown: str) -> None:
    done = _lowgraph("info", LOWGRAPH_HOST_SHUFFLE=told, LOWGRAPH_HOST_DEBUG="1")
    assert f"host_shuffle {shown}\n" in done.stdout
    assert "host_debug   on\n" in done.stdout
    refused = _lowgraph("info", LOWGRAPH_HOST_SHUFFLE="often")
    assert refused.returncode == 2
    assert "$LOWGRAPH_HOST_SHUFFLE is 'often': give a seed" in refused.stderr


def test_cache_shows_and_clears(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert _lowgraph("cache", cache=cache).returncode == 0
    (cache / "kernels").mkdir(exist_ok=True)
    (cache / "kernels" / "a.image").write_bytes(b"x" * 100)
    shown = _lowgraph("cache", cache=cache)
    assert "kernels: 1 file, 100 bytes" in shown.stdout
    assert _lowgraph("cache", "--clear", cache=cache).returncode == 0
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["info", "--what"]])
def test_a_bad_command_is_one_line(arguments: list[str]) -> None:
    done = _lowgraph(*arguments)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("error: ")
