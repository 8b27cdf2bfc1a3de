"""Launches a kernel of endless.cu, then asks what became of it: `endless.py KERNEL`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from lowgraph import Library, PersistentPool, open_device
from lowgraph.driver import stream as streams
from lowgraph.errors import DriverError
from lowgraph.memory import upload

if __name__ == "__main__":
    device = open_device("auto" if len(sys.argv) < 3 else sys.argv[2])
    library, pool, stream = Library(device), PersistentPool(device), streams.create()
    y = pool.take("y", (32,))
    upload(y, np.zeros(32, np.float32), stream)
    library.kernel(Path(__file__).with_name("endless.cu"), sys.argv[1])(stream, 2, 32, y, 32)
    try:
        streams.synchronize(stream)
    except DriverError as error:
        sys.exit(f"driver: {error}")
    print("went on")
