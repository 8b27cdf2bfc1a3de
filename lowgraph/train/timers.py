"""`--timers`: the stages of a training step, looked at once a lap while the run goes on.

    body = StageLog(TrainingStep(...))     # in place of the step itself
    ...
    body.sample(step)                      # behind a lap's last step: waits for it
    print("\\n".join(body.text()))

Between two looks a step is what it is without: one launch, and nothing waits. What the event nodes
themselves cost `python -m lowgraph atlas` tells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lowgraph.capture import StageTimer
from lowgraph.stages import inclusive
from lowgraph.train.atlas.rows import Row, StageSummary, in_order, summarise
from lowgraph.train.atlas.text import stage_lines

__all__ = ["StageLog"]


class StageLog:
    """A body with a StageTimer around it, and the rows of the steps that were looked at.

    Close it after the step's graph. Launches are this library's: those of foreign ones show as
    nodes alone.
    """

    def __init__(self, body: Callable[[int], None]) -> None:
        self._timer = StageTimer(body)
        self.rows: list[Row] = []

    def __call__(self, stream: int) -> None:
        """Enqueue or record the step."""
        self._timer(stream)

    def sample(self, step: int) -> None:
        """Wait for the latest step, number `step` (from 1), and keep its stages' rows, once.

        Raises PhaseError before any step.
        """
        if self.rows and self.rows[-1].step == step:
            return
        times = self._timer.read()
        us, nodes, launches = times.us(), times.nodes(), times.launches()
        self.rows += [Row(step, one, launches[one], nodes[one], us[one]) for one in in_order(us)]

    def summary(self) -> list[StageSummary]:
        """The stages over the warm window, the last third of the steps looked at; [] without any.

        launches: of the latest step that ran without the graph, whether it was looked at or not.
        """
        if not self.rows:
            return []
        own = self._timer.own_launches
        launches = inclusive(own)
        return [
            replace(
                one,
                launches=int(launches.get(one.stage, 0)),
                own_launches=own.get(one.stage, 0),
            )
            for one in summarise(self.rows)
        ]

    def text(self) -> list[str]:
        """The summary as a table; [] without any step looked at."""
        found = self.summary()
        return stage_lines(found) if found else []

    def figures(self) -> list[dict[str, Any]]:
        """The summary for JSON: `stage, launches, nodes, us` and more, as `atlas` writes them."""
        return [vars(one) for one in self.summary()]

    def close(self) -> None:
        """Destroy the events. Idempotent."""
        self._timer.close()
