"""Graphs for the page's tests: of any size with branches, with hostile names, and changed ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lowgraph.debug.form import Argument, Attribute, Body, Form, Memory, Node

HOSTILE = "</script><img src=x onerror=\"document.title='hit'\"><!--"
BIDI = "abc\u202edcba\u2066\u200b\u05d0\u05d1"
LONG = "verylongname" * 300

_KERNELS = ("gemm_nt", "bias_add", "layernorm_forward", "gelu", "attention_forward")


def kernel(index: int, waits: Sequence[int], name: str = "", **more: object) -> Node:
    """A kernel node that reads two slices and writes one; memory is that of `memory`."""
    attributes: dict[str, Attribute] = {
        "source": "a.cu", "source_hash": "ab" * 32, "grid": (index + 1, 1, 1),
        "block": (128, 1, 1), "shared": 0, "cluster": (0, 0, 0), "cooperative": False,
    }  # fmt: skip
    fields = {"where": f"/home/me/step.py:{index + 1}", "attributes": attributes, **more}
    name = name or _KERNELS[index % len(_KERNELS)]
    return Node(index, 0, "kernel", name, waits=tuple(waits), **fields)  # type: ignore[arg-type]


def pointer(name: str, memory: Sequence[Memory], place: int, const: bool) -> Argument:
    ctype = "const float*" if const else "float*"
    data = memory[place].address.to_bytes(8, "little")
    return Argument(name, ctype, "Q", True, const, data, place, 0)


def form(nodes: Sequence[Node], memory: Sequence[Memory] = (), bodies: Sequence[Body] = ()) -> Form:
    bodies = bodies or (Body("step"),)
    return Form("step", "host", "lowgraph", tuple(memory), tuple(nodes), tuple(bodies))


def large(count: int) -> Form:
    """A chain in stages of 50 nodes, each with a branch beside it of a tenth of them."""
    memory = [
        Memory(f"slice {n}", 0x1000 + 0x800 * n, 1024 + 8 * (n % 90), n + 1, 1)
        for n in range(max(2, count // 5))
    ]
    nodes: list[Node] = []
    waits: tuple[int, ...] = ()
    for at in range(count):
        stage = f"{('forward', 'backward')[at * 2 >= count]}/layer {at // 50}"
        place = at // 5 % len(memory)
        arguments = (
            pointer("y", memory, place, False),
            pointer("x", memory, max(0, place - 1), True),
            Argument("n", "int", "i", False, None, (at % 1000).to_bytes(4, "little")),
        )
        in_turn = at % 50
        if in_turn == 10:
            branch, trunk = at - 1, at - 1  # five nodes beside the next ones
        if 10 <= in_turn < 15:
            nodes.append(kernel(at, (branch,) if at else (), stage=stage, arguments=arguments))
            branch = at
            continue
        if in_turn == 15:
            waits = (trunk,)
        elif in_turn == 30:
            waits = (at - 1, branch)
        nodes.append(kernel(at, waits, stage=stage, arguments=arguments))
        waits = (at,)
    return form(nodes, memory)


def forked() -> Form:
    """Two streams: a fork onto stream 1 of one stage, the captured stream's work beside it, a join,
    and a node of neither.
    """
    rows: tuple[tuple[tuple[int, ...], str, int | None], ...] = (
        ((), "begin", 0), ((0,), "side", 1), ((1,), "side", 1), ((0,), "main", 0),
        ((3,), "main", 0), ((4, 2), "", None), ((5,), "end", 0),
    )  # fmt: skip
    return form([kernel(at, waits, stage=stage, stream=stream)
                 for at, (waits, stage, stream) in enumerate(rows)])  # fmt: skip


def nested() -> Form:
    """A child graph of two in node 1, and a body whose node is not known."""
    inner = [replace(kernel(n, (n - 1,) if n > 3 else ()), body=1) for n in (3, 4)]
    nodes = [kernel(0, ()), Node(1, 0, "graph", "graph", waits=(0,)), kernel(2, (1,)), *inner,
             replace(kernel(5, ()), body=2)]  # fmt: skip
    return form(nodes, (), (Body("all"), Body("child", 1), Body("loop")))


def many_arguments(count: int) -> Form:
    """One node with so many of them."""
    memory = [Memory(f"m{n}", 0x1000 * (n + 1), 256, n + 1, 1) for n in range(count)]
    arguments = tuple(pointer(f"a{n}", memory, n, True) for n in range(count))
    return form([kernel(0, (), arguments=arguments)], memory)


def hostile() -> Form:
    """Names that would be markup, turn the text round them, or fill the page."""
    names = (HOSTILE, BIDI, LONG)
    memory = [
        Memory(name, 0x1000 * (n + 1), 256, n + 1, 1, "graph", name, n != 0, name[:4096])
        for n, name in enumerate(names)
    ]
    nodes = [
        kernel(n, (n - 1,) if n else (), name, stage=f"{name}/{name}"[:4096], where=name,
               arguments=(pointer(name, memory, n, False),))
        for n, name in enumerate(names)
    ]  # fmt: skip
    made = form(nodes, memory, (Body(HOSTILE),))
    return replace(made, label=HOSTILE, device=BIDI, notes=names)


def changed(old: Form) -> Form:
    """The same graph with a scalar, a grid and a pointer changed, and a node more at its end."""
    nodes = list(old.nodes)
    scalar = replace(nodes[3].arguments[2], data=(77).to_bytes(4, "little"))
    nodes[3] = replace(nodes[3], arguments=(*nodes[3].arguments[:2], scalar))
    nodes[5] = replace(nodes[5], attributes={**nodes[5].attributes, "grid": (9, 9, 1)})
    moved = pointer("y", old.memory, 4, False)
    nodes[7] = replace(nodes[7], arguments=(moved, *nodes[7].arguments[1:]))
    last = nodes[-1].index
    nodes.append(kernel(last + 1, (last,), "added_kernel", stage=nodes[-1].stage))
    return replace(old, nodes=tuple(nodes))
