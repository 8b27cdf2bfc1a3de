"""Atlas: where a step's launches and time go, in figures.

subject = Subject(body, device, pool, library, stream)
atlas = make_atlas(subject, steps=30)
print("\\n".join(text_of(atlas)))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lowgraph.errors import ConfigError
from lowgraph.train.atlas.arms import Arm, Cross, chosen_arms, measure_arms
from lowgraph.train.atlas.measure import Measured, measure
from lowgraph.train.atlas.prices import Prices, measure_prices
from lowgraph.train.atlas.roadmap import Merge, merges
from lowgraph.train.atlas.rows import StageSummary, summarise
from lowgraph.train.atlas.subject import Subject, by_stage

__all__ = ["FEWEST_STEPS", "Atlas", "Population", "make_atlas"]

FEWEST_STEPS = 3  # one primes, one records, one is a replay


@dataclass(frozen=True)
class Population:
    """A kernel's launches in a stage. share: of the step's launches, or of its nodes if it has any.

    eager_us, replay_us: what they would cost if they did nothing (Prices).
    """

    stage: str
    kernel: str
    launches: int
    nodes: int
    share: float
    eager_us: float
    replay_us: float


@dataclass
class Atlas:
    """Figures of a step. full: with all arms on. Times in microseconds."""

    full: Measured
    prices: Prices
    arms: list[Arm] = field(default_factory=list)
    crosses: list[Cross] = field(default_factory=list)
    merges: list[Merge] = field(default_factory=list)

    @property
    def stages(self) -> list[StageSummary]:
        """The stages over the warm window."""
        return summarise(self.full.rows)

    @property
    def launches(self) -> int:
        """Kernel launches of an eager step."""
        return sum(self.full.launches.values())

    @property
    def nodes(self) -> int:
        """Nodes of the graph; 0 without one."""
        return sum(self.full.nodes.values())

    @property
    def populations(self) -> list[Population]:
        """Kernels by stage, the most frequent first."""
        launches, nodes = self.full.launches, self.full.nodes
        counts, total = (nodes, self.nodes) if nodes else (launches, self.launches)
        found = [
            Population(
                *key,
                launches[key],
                nodes[key],
                counts[key] / max(total, 1),
                launches[key] * self.prices.launch_us,
                nodes[key] * self.prices.node_us,
            )
            for key in dict.fromkeys((*launches, *nodes))
        ]
        return sorted(found, key=lambda one: -one.share)

    @property
    def eager_ceiling_us(self) -> float:
        """What would be left of an eager step if its launches were free; not below zero."""
        return max(0.0, self.full.eager_us - self.launches * self.prices.launch_us)

    @property
    def replay_ceiling_us(self) -> float:
        """What would be left of a replay if its nodes were free; not below zero."""
        return max(0.0, self.full.step_us - self.nodes * self.prices.node_us)

    def as_dict(self) -> dict[str, Any]:
        """Everything but the rows, for JSON."""
        full = self.full
        eager = full.eager_stages_us
        return {
            "stages": [{**vars(one), "eager_us": eager.get(one.stage, 0.0)} for one in self.stages],
            "launches": self.launches,
            "nodes": self.nodes,
            "why_no_graph": full.why_no_graph,
            "step_us": full.step_us,
            "timed_step_us": full.timed_step_us,
            "spread_us": full.spread_us,
            "event_nodes": full.event_nodes,
            "eager_step_us": full.eager_us,
            "launch_us": self.prices.launch_us,
            "node_us": self.prices.node_us,
            "eager_ceiling_us": self.eager_ceiling_us,
            "replay_ceiling_us": self.replay_ceiling_us if self.nodes else None,
            "populations": [vars(one) for one in self.populations],
            "arms": [_arm(one) for one in self.arms],
            "crosses": [
                {
                    "arms": list(one.arms),
                    "both": _arm(one.both),
                    "joint_launches": one.joint_launches,
                    "joint_nodes": one.joint_nodes,
                    "joint_us": one.joint_us,
                }
                for one in self.crosses
            ],
            "merges": [{**vars(one), "saved": one.saved} for one in self.merges],
        }


def make_atlas(
    subject: Subject,
    steps: int = 30,
    arms: Sequence[str] | None = None,
    graph: bool = True,
) -> Atlas:
    """Measure a step; each arm, and each two of them, cost a measuring run more.

    steps: of each run. arms: to leave out, None for all that the step has, () for none. graph:
    False launches every kernel of every step. Raises ConfigError for fewer than three steps or an
    arm that the step has not, and what the step raises.
    """
    if steps < FEWEST_STEPS:
        raise ConfigError(
            f"--steps {steps}: an atlas needs at least {FEWEST_STEPS}: one primes, one records, "
            "the others are measured"
        )
    full = measure(subject, steps, graph)
    names = chosen_arms(full.arms, arms)
    atlas = Atlas(full, measure_prices(subject, graph))
    atlas.arms, atlas.crosses = measure_arms(subject, full, names, steps, graph)
    atlas.merges = merges(full.links, subject.device.multiprocessors)
    return atlas


def _arm(arm: Arm) -> dict[str, Any]:
    """An arm's populations by stage, and by kernel where the step has others without it."""
    return {
        "off": list(arm.off),
        "launches": by_stage(arm.launches),
        "nodes": by_stage(arm.nodes),
        "new_launches": by_stage(arm.new_launches),
        "new_nodes": by_stage(arm.new_nodes),
        "us": arm.us,
        "own_us": arm.own_us,
    }
