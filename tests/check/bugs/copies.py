"""Seeded bugs: asynchronous copies that are not waited for as long as they must be."""

from __future__ import annotations

from tests.check.bugs.bug import Bug

COPIES = (
    Bug(
        name="attention_mma_one_tile_too_few",
        file="attention_mma.cu", kernel="attention_mma_backward_query", kind="uninitialised-read",
        scenario="attention_mma_backward",
        old="        wait_for_tile();\n        start_tile_ahead(tiles, stage, keys, first);\n"
            "        for (int part",
        new="        wait_for_batches<STAGES - 1>();\n        __syncthreads();\n"
            "        start_tile_ahead(tiles, stage, keys, first);\n        for (int part",
        through=("multiply_rows", "add_weighted", "load_matrices", "load_transposed"),
        other_kinds=(("shared-race", "a later wait brings the tile while others read it"),),
        why="Batches up to the tile that is needed may be under way, and its own is one of them.",
    ),
    Bug(
        name="cross_entropy_wide_one_turn_too_few",
        file="cross_entropy_wide.cu", kernel="cross_entropy_wide_forward_backward",
        kind="uninitialised-read", scenario="cross_entropy_wide_room",
        old="        wait_for_batches<AHEAD - 1>();", new="        wait_for_batches<AHEAD>();",
        at=("        add_turn<true>(&own, copies, turn, kept);",),
        through=("add_turn", "widen_vector"),
        why="As many batches may be under way as have been closed since the turn's own, and that.",
    ),
    Bug(
        name="ssd_short_no_batch_awaited",
        file="ssd_short.cu", kernel="ssd_short_forward", kind="uninitialised-read",
        scenario="ssd_short",
        old="    wait_for_batches<1>();\n    make_factors(w.c);",
        new="    wait_for_batches<2>();\n    make_factors(w.c);",
        through=("make_factors", "load_quad", "add_product", "along_sum"),
        why="b and c are in the first of two batches, and both may be under way.",
    ),
)  # fmt: skip
