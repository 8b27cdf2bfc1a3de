"""What a kernel that begins with grid_wait() became: nothing of global memory ahead of its wait.

The source alone does not tell (tests/kernel_library/test_grid_wait.py): the compiler moves a read
through the read-only cache ahead of the wait, and the cache keeps no order with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

__all__ = ["misplaced"]

_ENTRY = re.compile(r"\.entry (\w+)\(")
_WAIT = "griddepcontrol.wait"
# Of global or generic memory; ld.param, ld.shared, ld.local and ld.const are none of either.
_TOUCHES = re.compile(
    r"^\s*(?:@!?%p\d+ )?((?:ld|st|atom|red|prefetch|cp)(?!\.(?:param|shared|local|const))[.\w:]*)",
    re.MULTILINE,
)
_READ_ONLY = re.compile(r"ld\.global\.(?:L\w+\.)*nc")
_TABLE = "__cudart_"  # constant tables of the compiler's own functions (cos), which nobody writes


def misplaced(ptx: str, waiting: Sequence[str]) -> Iterator[str]:
    """Yield a line for what is wrong with each of the kernels that are to wait, if anything is."""
    parts = _ENTRY.split(ptx)
    bodies = dict(zip(parts[1::2], parts[2::2], strict=True))
    for name in waiting:
        if name not in bodies:  # left out by these defines
            continue
        before, wait, behind = bodies[name].partition(_WAIT)
        if not wait:
            yield f"kernel {name} has no {_WAIT}"
            continue
        early = _TOUCHES.search(before)
        if early is not None:
            yield f"kernel {name}: {early.group(1)} stands ahead of {_WAIT}"
        if _TABLE not in behind and _READ_ONLY.search(behind):
            yield (
                f"kernel {name} reads through the read-only cache: include common/grid_wait.cuh "
                "ahead of all else, and leave __ldg out"
            )
