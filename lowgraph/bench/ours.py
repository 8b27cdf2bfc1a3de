"""The process of lowgraph's arms: python -m lowgraph.bench.ours, driven over pipes (`serve`)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from lowgraph.bench.chain import open_chain
from lowgraph.bench.serve import Arm, serve
from lowgraph.bench.training import open_training
from lowgraph.bench.update import open_update

_OPENERS: dict[str, Callable[[Mapping[str, Any]], Mapping[str, Arm]]] = {
    "chain": open_chain,
    "train": open_training,
    "update": open_update,
}


if __name__ == "__main__":
    sys.exit(serve(lambda spec: _OPENERS[spec["kind"]](spec)))
