"""The series that is trained on without --data: a membrane's voltage, from matplotlib's examples.

matplotlib installs `membrane.dat`, 12 000 float32 values of one recording. A row holds the value at
its time and how it changed in each of the steps before; the label says whether the next value is
higher. What is known at a row lies before its label, so nothing tells the future.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from lowgraph.errors import ConfigError
from lowgraph.train.data import read_bytes
from lowgraph.train.series import Series, split_series

__all__ = ["MOST_FEATURES", "read_default_series"]

MOST_FEATURES = 32
"""A value and 31 changes; a model of fewer features takes the latest of them."""

_NAME = "membrane.dat"
_WITHOUT = "give --data FILE.csv or FILE.npy, or install it with: pip install 'lowgraph[plot]'"


def read_default_series() -> Series:
    """Read it from the matplotlib that is installed. Raises ConfigError when there is none."""
    try:
        import matplotlib
    except ImportError as error:
        raise ConfigError(f"the default series comes with matplotlib; {_WITHOUT}") from error
    path = Path(matplotlib.get_data_path(), "sample_data", _NAME)
    if not path.is_file():
        raise ConfigError(f"this matplotlib has no {_NAME} among its sample data; {_WITHOUT}")
    content = read_bytes(path)
    values = np.frombuffer(content, dtype="<f4").astype(np.float64)
    changes = np.diff(values)
    back = MOST_FEATURES - 1
    # changes[t - 1] leads to values[t]: rows are t = back .. n - 2, so that all changes are there.
    past = [changes[back - 1 - lag : len(changes) - 1 - lag] for lag in range(back)]
    features = np.stack([values[back:-1], *past], axis=1)
    train, heldout = split_series(features, (changes[back:] > 0).astype(np.float64))
    about = "a membrane's voltage and its latest changes; label: the next value is higher"
    digest = hashlib.sha256(content).hexdigest()
    return Series(f"matplotlib's {_NAME}", about, digest, train, heldout, lags=True)
