"""docs/host-device.md has the numbers of the recordings and of the measured results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conformance.runner import RECORDED as SEQUENCES
from tests.conformance.runner import load as load_sequences
from tests.conformance.test_wild import RECORDED as WILD
from tests.traces.catalogue import runs
from tests.traces.record import recordings
from tests.traces.record_wild import load as load_wild
from tools import check_cost, kernel_difference

PAGE = kernel_difference.PAGE.read_text(encoding="utf-8")
RESULTS = kernel_difference.RECORDED.parent
# Inputs of their second products are rounded to bfloat16 on the way.
ROUNDED = ("attention_mma_backward: dqkv", "attention_mma_fused: dqkv")


def numbers(pattern: str) -> list[int]:
    """The integers of the page's one place that fits, thin groups of three digits included."""
    (found,) = re.findall(pattern.replace("N", r"(\d+(?: \d{3})*)"), PAGE)
    told = (found,) if isinstance(found, str) else found
    return [int(number.replace(" ", "")) for number in told]


def read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    return content


def test_how_much_is_recorded() -> None:
    traces = recordings().values()
    names = {key.rpartition(" [")[0] for key in runs()}
    recorded = sum(len(trace["scenarios"]) for trace in traces)
    died = {key for trace in traces for key, _ in trace.get("left_out", [])}
    said = numbers(r"named scenarios \| N names, N runs recorded .*?, N end the process there")
    assert said == [len(names), recorded, len(died)]
    wild = {path.name.partition(".")[0]: len(load_wild(path)["sequences"]) for path in WILD}
    plain = numbers(r"\| N to learn from, N to judge by \|")
    themes = numbers(r"seeds from 700 000.*?\| N to judge by \|")
    assert (plain, themes) == ([wild["wild-dev"], wild["wild"]], [wild["wild-themes"]])
    assert numbers(r"sequences of one capture \| N \|") == [
        sum(len(load_sequences(path)) for path in SEQUENCES)
    ]


def test_the_kernels_table_is_what_was_measured() -> None:
    content = read("kernel_difference.json")
    assert kernel_difference.marked(PAGE, kernel_difference.section(content)) == PAGE
    worst = {row["result"]: row["worst_relative"] for row in content["rows"]}
    bounds = re.findall(r"within (\de-\d) of the largest element in the others, (\de-\d)", PAGE)
    close, rounded = map(float, bounds[0])
    assert max(worst.pop(name) for name in ROUNDED) < rounded
    (cancelling,) = re.findall(r"and (\de-\d)\s+in the means of rows", PAGE)
    assert worst.pop("linear_norm: mean") < float(cancelling)
    assert max(worst.values()) < close


def test_the_cost_of_checks_is_what_was_measured() -> None:
    content = json.loads(check_cost.RECORDED.read_text(encoding="utf-8"))
    assert check_cost.marked(PAGE, check_cost.section(content)) == PAGE, "run tools/check_cost.py"


def test_the_cost_of_checks_is_a_ratio_of_least_times() -> None:
    rows = [
        {"what": "step of nano, plain, one worker", "unit": "ms", "wall": 50.0, "wall_min": 40.0,
         "cpu": 45.0, "cpu_min": 40.0},
        {"what": "step of nano, checked", "unit": "ms", "wall": 9000.0, "wall_min": 8500.0,
         "cpu": 8400.0, "cpu_min": 8000.0},
        {"what": "check of two steps of nano and an evaluation", "unit": "s", "wall": 21.4,
         "cpu": 18.2},
    ]  # fmt: skip
    text = check_cost.section({"rows": rows, "time": "2026-01-02T03", "commit": "abcdefghi"})
    cells = [line.split(" | ")[1:] for line in text.splitlines()[2:5]]
    assert cells == [["0.04 s", "0.04 s |"], ["8.5 s", "8 s |"], ["21 s", "18 s |"]]
    assert text.endswith(
        "Measured 2026-01-02 at abcdefg: a checked step takes 200 times the processor time of a "
        "plain one."
    )


def test_the_losses_agree_as_far_as_the_page_says() -> None:
    losses = read("agreement.json")["losses"]
    cuda, host = (np.array(losses[device]) for device in ("cuda", "host"))
    words = " ".join(PAGE.split())
    assert "the first five losses are equal to the last bit" in words
    assert "over 40 steps the losses are at most 9e-8 apart" in words
    assert cuda[:5].tolist() == host[:5].tolist()
    assert len(cuda) == 40
    assert (np.abs(cuda - host) / np.abs(cuda)).max() < 9e-8


# ---- tools/kernel_difference.py ----


def test_differences_are_over_the_largest_element() -> None:
    host = {"a": np.float32([1.0, 2.0, -4.0]), "b": np.int32([1, 2])}
    gpu = {"a": np.float32([1.0, 2.5, -4.0]), "b": np.int32([1, 2])}
    first, second = kernel_difference.differences(host, gpu)
    assert (first["worst_relative"], first["equal_bits"], first["elements"]) == (0.125, False, 3)
    assert first["worst_of_element"] == 0.2
    assert (second["worst_relative"], second["equal_bits"]) == (0.0, True)
    text = kernel_difference.section({"gpu": "G", "driver": "D", "rows": [first, second]})
    assert "Against an G (driver D) 1 of 2 results have equal bits" in text
    assert text.endswith("| a | 3 | 1.2e-01 | 2.0e-01 |")


def test_a_small_element_is_seen_and_one_of_nearly_zero_is_not() -> None:
    gpu = {name: np.array([1000.0, small]) for name, small in (("a", 2.0), ("b", 1e-9))}
    host = {"a": np.array([1000.0, 3.0]), "b": np.array([1000.0, 2e-9])}
    seen, zero = kernel_difference.differences(host, gpu)
    assert (seen["worst_relative"], seen["worst_of_element"]) == (1e-3, 0.5)
    assert zero["worst_of_element"] == pytest.approx(1e-9), "of a thousandth of the largest, 1"


@pytest.mark.host
def test_every_kernel_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    found = kernel_difference.results("host")
    assert {name.partition(": ")[0] for name in found} == set(kernel_difference.SCENARIOS)
    monkeypatch.delitem(kernel_difference.SCENARIOS, "bias_sums")
    told = "nothing launches bias_pair_partial, bias_sums_final: write a scenario in tests/check"
    with pytest.raises(SystemExit, match=told):
        kernel_difference.results("host")


def test_runs_of_other_scenarios_are_not_compared() -> None:
    host = {"a": np.zeros(3), "b": np.zeros(2), "c": np.zeros(1)}
    gpu = {"a": np.zeros(3), "b": np.zeros(4)}
    with pytest.raises(SystemExit, match="on one commit; these are not in both alike: b, c"):
        kernel_difference.differences(host, gpu)


def test_a_file_without_its_origin_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"environment\.json is missing: tools/on_device\.sh"):
        kernel_difference.facts(tmp_path / "kernels.npz")
    (tmp_path / "environment.json").write_text('{"gpu": "G"}', encoding="utf-8")
    assert kernel_difference.facts(tmp_path / "kernels.npz") == {"gpu": "G"}
