"""Run the cases of examples/debugging, and hold what they print in docs/debugging.md.

    python tools/debugging_guide.py [--device D] [--json F] [--write]

The guide has, for each case, two fenced blocks that begin with the command: `$ python
examples/debugging/NAME.py` and the same with `--fixed`; what follows in the block is what it
prints, without the line that names the device. --write puts the output of this run there; --json
writes it to a file, by command. All cases run in this one process, one after the other.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import runpy
import sys
from pathlib import Path

from lowgraph.train.files import replace_file

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT / "examples" / "debugging"
GUIDE = ROOT / "docs" / "debugging.md"
BLOCK = re.compile(r"^```text\n\$ (python examples/debugging/\S+( --fixed)?)\n(.*?)^```$",
                   re.MULTILINE | re.DOTALL)  # fmt: skip


def blocks(guide: str) -> dict[str, str]:
    """What the guide says that each command prints."""
    return {found[1]: found[3] for found in BLOCK.finditer(guide)}


def output_of(command: str, device: str) -> str:
    """What a command of the guide prints, without its first line, which names the device."""
    _, script, *flags = command.split()
    said = io.StringIO()
    kept = sys.argv
    sys.argv = [script, *flags, "--device", device]
    try:
        with contextlib.redirect_stdout(said):
            runpy.run_path(str(ROOT / script), run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise SystemExit(f"{command} ended with {end.code}: {said.getvalue()}") from end
    finally:
        sys.argv = kept
    return said.getvalue().partition("\n")[2]


def commands() -> list[str]:
    """Both commands of every case, from the scripts that are there."""
    names = sorted(path.name for path in CASES.glob("*.py") if path.name != "shared.py")
    return [
        f"python examples/debugging/{name}{flag}" for name in names for flag in ("", " --fixed")
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="auto", help="auto (default), host, cuda or cuda:N")
    parser.add_argument("--json", type=Path, metavar="F", help="write the outputs to this file")
    parser.add_argument("--write", action="store_true", help="write them into docs/debugging.md")
    given = parser.parse_args()
    sys.path.insert(0, str(CASES))  # as Python does for a script that it runs
    printed = {}
    for command in commands():
        print(command, flush=True)
        printed[command] = output_of(command, given.device)
    if given.json is not None:
        replace_file(given.json, json.dumps(printed, indent=1).encode())
    if given.write:
        text = GUIDE.read_text(encoding="utf-8")
        text = BLOCK.sub(lambda m: f"```text\n$ {m[1]}\n{printed[m[1]]}```", text)
        replace_file(GUIDE, text.encode())


if __name__ == "__main__":
    main()
