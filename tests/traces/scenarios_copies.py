"""Copy and memset nodes over memory of every kind: what they tell, and what an executable takes.

A copy's ends are told as device or host memory by the call, or by their addresses alone.
"""

from __future__ import annotations

from tests.traces.scenario import Scenario

# Two places of each kind, so that a change stays within it or not.
_MEMORY = (
    "managed_alloc p; reserve r; physical h; map_to r h; access r; pool_make n 1 host; "
    "alloc_async q s; alloc_from n hq s; sync s; ctx_create c; alloc c.p; ctx_use home"
)
_KINDS = {
    "device": "other", "pinned": "pinned", "managed": "p", "mapped": "r", "a pool's": "q",
    "a pool's of the host": "hq", "another context's": "c.p",
}  # fmt: skip


def _sets(call: str) -> str:
    """The executable made anew ahead of each, so that none follows what another one set."""
    return "; ".join(f"instantiate g x; {call.format(name)}" for name in _KINDS.values())


def _updates(add: str) -> str:
    return "; ".join(
        f"graph_create h{n}; {add.format(f'b{n} h{n}', name)}; instantiate g x; update x h{n}"
        for n, name in enumerate(_KINDS.values())
    )


_SIDES = (
    ("to", "add_copy_of {} {} buffer home", "exec_copy_of x a {} buffer home"),
    ("from", "add_copy_of {} buffer {} home", "exec_copy_of x a buffer {} home"),
    ("within", "add_copy_of {0} {1} {1} home", "exec_copy_of x a {0} {0} home"),
)


def _over_kinds() -> list[Scenario]:
    found = []
    for kind, name in _KINDS.items():
        for side, add, setter in _SIDES:
            made = f"{_MEMORY}; graph_create g; {add.format('a g', name)}; node_get memcpy g 0"
            title = f"memcpy node {side} {kind} memory"
            found.append(Scenario(f"{title}: set to every kind", f"{made}; {_sets(setter)}"))
            found.append(Scenario(f"{title}: updated to every kind", f"{made}; {_updates(add)}"))
        fill = "add_fill_of {} {} home"
        made = f"{_MEMORY}; graph_create g; {fill.format('a g', name)}; node_get memset g 0"
        sets = _sets("exec_fill_of x a {} home")
        title = f"memset node of {kind} memory"
        found.append(Scenario(f"{title}: set to every kind", f"{made}; {sets}"))
        found.append(Scenario(f"{title}: updated to every kind", f"{made}; {_updates(fill)}"))
    return found


_FORMS = {
    "told device to device": "graph_create {0}; add_copy {0}a {0}",
    "told pinned to device": "graph_create {0}; add_copy {0}a {0}; node_set memcpy {0} 0 kind=htod",
    "by address, device to device": "graph_create {0}; add_copy_of {0}a {0} other buffer home",
    "by address, pinned to device": "graph_create {0}; add_copy_of {0}a {0} other pinned home",
    "by address, device to pinned": "graph_create {0}; add_copy_of {0}a {0} pinned buffer home",
    "captured, device to device": "begin s; copy_dtod_async s; end s {0}",
    "captured, pinned to device": "begin s; copy_htod_async s; end s {0}",
    "captured, device to pinned": "begin s; copy_dtoh_async s; end s {0}",
    "captured, pageable to device": "begin s; copy_htod_async s pageable; end s {0}",
    "captured by address, device to device": "begin s; copy_of s other buffer; end s {0}",
    "captured by address, pinned to device": "begin s; copy_of s other pinned; end s {0}",
    "captured by address, to pageable": "begin s; copy_of s pageable buffer; end s {0}",
    "captured by address, to itself": "begin s; copy_of s buffer buffer; end s {0}",
}


def _over_forms() -> list[Scenario]:
    found = []
    seconds = "; ".join(
        f"{form.format(f'h{n}')}; instantiate g x; update x h{n}"
        for n, form in enumerate(_FORMS.values())
    )
    told = "; ".join(f"instantiate g x; exec_copy x g 0 {kind} 64" for kind in ("dtod", "htod"))
    for name, form in _FORMS.items():
        made = f"{form.format('g')}; node_get memcpy g 0"
        found.append(Scenario(f"memcpy node {name}: set as told", f"{made}; {told}"))
        found.append(Scenario(f"memcpy node {name}: updated to every form", f"{made}; {seconds}"))
        if form.startswith("graph"):
            unified = "; ".join(
                f"instantiate g x; exec_copy_of x ga {target} {source} home"
                for target, source in (("other", "buffer"), ("other", "pinned"),
                                       ("pinned", "buffer"), ("pinned", "pinned"))
            )  # fmt: skip
            found.append(Scenario(f"memcpy node {name}: set by address", f"{made}; {unified}"))
    return found


_TOLD = (
    ("kept by a clone", "graph_create g; add_copy_of a g other buffer home; graph_clone g k; "
     "node_get memcpy k 0"),
    ("of a child graph", "graph_create k; add_copy_of a k other buffer home; graph_create g; "
     "add_child b g k; instantiate g x; graph_create h; graph_create l; add_copy c l; "
     "add_child d h l; update x h; exec_child x g 0 l"),
    ("set to told kinds in a graph", "graph_create g; add_copy_of a g other buffer home; "
     "node_set memcpy g a; node_get memcpy g 0; node_set memcpy g a kind=htod; "
     "node_get memcpy g 0"),
    ("of two contexts", "ctx_create c; alloc c.p; ctx_use home; begin s; "
     "copy_of s c.p buffer; end s g; node_get memcpy g 0"),
)  # fmt: skip

SCENARIOS = (
    *_over_kinds(),
    *_over_forms(),
    *(Scenario(f"memcpy node by address: {name}", text) for name, text in _TOLD),
)
