"""Red zones: bytes behind each variable of a kernel image that belong to none.

The compiler lays an image's variables side by side, so one element past the end of an array would
be the first of its neighbour, and nobody could tell. The check build looks at each access; the
plain one at the zones beside a kernel's `__shared__` variables when a block ends
(src/shared_gaps.h). The gap is made in the assembly text, behind what the compiler reserves: the
symbols keep their sizes.
"""

from __future__ import annotations

import re

__all__ = ["RED_ZONE", "add_red_zones"]

RED_ZONE = 256  # bytes; red_zone in src/check_shared.h, smallest_gap in src/shared_gaps.cpp

# In front of the first `__shared__` variable.
_HEAD = f'\t.section\t.tbss,"awT",@nobits\n\t.zero\t{RED_ZONE}\n\t.text\n'

# A variable as g++ and clang++ write it: its size, its label, then its bytes to the next directive
# that is no data.
_DATA = r"\.(?:zero|byte|value|short|long|quad|string|asciz|ascii|single|float|double)\b"
_VARIABLE = re.compile(
    r"^\t\.type\t(?P<name>[\w.$]+), ?@object\n"
    r"(?:\t\.(?:size|globl|weak|hidden|local|align|p2align|section|data|bss)\b.*\n)*"
    r"(?P=name):\n"
    rf"(?:\t{_DATA}.*\n)+",
    re.MULTILINE,
)


def add_red_zones(assembly: str) -> str:
    """Put RED_ZONE bytes behind each variable that is not the host device's own."""

    def widened(match: re.Match[str]) -> str:
        own = "lowgraph" in match["name"] or match["name"].startswith(".L")
        return match[0] if own else f"{match[0]}\t.zero\t{RED_ZONE}\n"

    return _HEAD + _VARIABLE.sub(widened, assembly)
