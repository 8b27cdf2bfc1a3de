"""Themes of the wider random sequences: calls that a sequence may draw beside the plain ones.

Each theme says what is made first, what may be drawn where, and what is asked at the end. Left out
is what a driver answers by chance or dies of: words that nobody stores, memory that is not there,
destroyed contexts, captures into graphs that are used meanwhile, objects that no graph holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["THEMES", "Theme", "Vocabulary"]

Weights = dict[str, int]


@dataclass(frozen=True)
class Vocabulary:
    """What a sequence draws from: steps by weight, what fills their holes, names it gives."""

    capture: Weights
    build: Weights
    use: Weights
    outside: Weights
    fixed: dict[str, tuple[str, ...]]
    names: dict[str, tuple[str, ...]]

    def with_theme(self, theme: Theme) -> Vocabulary:
        """Return it with a theme's steps, names and holes; a hole has the fillings of both."""
        fixed = {
            hole: self.fixed.get(hole, ()) + theme.fixed.get(hole, ())
            for hole in (*self.fixed, *theme.fixed)
        }
        return Vocabulary(
            _joined(self.capture, theme.capture, theme.without),
            _joined(self.build, theme.build, theme.without),
            _joined(self.use, theme.use, theme.without),
            _joined(self.outside, theme.outside, theme.without),
            fixed,
            self.names | theme.names,
        )


def _joined(plain: Weights, more: Weights, without: tuple[str, ...]) -> Weights:
    """Both tables, the second as likely as the first."""
    scale = max(1, sum(plain.values()) // max(1, sum(more.values())))
    both = plain | {step: weight * scale for step, weight in more.items()}
    return {step: weight for step, weight in both.items() if step not in without}


@dataclass(frozen=True)
class Theme:
    """One group of calls. `first` stands ahead of the drawn ones; `ends` ends its captures, and
    `last` asks once all work is done."""

    first: str = ""
    ends: str = ""
    last: str = ""
    capture: Weights = field(default_factory=dict)
    build: Weights = field(default_factory=dict)
    use: Weights = field(default_factory=dict)
    outside: Weights = field(default_factory=dict)
    fixed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    without: tuple[str, ...] = ()  # plain steps that the theme's objects would not outlive


# A word is only ever given one value, so that what it holds at the end does not depend on which
# stream came last; every wait is for what is there.
_WORDS = Theme(
    last="word w0; word w1; word w2",
    capture={
        "write_value {stream} w0 5": 4,
        "write_value {stream} w1 6 64": 3,
        "write_value {any} w2 7": 1,
        "write_value {stream} w0 5 32 0 2": 1,
        "wait_value {stream} {word} 0 geq": 4,
        "wait_value {stream} {word} 0 geq 64": 1,
        "wait_value {any} {word} 1 nor": 1,
        "batch {stream} write:w0:5+wait_eq:w0:5": 2,
        "batch {stream} write64:w1:6+write:w2:7+barrier": 2,
        "batch {stream} nothing": 1,
        "batch {stream} kind9": 1,
        "batch {stream} flush": 1,
        "callback {stream}": 1,
    },
    build={
        "add_batch {new_node} {graph} write:w0:5 home {node}": 4,
        "add_batch {new_node} {graph} write64:w1:6 home {node}": 2,
        "add_batch {new_node} {graph} write:w0:5+wait_geq:w2:0 home {node} {node}": 2,
        "add_batch {new_node} {graph} nothing home {node}": 1,
        "add_any_batch {new_node} {graph} write:w2:7": 2,
        "any_batch {node} write:w0:5": 1,
    },
    use={
        "batch_get {graph} {place}": 3,
        "batch_set {graph} {place} write:w2:7": 2,
        "batch_set {graph} {place} wait_geq:w0:0": 1,
        "exec_batch {exec} {graph} {place} write:w2:7": 6,
        "exec_batch {exec} {graph} {place} write:w0:5": 6,
        "exec_batch {exec} {graph} {place} wait_geq:w0:0": 1,
        "exec_any_batch {exec} {node} write:w2:7": 1,
    },
    outside={"callback {any}": 1},
    fixed={"word": ("w0", "w1", "w2")},
)
_MANAGED = Theme(
    first="managed_alloc p; pool_make n 1 device; pool_make hp 1 host",
    capture={
        "fill_of {stream} {target} 3": 4,
        "copy_of {stream} {target} {target}": 5,
        "copy_of {stream} pageable p": 1,
        "copy_rows_async {stream} 64 2": 1,
        "fill_rows_async {stream} 64 2": 1,
        "copies {stream} other<buffer,pinned<buffer": 2,
        "copies {stream} p<buffer any": 1,
        "copies {any} buffer<pageable call": 1,
        "prefetch p device {stream}": 1,
        "attach {stream} p 1": 1,
        "alloc_from n {new_memory} {stream}": 2,
        "alloc_from hp {new_memory} {stream}": 1,
    },
    build={
        "add_fill_of {new_node} {graph} {target} home {node}": 4,
        "add_copy_of {new_node} {graph} {target} {target} home {node}": 4,
    },
    use={
        "exec_fill_of {exec} {node} {target} home": 3,
        "exec_copy_of {exec} {node} {target} {target} home": 3,
        "node_get memcpy {graph} {place}": 2,
        "node_get memset {graph} {place}": 2,
        "copies {stream} other<buffer": 1,
        "prefetch p host {stream}": 1,
    },
    outside={
        "advise p read_mostly": 1,
        "advised p READ_MOSTLY": 1,
        "managed_alloc q": 1,
        "prefetch_batch {any} device p": 1,
        "pointers p": 1,
        "memops_set buffer 0": 1,
    },
    fixed={"target": ("p", "p", "buffer", "other", "pinned")},
)
_MAPPED = Theme(
    first="reserve r; physical h; map_to r h; access r",
    capture={
        "fill_of {stream} {target} 3": 4,
        "copy_of {stream} {target} {target}": 5,
        "copies {stream} r<buffer": 1,
    },
    build={
        "add_fill_of {new_node} {graph} {target} home {node}": 4,
        "add_copy_of {new_node} {graph} {target} {target} home {node}": 4,
    },
    use={
        "exec_fill_of {exec} {node} {target} home": 3,
        "exec_copy_of {exec} {node} {target} {target} home": 3,
        "node_get memcpy {graph} {place}": 1,
        "physical j": 1,
        "reserve q": 2,
        "map_to q j": 2,
        "access q": 2,
        "unmap q": 1,
        "unreserve q": 1,
    },
    outside={
        "access_of r": 1,
        "physical_of r h": 1,
        "range_of r": 1,
        "granularity": 1,
        "map_to r h": 1,
        "let_physical_go j": 1,
        "access_of q": 1,
    },
    fixed={"target": ("r", "r", "buffer", "other", "pinned")},
)
_CONTEXTS = Theme(
    first="ctx_create c; stream_create c.v; event_create c.e; alloc c.p; module_load c.m; "
    "take_function c.k c.m noop; function_load c.k; ctx_use home",
    # Both threads' default streams of both contexts end what they capture.
    ends="ctx_use c; end per_thread k; @ctx_use c; @end per_thread k; end c.v k; ctx_sync; "
    "ctx_use home; @ctx_use home; end per_thread k; @end per_thread k",
    last="ctx_which",
    capture={
        "launch c.v kernel=c.k": 6,
        "launch {stream} kernel=c.k": 2,
        "launch c.v": 1,
        "record c.e c.v": 5,
        "wait c.v {event}": 5,
        "wait {stream} c.e": 6,
        "record c.e {stream}": 1,
        "record {event} c.v": 1,
        "wait c.v c.e": 1,
        "record_external c.e c.v": 1,
        "wait_external {stream} c.e": 1,
        "fill_of c.v c.p": 2,
        "fill_of {stream} c.p": 2,
        "copy_of c.v buffer c.p": 2,
        "copy_of {stream} c.p buffer": 1,
        "alloc_async {new_memory} c.v": 1,
        "free_async {memory} c.v": 1,
        "capture_info c.v": 1,
        "begin c.v": 2,
        "end c.v {new_graph}": 1,
        "ctx_use {context}": 2,
    },
    build={
        "add_kernel_of {new_node} {graph} c.k {node}": 5,
        "add_fill_of {new_node} {graph} c.p {context} {node}": 3,
        "add_copy_of {new_node} {graph} c.p buffer {context} {node}": 3,
        "ctx_use {context}": 1,
    },
    use={
        "graph_launch {exec} c.v": 5,
        "node_kernel_of {node} c.k": 2,
        "exec_kernel_of {exec} {node} c.k": 3,
        "exec_kernel_of {exec} {node} noop2": 2,
        "exec_fill_of {exec} {node} c.p {context}": 2,
        "exec_copy_of {exec} {node} c.p buffer {context}": 2,
        "kernel_ctx {graph} {place}": 2,
        "upload {exec} c.v": 1,
        "sync c.v": 2,
        "ctx_use {context}": 2,
    },
    outside={
        "query c.v": 1,
        "event_query c.e": 1,
        "event_sync c.e": 1,
        "is_capturing c.v": 1,
        "stream_ctx {any}": 1,
        "ctx_which": 1,
        "fill_now c.p": 1,
        "launch legacy kernel=c.k": 1,
    },
    fixed={"context": ("c", "home", "home")},
)
_RANKED = Theme(
    first="stream_ranked r1 -5; stream_ranked r2 -1",
    ends="end r1 k; end r2 k",
    capture={
        "launch {stream} cluster=2 grid=2": 1,
        "launch {stream} cooperative=1": 1,
        "dependencies {stream} set": 1,
        "dependencies {stream} add": 1,
    },
    use={
        "attribute_get {graph} {place} {attribute}": 5,
        "attribute_set {graph} {place} priority {rank}": 4,
        "attribute_set {graph} {place} cooperative {bit}": 1,
        "attribute_set {graph} {place} cluster {blocks}": 1,
        "attributes_copy {graph} {place} {place}": 2,
        "instantiate_flags {graph} {new_exec} 8": 2,
        "exec_flags {exec}": 1,
    },
    outside={"stream_priority {any}": 1, "stream_flags {any}": 1},
    fixed={
        "stream": ("r1", "r1", "r2"),
        "any": ("r1", "r2"),
        "attribute": ("priority", "priority", "cooperative", "cluster"),
        "rank": ("-5", "-1", "0", "2"),
        "blocks": ("1", "2", "4"),
    },
)
_OBJECTS = Theme(
    first="object_create o 64",
    use={
        "graph_retain {graph} o 1 {bit}": 4,
        "object_retain o": 1,
        "object_release o": 1,
        "find_in_clone {node} {graph}": 3,
        "dependents {graph} {node}": 2,
        "roots {graph}": 2,
        "node_set memset {graph} {place} value=2 width=32": 2,
        "node_set kernel {graph} {place} grid=2": 1,
        "exec_set memset {exec} {graph} {place} height=2 pitch=256": 2,
        "node_get kernel {graph} {place}": 2,
        "node_get record {graph} {place}": 1,
        "node_get mem_alloc {graph} {place}": 1,
        "child_shape {graph} {place}": 2,
        "dot {graph}": 1,
        "instantiate_with {graph} {new_exec} {flags}": 4,
    },
    fixed={"flags": ("0", "1", "2", "8", "16")},
)
# Bodies are gone with their graph, so none is destroyed; a handle belongs to the node made with it.
_CONDITIONAL = Theme(
    build={
        "cond_add {new_cond} {graph} if 1": 4,
        "cond_add {new_cond} {graph} if 0 2": 2,
        "cond_add {new_cond} {graph} switch 1 2": 2,
        "cond_add {new_cond} {graph} while 0": 1,
        "body_add_child {body} {graph}": 6,
        "body_add_kernel {body}": 6,
        "cond_destroy {cond}": 1,
    },
    use={
        "cond_add {new_cond} {graph} if 1": 2,
        "body_add_kernel {body}": 2,
        "body_set_params {exec} {body} {bit}": 2,
        "body_set_enabled {exec} {body} 0 {bit}": 1,
        "cond_set_enabled {exec} {cond} {bit}": 1,
        "graph_nodes {body}": 2,
    },
    fixed={"body": ("q10", "q10", "q10", "q20", "q11")},
    names={"cond": ("q1", "q2")},
    without=("graph_destroy {graph}",),
)

THEMES = (_WORDS, _MANAGED, _MAPPED, _CONTEXTS, _RANKED, _OBJECTS, _CONDITIONAL)
