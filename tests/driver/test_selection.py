"""Which device a process gets. Each case runs in a process of its own: the choice is for good."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lowgraph.driver import compat, device, selection
from lowgraph.errors import ConfigError, DeviceUnavailable
from tests.support.process import output_of
from tests.support.stub_driver import build_stub

pytestmark = pytest.mark.host  # they hide or replace this machine's driver

# Runs `steps`, printing a JSON line for each: the value, or the error's class and text.
PRELUDE = """
import json, sys
from lowgraph import driver
from lowgraph.driver import selection
from lowgraph.errors import LowgraphError

def show(step):
    try:
        print(json.dumps([None, str(step())]))
    except LowgraphError as error:
        print(json.dumps([type(error).__name__, str(error)]))

"""


def outcomes(*steps: str, env: dict[str, str] | None = None) -> list[tuple[str | None, str]]:
    """The outcome of each expression, in one fresh process."""
    code = PRELUDE + "\n".join(f"show(lambda: {step})" for step in steps)
    return [tuple(json.loads(line)) for line in output_of(code, env).splitlines()]


@pytest.fixture
def no_driver(tmp_path: Path) -> dict[str, str]:
    """A machine whose driver has no device: the same on machines with and without a GPU."""
    return build_stub(tmp_path / "none", init=100, devices=0)


def test_auto_takes_the_host_device_where_no_driver_answers(no_driver: dict[str, str]) -> None:
    opened, again, current = outcomes(
        "driver.open_device('auto').spec",
        "driver.open_device('host') is driver.open_device()",
        "driver.current().spec",
        env=no_driver,
    )
    assert (opened, again, current) == ((None, "host"), (None, "True"), (None, "host"))


def test_cuda_is_refused_where_no_driver_answers(no_driver: dict[str, str]) -> None:
    for spec in ("cuda", "cuda:0"):
        ((kind, text),) = outcomes(f"driver.open_device({spec!r})", env=no_driver)
        assert kind == "DeviceUnavailable"
        assert "--device host" in text


def test_second_device_is_refused(no_driver: dict[str, str]) -> None:
    for spec in ("cuda", "cuda:1"):
        _, (kind, text), (_, still) = outcomes(
            "driver.open_device('host')",
            f"driver.open_device({spec!r})",
            "driver.open_device().spec",
            env=no_driver,
        )
        assert kind == "DeviceUnavailable"
        assert (
            text == f"this process already has the device host; {spec} needs a process of its own"
        )
        assert still == "host"


def test_another_gpu_is_a_second_device_too(monkeypatch: pytest.MonkeyPatch) -> None:
    first = SimpleNamespace(spec="cuda:0")
    monkeypatch.setattr(selection, "_device", first)
    for spec in ("auto", "cuda", "cuda:0"):
        assert selection.open_device(spec) is first  # type: ignore[comparison-overlap]
    for spec in ("cuda:1", "host"):
        told = f"already has the device cuda:0; {spec} needs a process of its own"
        with pytest.raises(DeviceUnavailable, match=told):
            selection.open_device(spec)


def test_a_refused_device_leaves_the_choice_open(no_driver: dict[str, str]) -> None:
    # "cuda" loads the stub, so "host" can then not be had in this process, and says so.
    (first, _), (second, text) = outcomes(
        "driver.open_device('cuda')", "driver.open_device('host')", env=no_driver
    )
    assert first == "DeviceUnavailable"
    assert second == "DeviceUnavailable"
    assert "already loaded the CUDA driver's libcuda.so.1" in text


def test_no_device_before_open() -> None:
    ((kind, text),) = outcomes("driver.current()")
    assert kind == "DeviceUnavailable"
    assert "open_device" in text


def test_auto_follows_a_host_library_that_is_loaded_already(no_driver: dict[str, str]) -> None:
    _, opened, (kind, _) = outcomes(
        "__import__('lowgraph.hostdev').hostdev.load() and ''",
        "driver.open_device('auto').spec",
        "driver.open_device('cuda')",
        env=no_driver,
    )
    assert opened == (None, "host")
    assert kind == "DeviceUnavailable"


@pytest.mark.parametrize(
    ("init", "devices", "expected"),
    [(0, 1, "None"), (100, 0, "cuInit of the CUDA driver answers 100"), (0, 0, "has no device")],
)
def test_probe(tmp_path: Path, init: int, devices: int, expected: str) -> None:
    env = build_stub(tmp_path, init, devices)
    ((kind, text),) = outcomes("selection.probe()", env=env)
    assert kind is None
    assert expected in text


def test_probe_loads_nothing_into_this_process(tmp_path: Path) -> None:
    env = build_stub(tmp_path, init=0, devices=1)
    steps = ("selection.probe()", "selection._loaded_driver()")
    assert outcomes(*steps, env=env) == [(None, "None"), (None, "None")]


@pytest.mark.parametrize("spec", ["", "gpu", "cuda:", "cuda:x", "CUDA", "host:0", None, 0])
def test_unknown_device_is_bad_input(spec: Any) -> None:
    from lowgraph.driver import open_device

    with pytest.raises(ConfigError, match=r"must be auto, host, cuda or cuda:N"):
        open_device(spec)


def test_driver_older_than_the_bindings_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compat, "BINDINGS_MAJOR", 13)
    with pytest.raises(DeviceUnavailable, match=r"CUDA 12\.8.*pip install 'lowgraph\[cuda12\]'"):
        device.check_driver_version(12080)
    device.check_driver_version(13000)
    monkeypatch.setattr(compat, "BINDINGS_MAJOR", 12)
    device.check_driver_version(12040)
    device.check_driver_version(13000)
    with pytest.raises(DeviceUnavailable, match=r"CUDA 12\.3; lowgraph needs .*12\.4"):
        device.check_driver_version(12030)
