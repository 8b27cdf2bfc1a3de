"""Recorded scenarios and random sequences that the host device does not answer as the recorded
driver did, and why.

A scenario's key is matched as a prefix, so that one row serves every mode. A row whose scenarios
all agree, or a sequence that does, fails the conformance test: it has to go.
"""

from __future__ import annotations

_GONE = (
    "the driver looks into freed memory: the same call on a stream of a destroyed context is 709 "
    "in one run and 201 in another ('begin c.v'); the host device says 400 of a handle that went "
    "with its context, and 1 of such memory"
)

NOT_ON_HOST: dict[str, str] = {
    "contexts: a destroyed one's, ": _GONE,
    "contexts: the current one destroyed by another thread, stream_destroy c.v": _GONE,
    "words: written, memory of the pool": "it reads fresh memory, which holds a pattern here "
    "(docs/host-device.md, check build); that the write is refused is compared by hand in "
    "tests/hostdev/graphs/test_words.py",
    "cluster size as the kernel sees it": "a kernel that names clusters is refused on the "
    "host device (docs/kernels.md), and one that could ask for their size alone would find nothing "
    "to do with it; the codes, attributes and update results of the same launches are compared "
    "under 'update: cluster size'",
    **dict.fromkeys(
        (
            "attributes of nodes: updatable of a node",
            "attribute of a kernel node: updatable by the device",
            "attribute of a captured launch: updatable by the device",
        ),
        "no kernel of the host device can update a node, so a node made for it is refused: 801",
    ),
    "pointer: bytes that are written": "what the driver says of shareable handles, access flags, "
    "mappings and memory blocks is recorded as a number of bytes alone, without a value that could "
    "be answered: 1 here; the widths of the others are compared by hand in "
    "tests/hostdev/driver/test_driver_memory.py",
    "calls by their versions": "the forms that CUDA 10 to 12 replaced in five of these calls are "
    "missing: what they do is not recorded, and neither bindings 12.9 nor 13 ask for them; the "
    "other rows are compared by hand in tests/hostdev/driver/test_driver_procs.py",
    "conditional: handles of two graphs are one number": "a handle here names one condition of the "
    "process, so that a kernel which sets the condition of another graph is seen: by the driver's "
    "small numbers it would set one of its own graph's, without a word",
}

_STALE_BODY = (
    "it asks about the body of a conditional node that is destroyed, and the driver answers for "
    "what lies at that address since: 0 for two of these seeds, 1 for the third; it is not asked"
)

# By seed.
SEQUENCES_NOT_ON_HOST: dict[int, str] = {
    700_034: "it destroys a conditional node twice, and the driver destroys the node of another "
    "graph that has its address since; of the same call seed 700706 dies, and the host device says "
    "1 of a node that is gone",
    **dict.fromkeys((700_369, 700_513, 700_730), _STALE_BODY),
}


def reason_for(key: str) -> str | None:
    """Why the host device is excused from a run, or None."""
    return next((why for start, why in NOT_ON_HOST.items() if key.startswith(start)), None)
