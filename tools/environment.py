"""Write what a measurement depends on: python tools/environment.py FILE [--stamp FOLDER].

FILE gets one JSON object: gpu, driver, versions, commit, time. With --stamp, every JSON object in
FOLDER that lacks these keys gets them too, so that no figure is without its origin.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PACKAGES = ("cuda-bindings", "cupy-cuda13x", "cupy-cuda12x", "nvmath-python", "numpy", "torch",
            "jax")  # fmt: skip
ROOT = Path(__file__).resolve().parents[1]


def commit() -> str:
    """LOWGRAPH_COMMIT, or what git says; "+changes" when the checkout differs from it."""
    told = os.environ.get("LOWGRAPH_COMMIT")
    if told:
        return told
    head = _git("rev-parse", "HEAD")
    if not head:
        return "unknown"
    return head + ("+changes" if _git("status", "--porcelain") else "")


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _nvidia_smi(field: str) -> str:
    """A field of the first GPU, from the driver's own tool; "none" without one."""
    command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader", "--id=0"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "none"
    return done.stdout.strip() if done.returncode == 0 else "none"


def versions() -> dict[str, str]:
    """Python's version and those of the packages that are there."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def environment() -> dict[str, Any]:
    """The object that FILE gets."""
    return {
        "gpu": _nvidia_smi("name"),
        "driver": _nvidia_smi("driver_version"),
        "versions": versions(),
        "commit": commit(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def stamp(folder: Path, facts: dict[str, Any]) -> None:
    """Add the facts to each JSON object of the folder that lacks them; its own keys win."""
    for path in folder.glob("*.json"):
        # Places in the checkout are told from its root, whichever machine it lay on.
        data = json.loads(path.read_text(encoding="utf-8").replace(f"{ROOT}/", ""))
        # A trace keeps one call a line, so that two recordings compare; it has its own facts.
        if isinstance(data, dict) and "scenarios" not in data:
            path.write_text(json.dumps({**facts, **data}, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--stamp", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    facts = environment()
    options.file.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    if options.stamp:
        stamp(options.stamp, facts)
    print(json.dumps(facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
