"""Arms: a step run with parts of it left out, and what the differences say.

The population of an arm is what a step loses when the arm is off. Of two arms together a step may
lose less than the sum of both, where launches need each of them: these are *joint*, and no toggle
says whose they are. Only differences are seen: a launch that takes the place of another of the same
kernel in the same stage leaves none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from lowgraph.errors import ConfigError
from lowgraph.stages import without
from lowgraph.train.atlas.measure import Measured, measure
from lowgraph.train.atlas.rows import summarise
from lowgraph.train.atlas.subject import Kernels, Subject, by_stage

__all__ = ["Arm", "Cross", "chosen_arms", "measure_arms"]


@dataclass(frozen=True)
class Arm:
    """What a step has only with these arms on, and only with them off (`new_*`).

    us: that a step takes less without, on the device (the median), below zero if it takes more.
    own_us: the same of each stage by itself, between the means of the warm windows, timers and all.
    """

    off: tuple[str, ...]
    launches: Kernels
    nodes: Kernels
    new_launches: Kernels
    new_nodes: Kernels
    us: float
    own_us: dict[str, float]

    @property
    def net_launches(self) -> Kernels:
        """Launches by stage and kernel that the step has more with the arms on."""
        return _minus(self.launches, self.new_launches)

    @property
    def net_nodes(self) -> Kernels:
        """Nodes alike."""
        return _minus(self.nodes, self.new_nodes)


@dataclass(frozen=True)
class Cross:
    """Two arms, both off, against each off alone.

    both: what the step loses with both off. joint_launches, joint_nodes: by stage, what the sum of
    the two populations counts more than that: above zero launches that need both arms, below zero
    launches that need one of them, whichever. joint_us alike.
    """

    arms: tuple[str, str]
    both: Arm
    joint_launches: dict[str, int]
    joint_nodes: dict[str, int]
    joint_us: float


def chosen_arms(known: Sequence[str], asked: Sequence[str] | None) -> tuple[str, ...]:
    """The arms to turn off: those asked for, or all known. Raises ConfigError for an unknown one.

    known: that the step entered.
    """
    wrong = [name for name in asked or () if name not in known]
    if wrong:
        told = ", ".join(known) or "none"
        raise ConfigError(f"--arms {','.join(wrong)}: no such arm; the step has {told}")
    return tuple(known if asked is None else dict.fromkeys(asked))


def measure_arms(
    subject: Subject, full: Measured, names: Sequence[str], steps: int, graph: bool = True
) -> tuple[list[Arm], list[Cross]]:
    """Run the step without each arm, and without each two of them; see `measure`.

    full: the step with all arms on. An arm inside of another that is off is off with it.
    """

    def run(*off: str) -> Arm:
        with without(*off):
            return _difference(off, full, measure(subject, steps, graph))

    alone = {name: run(name) for name in names}
    crosses = [_crossed(alone[a], alone[b], run(a, b)) for a, b in combinations(names, 2)]
    return list(alone.values()), crosses


def _difference(off: tuple[str, ...], full: Measured, less: Measured) -> Arm:
    whole, left = ({s.stage: s.own_us for s in summarise(one.rows)} for one in (full, less))
    return Arm(
        off,
        full.launches - less.launches,
        full.nodes - less.nodes,
        less.launches - full.launches,
        less.nodes - full.nodes,
        full.step_us - less.step_us,
        {stage: us - left.get(stage, 0.0) for stage, us in whole.items()},
    )


def _crossed(a: Arm, b: Arm, both: Arm) -> Cross:
    return Cross(
        (a.off[0], b.off[0]),
        both,
        _joint(a.net_launches, b.net_launches, both.net_launches),
        _joint(a.net_nodes, b.net_nodes, both.net_nodes),
        a.us + b.us - both.us,
    )


def _joint(a: Kernels, b: Kernels, both: Kernels) -> dict[str, int]:
    """By stage what two populations count more than both together; stages without are left out."""
    sums = Kernels(a)
    sums.update(b)
    found = by_stage(_minus(sums, both))
    return {stage: count for stage, count in found.items() if count}


def _minus(left: Kernels, right: Kernels) -> Kernels:
    """As Counter's `subtract`: counts below zero stay, unlike with the operator."""
    found = Kernels(left)
    found.subtract(right)
    return Kernels({key: count for key, count in found.items() if count})
