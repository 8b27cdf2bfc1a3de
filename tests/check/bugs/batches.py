"""Seeded bugs in the kernels of staged batches, and of an evaluation's losses."""

from __future__ import annotations

from tests.check.bugs.bug import Bug

_READS = ("if (first) here = *reinterpret_cast<const float4*>(slot + at);",
          "if (second) there = *reinterpret_cast<const float4*>(slot + at + 512);")  # fmt: skip

EVALUATION = (
    Bug(
        name="evaluation_one_slot_more",
        file="evaluation.cu", kernel="evaluation_record", kind="out-of-bounds",
        scenario="evaluation",
        old="if (done >= slots) return;", new="if (done > slots) return;",
        at=("losses[done] = loss[0];",),
        why="The batch behind the last slot is written after the losses' end.",
    ),
    Bug(
        name="evaluation_cursor_not_zeroed",
        file="evaluation.cu", kernel="evaluation_record", kind="uninitialised-read",
        scenario="evaluation", old="", new="", fault="cursor not zeroed",
        at=("long long done = cursor[0];",),
        why="The first batch reads a cursor that nobody has set to zero.",
    ),
    Bug(
        name="evaluation_on_two_streams",
        file="evaluation.cu", kernel="evaluation_record", kind="node-race",
        scenario="evaluation", old="", new="", fault="second stream",
        why="Two batches on streams that nothing orders move the same cursor.",
    ),
)  # fmt: skip

STAGED = (
    Bug(
        name="staged_never_around",
        file="staged.cu", kernel="staged_copy", kind="out-of-bounds", scenario="staged",
        old="ring + (counter[0] + ahead) % slots * elements;",
        new="ring + (counter[0] + ahead) * elements;",
        at=_READS,
        why="The fifth batch is read behind a ring of three slots.",
    ),
    Bug(
        name="staged_one_guard_for_both",
        file="staged.cu", kernel="staged_copy", kind="out-of-bounds", scenario="staged",
        old="if (second) *reinterpret_cast<float4*>(out + at + 512) = there;",
        new="if (first) *reinterpret_cast<float4*>(out + at + 512) = there;",
        why="The second block's threads write both of their quads where only the first exists.",
    ),
    Bug(
        name="staged_ring_behind_a_float",
        file="staged.cu", kernel="staged_copy", kind="misaligned", scenario="staged",
        old="", new="", fault="behind a float", at=_READS,
        why="The ring begins 4 bytes off, and is read 16 bytes at once.",
    ),
    Bug(
        name="staged_plain_array",
        file="staged.cu", kernel="staged_copy", kind="host-pointer", scenario="staged",
        old="", new="", fault="plain array", at=_READS,
        why="The ring is ordinary memory of the host, which a kernel must not read.",
    ),
)  # fmt: skip

BATCHES = EVALUATION + STAGED
