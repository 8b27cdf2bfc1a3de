"""An atlas, and a summary of several logs, as lines for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowgraph.memory import counted
from lowgraph.train.atlas.arms import Arm, Cross
from lowgraph.train.atlas.atlas import Atlas
from lowgraph.train.atlas.rows import StageSummary, in_order
from lowgraph.train.atlas.saved import Change
from lowgraph.train.atlas.subject import by_stage

__all__ = ["change_lines", "stage_lines", "summary_text", "text_of"]

_RANKED = 12  # rows of the ranked table: the rest is in the JSON file
_CHANGED = 40  # kernels that differ between two logs, alike
_NO_STAGE = "(none)"


def text_of(atlas: Atlas) -> list[str]:
    """The whole atlas."""
    return [
        *stage_lines(atlas.stages, atlas.full.eager_stages_us),
        *_timers(atlas),
        *_ranked(atlas),
        *_ceilings(atlas),
        *_roadmap(atlas),
        *(line for arm in atlas.arms for line in _arm(arm, atlas.full.spread_us)),
        *(line for cross in atlas.crosses for line in _cross(cross)),
        *_undetermined(atlas),
    ]


def summary_text(names: Sequence[str], logs: Sequence[Sequence[StageSummary]]) -> list[str]:
    """Stages of several logs side by side: mean us of the warm window, and nodes or launches."""
    found = [{one.stage: one for one in log} for log in logs]
    stages = in_order(one.stage for log in logs for one in log)
    lines = [
        f"log {number}: {name}, {counted(log[0].steps, 'warm step')}"
        for number, (name, log) in enumerate(zip(names, logs, strict=True), 1)
    ]
    heads = [f"{f'us {n}':>12}{f'nodes {n}':>10}" for n in range(1, len(logs) + 1)]
    lines.append(f"{'stage':32}{''.join(heads)}" + ("   us last/first" if len(logs) > 1 else ""))
    lines += [_compared(stage, [log.get(stage) for log in found]) for stage in stages]
    sums = [sum(one.us for one in log if one.outermost) for log in logs]
    lines.append(f"{'step':32}" + "".join(f"{us:12.1f}{'':10}" for us in sums))
    return lines


def change_lines(changes: Sequence[Change]) -> list[str]:
    """Kernels of which the last log has another number than the first."""
    if not changes:
        return ["no kernel of any stage differs in number between the first log and the last"]
    lines = [f"{'kernels, first log > last':64}{'launches':>14}{'nodes':>14}"]
    for one in changes[:_CHANGED]:
        counts = (f"{before} > {after}" for before, after in (one.launches, one.nodes))
        numbers = "".join(f"{text:>14}" for text in counts)
        lines.append(f"{one.stage or _NO_STAGE:32}{one.kernel:32}{numbers}")
    rest = len(changes) - _CHANGED
    return [*lines, f"and {rest} more"] if rest > 0 else lines


def _compared(stage: str, found: Sequence[StageSummary | None]) -> str:
    cells = [f"{'-':>12}{'-':>10}" if one is None else _cell(one) for one in found]
    first, last = found[0], found[-1]
    ratio = ""
    if len(found) > 1 and first is not None and last is not None and first.us:
        ratio = f"{last.us / first.us:16.3f}"
    return f"{_indented(stage):32}{''.join(cells)}{ratio}"


def _cell(one: StageSummary) -> str:
    """Its nodes, or the launches of a log without a graph."""
    return f"{one.us:12.1f}{one.nodes or one.launches:10d}"


def stage_lines(
    stages: Sequence[StageSummary], eager_us: Mapping[str, float] | None = None
) -> list[str]:
    """A table of stages, and the step as their sum. eager_us: by stage, a column of its own."""
    eager = "" if eager_us is None else f"{'eager us':>11}"
    lines = [
        f"stages over the last {counted(stages[0].steps, 'step')}, inner ones included:",
        f"{'stage':32}{'launches':>9}{'nodes':>7}{'us':>11}{'own us':>11}{eager}",
    ]
    for one in stages:
        last = "" if eager_us is None else f"{eager_us.get(one.stage, 0.0):11.1f}"
        counts = f"{one.launches:9d}{one.nodes:7d}"
        lines.append(f"{_indented(one.stage):32}{counts}{one.us:11.1f}{one.own_us:11.1f}{last}")
    outer = [one for one in stages if one.outermost]
    sums = [sum(getattr(one, name) for one in outer) for name in ("launches", "nodes", "us")]
    return [*lines, f"{'step':32}{sums[0]:9d}{sums[1]:7d}{sums[2]:11.1f}"]


def _timers(atlas: Atlas) -> list[str]:
    full = atlas.full
    if full.why_no_graph:
        return [f"no graph ({full.why_no_graph}): a step takes {full.step_us:.1f} us on the device"]
    cost = full.timed_step_us - full.step_us
    return [
        f"a replay takes {full.step_us:.1f} us on the device, with "
        f"{counted(full.event_nodes, 'event node')} {full.timed_step_us:.1f} us: the timers cost "
        f"{cost:.1f} us ({_percent(cost, full.step_us)}; {_evidence(cost, full.spread_us)})"
    ]


def _ranked(atlas: Atlas) -> list[str]:
    found = atlas.populations
    prices = atlas.prices
    what = "nodes" if atlas.nodes else "launches"
    head = f"{'stage':32}{'kernel':32}{'launches':>9}{'nodes':>7}{'share':>8}{'eager us':>10}"
    lines = [
        f"ranked by share of {what}; price of an empty kernel: {prices.launch_us:.2f} us launched, "
        f"{prices.node_us:.2f} us as a node",
        f"{head}{'node us':>9}",
    ]
    lines += [
        f"{one.stage or _NO_STAGE:32}{one.kernel:32}{one.launches:9d}{one.nodes:7d}"
        f"{100 * one.share:7.1f}%{one.eager_us:10.1f}{one.replay_us:9.1f}"
        for one in found[:_RANKED]
    ]
    rest = found[_RANKED:]
    if rest:
        share = sum(one.share for one in rest)
        lines.append(f"and {len(rest)} more, {100 * share:.1f}% in all")
    return lines


def _ceilings(atlas: Atlas) -> list[str]:
    full = atlas.full
    lines = [
        f"ceiling, eager: {full.eager_us:.1f} us a step; {_launches(atlas.launches)} "
        f"priced at {atlas.launches * atlas.prices.launch_us:.1f} us; free, they would leave "
        f"{atlas.eager_ceiling_us:.1f} us"
    ]
    if atlas.nodes:
        lines.append(
            f"ceiling, graph: {full.step_us:.1f} us a step; {counted(atlas.nodes, 'node')} "
            f"priced at {atlas.nodes * atlas.prices.node_us:.1f} us; free, they would leave "
            f"{atlas.replay_ceiling_us:.1f} us"
        )
    return lines


def _roadmap(atlas: Atlas) -> list[str]:
    if not atlas.merges:
        return ["merge roadmap: no small kernels of one stage follow each other"]
    lines = ["merge roadmap: small kernels of a stage that follow each other"]
    for merge in atlas.merges[:_RANKED]:
        us = merge.saved * atlas.prices.node_us
        chain = " > ".join(merge.kernels)
        lines.append(
            f"  {merge.stage or _NO_STAGE}: {chain}, {counted(merge.times, 'time')}: "
            f"{counted(merge.saved, 'node')} fewer, {us:.1f} us"
        )
    rest = atlas.merges[_RANKED:]
    return [*lines, f"  and {len(rest)} more"] if rest else lines


def _arm(arm: Arm, spread_us: float) -> list[str]:
    more_or_less = "less" if arm.us >= 0 else "more"
    lines = [
        f"without {' and '.join(arm.off)}: {_launches(sum(arm.launches.values()))} and "
        f"{counted(sum(arm.nodes.values()), 'node')} fewer, {abs(arm.us):.1f} us "
        f"{more_or_less} ({_evidence(arm.us, spread_us)})"
    ]
    nodes = by_stage(arm.nodes)
    for stage, count in by_stage(arm.launches, nodes).items():
        counts = f"{_launches(count)}, {counted(nodes.get(stage, 0), 'node')}"
        lines.append(f"  {stage or _NO_STAGE}: {counts}")
    for (stage, kernel), count in arm.new_launches.items():
        more = counted(count, "time")
        lines.append(f"  {stage or _NO_STAGE}: {kernel} {more} more without")
    return lines


def _cross(cross: Cross) -> list[str]:
    pair = " and ".join(cross.arms)
    lines = [f"{pair} together: {_launches(sum(cross.both.launches.values()))} fewer"]
    for stage, count in cross.joint_launches.items():
        where = stage or _NO_STAGE
        if count > 0:
            told = f"{_launches(count)} with both on only; whose they are no toggle says"
        else:
            told = f"{_launches(-count)} with either one on, or both"
        lines.append(f"  {where}: {told}")
    if not cross.joint_launches:
        lines.append("  nothing joint: the two populations add up in every stage")
    return [*lines, f"  their times add up but for {cross.joint_us:.1f} us"]


def _undetermined(atlas: Atlas) -> list[str]:
    """What the toggles leave open."""
    if not atlas.arms:
        return []
    hidden = "a launch that takes the place of an equal one leaves no difference"
    if len(atlas.arms) > 2:
        return [
            "undetermined: what three arms have in common (crosses are of two), and so how many "
            f"launches are in every run; {hidden}"
        ]
    known = sum(sum(arm.net_launches.values()) for arm in atlas.arms)
    joint = sum(sum(cross.joint_launches.values()) for cross in atlas.crosses)
    rest = atlas.launches - known + joint
    return [
        f"undetermined: {rest} of {atlas.launches} launches are in every run, which no toggle "
        f"divides; {hidden}"
    ]


def _indented(stage: str) -> str:
    outer, _, name = stage.rpartition("/")
    return "  " * (outer.count("/") + 1) + name if outer else stage or _NO_STAGE


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f}%" if whole else "-"


def _launches(count: int) -> str:
    return f"{count} launch{'' if count == 1 else 'es'}"


def _evidence(difference: float, spread: float) -> str:
    """What a difference of medians is worth beside how much single steps differ."""
    beyond = "beyond" if abs(difference) > spread else "within"
    return f"{beyond} the {spread:.1f} us by which single steps differ"
