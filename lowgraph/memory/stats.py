"""Figures of the pool: plain data, and the text made from it apart."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PassFigures", "PoolStats", "counted", "readable"]


def readable(nbytes: int) -> str:
    """Bytes in the largest unit that keeps them above one: "1.50 MiB"."""
    value = float(nbytes)
    for unit in ("bytes", "KiB", "MiB"):
        if value < 1024:
            return f"{int(value)} bytes" if unit == "bytes" else f"{value:.2f} {unit}"
        value /= 1024
    return f"{value:.2f} GiB"


def counted(number: int, thing: str) -> str:
    """A number and what is counted, which takes a plain -s: "1 slice", "0 slices"."""
    return f"{number} {thing}" + ("" if number == 1 else "s")


@dataclass(frozen=True)
class PassFigures:
    """What one pass took from the pool; sizes in bytes, rounded up to the alignment.

    slices, bytes: what it was handed out in all, each request counted.
    peak: the most that was held at one moment.
    grown: what the driver had to provide.
    used: bytes of memory that it touched, blocks handed out twice counted once. For a window this
        is what its graph retains, and for a priming pass what is kept for that.
    """

    slices: int = 0
    bytes: int = 0
    peak: int = 0
    grown: int = 0
    used: int = 0

    def text(self) -> str:
        """One line."""
        return (
            f"{counted(self.slices, 'slice')}, {readable(self.bytes)} in all over "
            f"{readable(self.used)}, peak {readable(self.peak)}, grown by {readable(self.grown)}"
        )


@dataclass(frozen=True)
class PoolStats:
    """The pool at one moment; sizes in bytes, rounded up to the alignment.

    reserved = live + primed + retained + free:
    reserved: held from the driver. live: in slices that no graph holds. primed: kept for the next
    window. retained: held by graphs. free: ready to be taken. largest_free: the largest block.
    peak_live: the most that was live at one moment, windows included.
    takes, gives, driver_allocs, driver_frees, refused: events since the pool was made.
    """

    reserved: int
    live: int
    primed: int
    retained: int
    free: int
    largest_free: int
    peak_live: int
    slices: int
    takes: int
    gives: int
    driver_allocs: int
    driver_frees: int
    refused: int

    def text(self) -> str:
        """One line."""
        return (
            f"pool: {readable(self.reserved)} reserved ({readable(self.live)} live in "
            f"{counted(self.slices, 'slice')}, {readable(self.retained)} retained by graphs, "
            f"{readable(self.primed)} primed, {readable(self.free)} free), "
            f"{counted(self.driver_allocs, 'driver allocation')}"
        )
