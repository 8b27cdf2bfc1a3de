"""Bad input is one clear line on stderr and exit code 2, with nothing half-written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lowgraph.cli import NOBODY_READS
from lowgraph.driver.selection import probe
from lowgraph.errors import ConfigError
from lowgraph.train import checkpoint, plot
from tests.train.runs import EXAMPLE, environment, example, filled_checkpoint


def _refused(*flags: str, said: str, **variables: str) -> None:
    done = example("--device", "host", "--preset", "nano", *flags, **variables)
    assert done.returncode == 2, done.stdout + done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    assert said in lines[0]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--data", "/no/such/file"], "--data /no/such/file: no such file or folder"),
        (["--preset", "huge"], "unknown preset 'huge' of charlm; there are nano, tiny, small"),
        (["--model", "gpt9"], "unknown model 'gpt9'"),
        (["--device", "tpu"], "unknown device 'tpu'"),
        (["--steps", "0"], "--steps must be at least 1, got 0"),
        (["--steps", "x"], "invalid int value: 'x'"),
        (["--steps", "5", "--warmup", "6"], "--warmup 6 is longer than the run of 5 steps"),
        (["--resume", "/no/such/folder"], "no such file or folder"),
        (["--json", "/no/such/folder/f.json"], "/no/such/folder is not there"),
        (["--plot", "loss.unknown"], "use a name that ends in"),
    ],
)
def test_a_bad_flag(flags: list[str], said: str) -> None:
    _refused(*flags, said=said)


def test_a_text_shorter_than_one_batch(tmp_path: Path) -> None:
    text = tmp_path / "short.txt"
    text.write_bytes(b"x" * 300)
    _refused("--data", str(text), said="are shorter than one batch")
    assert list(tmp_path.iterdir()) == [text]


def test_a_damaged_checkpoint(tmp_path: Path) -> None:
    for step in (1, 2):
        file = checkpoint.write(tmp_path, filled_checkpoint(step))
    file.write_bytes(file.read_bytes()[:-1])
    before = sorted(tmp_path.iterdir())
    remedy = f"with 1 step done: go on from it with --resume {tmp_path}/previous.safetensors"
    _refused("--resume", str(tmp_path), "--checkpoint", str(tmp_path), said=remedy)
    assert sorted(tmp_path.iterdir()) == before


def test_a_resume_with_another_setting(tmp_path: Path) -> None:
    checkpoint.write(tmp_path, filled_checkpoint(1))
    _refused(
        "--resume", str(tmp_path), "--seed", "6",
        said="--preset nano differs from the resumed run's micro; --seed 6 differs from the "
        "resumed run's 5; leave the flag out",
    )  # fmt: skip


def test_an_empty_folder(tmp_path: Path) -> None:
    _refused("--data", str(tmp_path), said="holds no text")


@pytest.mark.skipif(probe() is None, reason="this machine has a GPU")
def test_a_gpu_that_is_not_there() -> None:
    _refused("--device", "cuda", said="no CUDA driver")


def test_no_compiler(tmp_path: Path) -> None:
    compiler = "/no/such/compiler"
    _refused(said=compiler, LOWGRAPH_CXX=compiler, LOWGRAPH_CACHE_DIR=str(tmp_path))


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    _refused(said=str(blocked), LOWGRAPH_CACHE_DIR=str(blocked / "cache"))


def test_matplotlib_is_asked_for_before_the_run(tmp_path: Path) -> None:
    """A module of that name that cannot be imported stands for its absence."""
    (tmp_path / "matplotlib.py").write_text("raise ImportError('none here')\n")
    _refused(
        "--plot", str(tmp_path / "loss.png"),
        said="pip install 'lowgraph[plot]'",
        PYTHONPATH=str(tmp_path),
    )  # fmt: skip


def test_an_output_that_cannot_be_written_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    image = tmp_path / "loss.png"
    image.write_bytes(b"old")
    monkeypatch.setattr("lowgraph.train.files.os.fsync", full)
    with pytest.raises(ConfigError, match=r"loss\.png: No space left on device"):
        plot.draw(image, [2.0, 1.0], 1, [(2, 1.0)], 1.5, baseline="bigram", unit="nats")
    assert image.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [image]


def test_nobody_reads_the_output_any_more(tmp_path: Path) -> None:
    """As in `train_small.py | head -1`: the run ends without a word."""
    text = tmp_path / "text"
    text.write_bytes(b"a line of text\n" * 500)
    flags = ["--device", "host", "--preset", "nano", "--steps", "1", "--data", str(text)]
    command = [sys.executable, str(EXAMPLE), *flags]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment(), **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline().startswith(b"device: host")
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(timeout=120) == NOBODY_READS
    assert b"Traceback" not in said
