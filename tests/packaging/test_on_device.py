"""tools/on_device.sh tells of each of its parts that failed, whichever of its commands it was."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.packaging.tree import ROOT

pytestmark = pytest.mark.host

# In the place of Python: fails the commands that have a word.
FAKE = """#!/bin/sh
echo "ran $* on $PYTHONPATH"
case " $* " in *"$FAILS"*) exit 1 ;; esac
"""


def run(folder: Path, fails: str, *words: str) -> subprocess.CompletedProcess[str]:
    fake = folder / "python"
    fake.write_text(FAKE)
    fake.chmod(0o755)
    given = {**os.environ, "PYTHON": str(fake), "FAILS": fails, "OTHER_BINDINGS": "other"}
    command = ["bash", str(ROOT / "tools" / "on_device.sh"), str(folder / "results"), *words]
    return subprocess.run(command, env=given, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("fails", "parts"),
    [
        ("nothing", []),
        ("version(", ["tests with other bindings"]),
        (" pytest ", ["tests with other bindings"]),
        ("train_small_other_bindings", ["tests with other bindings"]),
        (" ab ", ["beside, mamba2", "beside, charlm"]),
        ("/parity_charlm.json", ["beside, charlm"]),
        ("verify_bf16", ["gates in bfloat16"]),
        (" bench ", ["beside rivals"]),
    ],
)
def test_a_part_fails_with_any_of_its_commands(
    tmp_path: Path, fails: str, parts: list[str]
) -> None:
    done = run(tmp_path, fails, "--fast", "--parity", "--bench")
    told = [line.removeprefix("failed: ") for line in done.stdout.splitlines()
            if line.startswith("failed: ")]  # fmt: skip
    assert (told, done.returncode) == (parts, 1 if parts else 0), done.stdout + done.stderr
    others = [line for line in done.stdout.splitlines() if "other_bindings.json" in line]
    assert [line.partition(" on ")[2].partition(":")[0] for line in others] == ["other"]
    everything = ("parity_mamba2.json", "ab_charlm.json", "train_small_other_bindings", "--stamp")
    assert all(word in done.stdout for word in everything), "the others run all the same"


def test_bugs_begin_with_the_runs_of_the_checkout(tmp_path: Path) -> None:
    done = run(tmp_path, "nothing", "--fast", "--bugs")
    (line,) = (line for line in done.stdout.splitlines() if "sanitizer_table.py" in line)
    words = line.split(" on ")[0].split()[1:]
    file, held = words[1], Path(words[words.index("--begin-with") + 1])
    assert file == f"{tmp_path}/results/seeded_bugs_sanitizer.json"
    assert (ROOT / held).is_file() and held.name == Path(file).name
    assert {"--clean", "--seconds"} <= set(words)
