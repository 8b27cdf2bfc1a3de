"""The host's side of the loss ring: mapped pinned memory that every step writes one record to."""

from __future__ import annotations

from lowgraph.errors import LowgraphError
from lowgraph.memory import PersistentPool
from lowgraph.ops.loss_ring import RECORD_DTYPE, LossRecord, clear_ring, read_ring

__all__ = ["MappedRing"]


class MappedRing:
    """`slots` records, in a staging slot of the pool, which also frees them.

    Attributes
    ----------
    slots: a step's record is overwritten this many steps later.
    device_address: of the first record, for the kernel that writes.
    """

    def __init__(self, pool: PersistentPool, slots: int) -> None:
        memory = pool.staging.slot("loss ring", (slots,), RECORD_DTYPE)
        self._records = memory.array
        self.slots = slots
        self.device_address = memory.device_address
        clear_ring(self._records)

    def read(self, first: int, count: int) -> list[LossRecord]:
        """Records of the `count` steps after step number `first`; they must be done.

        Raises LowgraphError when a record is not there: its step wrote none, or it was overrun.
        """
        records = []
        for step in range(first + 1, first + count + 1):
            record = read_ring(self._records, step)
            if record is None:
                raise LowgraphError(
                    f"the record of step {step} is not in the ring of {self.slots}: the step did "
                    "not write it, or more steps were issued than the ring holds"
                )
            records.append(record)
        return records
