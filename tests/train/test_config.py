"""Settings are checked when they are made, and each message names the flag and the value."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lowgraph.errors import ConfigError
from lowgraph.ops.control import read_control
from lowgraph.train import arguments
from lowgraph.train.checks import flag
from lowgraph.train.config import ONE_BATCH, TrainConfig
from lowgraph.train.plan import make_plan


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--steps", "0"], "--steps must be at least 1, got 0"),
        (["--batch", "-3"], "--batch must be at least 1, got -3"),
        (["--steps", "many"], "invalid int value: 'many'"),
        (["--batch", "many"], "argument --batch: invalid int value: 'many'"),
        (["--batch", "4.5"], "argument --batch: invalid int value: '4.5'"),
        (["--batch", "4,8"], "'4,8' is more than one size: a graph is recorded for one number of"),
        (["--batch", "4..8"], "'4..8' is more than one size: a graph is recorded for one number"),
        (["--model", "mamba2", "--sample", "5"], "--sample 5: mamba2 is trained on series and"),
        (["--preset", "perception"], "tiny, small, gpt2 (it is one of mamba2: see --model)"),
        (["--model", "mamba2", "--preset", "small"], "(it is one of charlm, mamba2-lm: see --mod"),
        (["--preset", "huge"], "unknown preset 'huge' of charlm; there are nano, tiny, small"),
        (["--model", "gpt9"], "unknown model 'gpt9'; there are charlm"),
        (["--device", "tpu"], "unknown device 'tpu'"),
        (["--device", "cuda:x"], "unknown device 'cuda:x'"),
        (["--lr", "0"], "--lr must be a finite number above 0, got 0.0"),
        (["--lr", "nan"], "--lr must be a finite number above 0, got nan"),
        (["--weight-decay", "2"], "--weight-decay must be from 0 to 1, got 2.0"),
        (["--clip", "-1"], "--clip must be a finite number, 0 (off) or more, got -1.0"),
        (["--clip", "inf"], "--clip must be a finite number, 0 (off) or more, got inf"),
        (["--clip", "nan"], "--clip must be a finite number, 0 (off) or more, got nan"),
        (["--ema", "1"], "--ema must be from 0 (off) to below 1, got 1.0"),
        (["--ema", "-0.1"], "--ema must be from 0 (off) to below 1, got -0.1"),
        (["--ema", "nan"], "--ema must be from 0 (off) to below 1, got nan"),
        (["--accumulate", "0"], "--accumulate must be at least 1, got 0"),
        (["--accumulate", "2.5"], "invalid int value: '2.5'"),
        (
            ["--schedule", "step"],
            "unknown --schedule 'step'; there are cosine, linear, constant",
        ),
        (["--final-share", "1.5"], "--final-share must be from 0 to 1, got 1.5"),
        (["--final-share", "nan"], "--final-share must be from 0 to 1, got nan"),
        (
            ["--schedule", "constant", "--final-share", "0.5"],
            "--final-share 0.5 has no use with --schedule constant, which never falls; leave one",
        ),
        (["--temperature", "-1"], "--temperature must be a finite number above 0"),
        (["--seed", "-1"], "--seed must be at least 0"),
        (["--log-every", "0"], "--log-every must be at least 1"),
        (["--log-every", "1000001"], "--log-every must be at most 1000000, got 1000001"),
        (["--steps", str(2**63)], f"--steps must be below 2**63, got {2**63}"),
        (["--lr", "1e300"], "--lr must be at most 3.4e+38 (float32), got 1e+300"),
        (["--lr", "1e-46"], "--lr must be at least 1.2e-38 (float32), got 1e-46"),
        (["--data", ""], "argument --data: the path is empty"),
        (["--json", "a.png", "--plot", "./a.png"], "must be different paths"),
        (["--data", "text", "--json", "text"], "must be different paths"),
        (["--log", "a.csv", "--json", "./a.csv"], "must be different paths"),
        (["--checkpoint", "out", "--json", "out"], "must be different paths"),
        (["--resume", "f", "--plot", "f"], "and --resume must be different paths"),
        (["--steps", "5", "--warmup", "6"], "--warmup 6 is longer than the run of 5 steps"),
        (["--checkpoint-every", "-1"], "--checkpoint-every must be at least 0, got -1"),
        (["--checkpoint-every", "5"], "5 has nowhere to write; give --checkpoint DIR too"),
        (
            ["--json", "/no/such/folder/f.json"],
            "--json /no/such/folder/f.json: /no/such/folder is not there",
        ),
        (["--json", "/"], "--json / is a folder"),
        (["--checkpoint", __file__], "test_config.py is not a folder"),
        (["--unknown"], "unrecognized arguments: --unknown"),
        (["--step", "3"], "unrecognized arguments: --step 3"),
    ],
)
def test_bad_flags_are_refused_in_one_line(flags: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        arguments.parse(flags)
    message = str(caught.value)
    assert said in message
    assert "\n" not in message


def test_flags_reach_the_config() -> None:
    given = arguments.parse(
        ["--device", "host", "--preset", "tiny", "--steps", "7", "--no-graph", "--lr", "0.5",
         "--checkpoint", "out", "--checkpoint-every", "3"]
    )  # fmt: skip
    assert (given.device, given.preset, given.steps) == ("host", "tiny", 7)
    assert (given.graph, given.learning_rate) == (False, 0.5)
    assert (given.checkpoint, given.checkpoint_every) == (Path("out"), 3)


def test_flags_of_the_update_reach_config_and_plan() -> None:
    flags = {
        "clip_norm": ("--clip", 1.5), "ema_decay": ("--ema", 0.75), "accumulate":
        ("--accumulate", 4), "schedule": ("--schedule", "linear"), "final_share":
        ("--final-share", 0.0),
    }  # fmt: skip
    words = [str(word) for pair in flags.values() for word in pair]
    given = arguments.parse(words)
    plan = make_plan(given, "host")
    for name, (spelled, value) in flags.items():
        assert getattr(given, name) == getattr(plan.schedule, name) == value
        assert flag(name) == spelled
    assert plan.schedule.windows == 4 * plan.schedule.batch
    block = read_control(plan.schedule.control_block(0))
    assert (block["clip_norm"], block["ema_decay"], block["ema_warmup"]) == (1.5, 0.75, True)
    assert (block["schedule"], block["lr_min"]) == ("linear", 0.0)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"steps": 1e3}, "--steps must be a whole number, got 1000.0"),
        ({"batch": True}, "--batch must be a whole number, got True"),
        ({"batch": (4, 8)}, f"--batch must be a whole number, got (4, 8): {ONE_BATCH}"),
        ({"batch": range(4)}, f"--batch must be a whole number, got range(0, 4): {ONE_BATCH}"),
        ({"learning_rate": "0.1"}, "--lr must be a number, got '0.1'"),
    ],
)
def test_a_program_that_passes_another_kind_is_told(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(said)}$"):
        TrainConfig(**values)


def test_no_flags_are_the_defaults_of_the_dataclass() -> None:
    assert arguments.parse([]) == TrainConfig()


def test_outputs_in_the_working_folder_need_no_folder_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert TrainConfig(json=Path("out.json")).json == Path("out.json")
