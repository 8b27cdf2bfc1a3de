"""Steps whose bodies call code that does not come through lowgraph, with bisecting and without."""

from __future__ import annotations

from typing import Any

import pytest

from lowgraph.driver import Device
from tests.doctor.kit import SCRIPTS, Run, line, run_doctor
from tests.support.process import ROOT


@pytest.fixture(scope="module")
def bisected(device: Device, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run with --bisect."""
    script, folder = SCRIPTS / "in_steps.py", tmp_path_factory.mktemp("bisected")
    return run_doctor(folder, script, device.spec, flags=("--bisect", "--quiet"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run without, on the host device."""
    return run_doctor(tmp_path_factory.mktemp("plain"), SCRIPTS / "in_steps.py")


def refusal(run: Run, label: str) -> dict[str, Any]:
    (found,) = run.of("refusals", label)
    assert found["type"] == "CaptureFailed"
    return found


@pytest.mark.both
@pytest.mark.parametrize(
    ("label", "mark", "stage"),
    [("breaks", "BREAKS", "callee"), ("swallowed", "SWALLOWED", ""), ("raises", "RAISES", "")],
)
def test_bisecting_names_line_and_stage(bisected: Run, label: str, mark: str, stage: str) -> None:
    where = line("in_steps.py", mark)
    found = refusal(bisected, label)
    assert (found["where"], found["stage"]) == (where, stage)
    (broken,) = bisected.of("breaks", label)
    assert (broken["where"], broken["stage"], broken["exact"]) == (where, stage, True)
    assert broken["after"].startswith(f"kernel add at {SCRIPTS}/in_steps.py:")
    place = f"broken at {where.removeprefix(f'{ROOT}/')} "
    (said,) = [text for text in bisected.out.splitlines() if place in text]
    assert (
        said.startswith(f"    {place}") and "; whole until then, last after kernel add at" in said
    )


@pytest.mark.both
def test_a_probe_pass_names_what_slips_to_the_legacy_stream(bisected: Run) -> None:
    (probe,) = bisected.of("probes", "slips")
    where = line("in_steps.py", "SLIPS")
    assert (probe["broken"]["where"], probe["broken"]["stage"]) == (where, "callee")
    place = where.removeprefix(f"{ROOT}/")
    (said,) = [text for text in bisected.out.splitlines() if place in text]
    leaked = bisected.of("leaks", "slips")  # the host device's driver tells of it, too
    assert said.startswith("  work beside 'slips'" if leaked else "  probe of 'slips': broken at")
    # The step itself is recorded as it is without the doctor.
    (seen,) = bisected.of("captures", "slips")
    assert (seen["outcome"], seen["nodes"]) == ("recorded", {"kernel": 1})
    assert bisected.out.splitlines()[0] == "slips 2 times 3"


@pytest.mark.both
def test_findings_are_counted_once_however_they_were_met(bisected: Run) -> None:
    assert bisected.code == 1, bisected.err
    assert bisected.report["findings"] == 4  # three refusals, and a leak or what the probe met


@pytest.mark.host
def test_without_it_the_driver_of_the_host_device_names_the_call(plain: Run) -> None:
    found = refusal(plain, "breaks")
    assert found["broken"].startswith(f"broken at {line('in_steps.py', 'BREAKS')} by ")
    assert "by cuCtxSynchronize, which answered 900 CUDA_ERROR_STREAM_CAPTURE" in found["broken"]
    (leak,) = plain.of("leaks", "slips")
    assert (leak["kind"], leak["what"]) == ("work", "kernel add")
    assert leak["where"] == line("in_steps.py", "SLIPS")
    assert (plain.report["probes"], plain.report["breaks"]) == ([], [])
    assert plain.out.splitlines()[0] == "slips 2 times 2"
    # A graph that holds is recorded all the same.
    assert "doctor: recorded 'slips': 1 node, begun at " in plain.err
