"""The table of seeded bugs: all of them, by name."""

from __future__ import annotations

from tests.check.bugs.addresses import ADDRESSES
from tests.check.bugs.batches import BATCHES
from tests.check.bugs.biases import BIASES
from tests.check.bugs.bounds import BOUNDS
from tests.check.bugs.copies import COPIES
from tests.check.bugs.global_races import GLOBAL
from tests.check.bugs.linear import LINEAR
from tests.check.bugs.linear_norm import LINEAR_NORM
from tests.check.bugs.mamba import MAMBA
from tests.check.bugs.mamba_backward import MAMBA_BACKWARD
from tests.check.bugs.memory import MEMORY
from tests.check.bugs.mma import MMA
from tests.check.bugs.optimizer import OPTIMIZER
from tests.check.bugs.shared_races import SHARED
from tests.check.bugs.ssd_chunks import SSD_CHUNKS
from tests.check.bugs.ssd_short import SSD_SHORT
from tests.check.bugs.transformer import TRANSFORMER
from tests.check.bugs.waits import WAITS

BUGS = (
    BOUNDS + ADDRESSES + MEMORY + SHARED + GLOBAL + WAITS + MAMBA + OPTIMIZER
    + MMA + SSD_SHORT + BATCHES + MAMBA_BACKWARD + SSD_CHUNKS + LINEAR + TRANSFORMER
    + LINEAR_NORM + COPIES + BIASES
)  # fmt: skip
BY_NAME = {bug.name: bug for bug in BUGS}
