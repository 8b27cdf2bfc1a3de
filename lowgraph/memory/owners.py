"""Who holds the device's memory: the pool's blocks by owner, and what lies outside of the pool."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lowgraph import driver
from lowgraph.memory.stats import PoolStats, counted, readable

if TYPE_CHECKING:
    from lowgraph.memory.pool import PersistentPool

__all__ = ["MemoryReport", "Share", "describe_address", "memory_report", "shares", "top_owners"]

_TOP = 5
_OF_POOL = ("slice", "graph", "primed", "workspace")  # kinds of shares


@dataclass(frozen=True)
class Share:
    """What one owner holds. nbytes: aligned.

    kind: "graph", "primed", "workspace" or "slice", of the pool; or "executable", outside of it.
    """

    kind: str
    name: str
    nbytes: int

    def __str__(self) -> str:
        """Return "graph 'step' 1.50 MiB"."""
        return f"{self.kind} {self.name!r} {readable(self.nbytes)}"


@dataclass(frozen=True)
class MemoryReport:
    """The device's memory at one moment, in bytes.

    free, total: of the device, as the driver says. pool: the pool's own figures. shares: the pool's
        held bytes by owner, the largest first. staging: pinned host memory, not the device's.
    executables: what each graph's executable took of the device when it was instantiated, measured
        as the difference of free memory, so that an allocation of another thread or process at
        that moment counts too. 0 where the driver had room in what it held before.
    outside: taken but not the pool's. driver: of that, what is no executable's: the context,
        modules, other processes.

    total = free + pool.reserved + executables + driver, and
    pool.reserved = the shares + pool.free.
    """

    free: int
    total: int
    pool: PoolStats
    shares: tuple[Share, ...]
    staging: int
    executables: tuple[Share, ...] = ()

    @property
    def outside(self) -> int:
        """See the class."""
        return self.total - self.free - self.pool.reserved

    @property
    def driver(self) -> int:
        """See the class."""
        return self.outside - self.of("executable")

    def of(self, kind: str) -> int:
        """Bytes of all shares of a kind."""
        shares = (*self.shares, *self.executables)
        return sum(share.nbytes for share in shares if share.kind == kind)

    def text(self, most: int = _TOP) -> str:
        """The report for people, one group a line; of the shares the `most` largest."""
        split = ", ".join(f"{kind} {readable(self.of(kind))}" for kind in _OF_POOL)
        left = self.shares[most:]
        lines = [
            f"device: {readable(self.free)} of {readable(self.total)} free, "
            f"{readable(self.outside)} outside the pool: executables "
            f"{readable(self.of('executable'))}, driver and other processes "
            f"{readable(self.driver)}",
            *(f"  {share}" for share in self.executables),
            self.pool.text(),
            f"  by owner: {split}; pinned host memory {readable(self.staging)}",
            *(f"  {share}" for share in self.shares[:most]),
        ]
        if left:
            rest = readable(sum(share.nbytes for share in left))
            lines.append(f"  {counted(len(left), 'more owner')} {rest}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """All figures in bytes, ready for JSON; `by_kind` adds up the owners."""
        return {
            "total": self.total,
            "free": self.free,
            "outside": self.outside,
            "driver": self.driver,
            "staging": self.staging,
            "pool": asdict(self.pool),
            "by_kind": {kind: self.of(kind) for kind in (*_OF_POOL, "executable")},
            "owners": [asdict(share) for share in (*self.shares, *self.executables)],
        }


def memory_report(pool: PersistentPool) -> MemoryReport:
    """Ask the driver and the pool; allowed in a window, where it records nothing."""
    free, total = driver.memory.info()
    executables = tuple(Share("executable", *one) for one in pool.executables())
    return MemoryReport(free, total, pool.stats(), shares(pool), pool.staging.nbytes, executables)


def top_owners(pool: PersistentPool, count: int = _TOP) -> str:
    """One line: free bytes of the device, and the pool's largest owners."""
    free, total = driver.memory.info()
    named = ", ".join(map(str, shares(pool)[:count])) or "nobody"
    return (
        f"{readable(free)} ({free} bytes) of {readable(total)} are free on the device; "
        f"the pool holds {readable(pool.stats().reserved)}, its top owners: {named}"
    )


def shares(pool: PersistentPool) -> tuple[Share, ...]:
    """The pool's held bytes by owner, the largest first."""
    sums: Counter[tuple[str, str]] = Counter()
    for piece, kind, name, nbytes in pool.holdings():
        workspace = kind == "slice" and pool.is_exclusive(piece)
        sums["workspace" if workspace else kind, name] += nbytes
    ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Share(kind, name, nbytes) for (kind, name), nbytes in ordered)


def describe_address(pool: PersistentPool, address: int) -> str:
    """What a device address is to the pool, for messages: a slice and its holders, or what else."""
    piece = pool.who_owns(address)
    if piece is not None:
        graphs = pool.holders(piece)
        held = f", held by {', '.join(graphs)}" if graphs else ""
        return f"byte {address - piece.root._address} of {piece!r}{held}"
    if pool.staging.covers(address):
        return f"{address:#x}, in a pinned staging slot"
    for block in pool.free_blocks():
        if block.address <= address < block.end:
            return f"{address:#x}, in a free block of {readable(block.nbytes)} of the pool"
    return f"{address:#x}, outside the pool"
