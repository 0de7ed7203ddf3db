"""What batches tell the joint strategy: how long the tasks of an operator ran, and whether rows are left behind.

share of an instance = Σ task time of its stage / (tasks · max(duration, trigger))
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ebbflow.core.batches import Batch
from ebbflow.strategies.stage_match import Ran, StageMatch


class TaskTimes:
    """Shares of the time that the tasks of each operator ran, in the batches of the last while."""

    def __init__(self) -> None:
        self._shares: dict[str, list[tuple[float, float]]] = {}
        self._match = StageMatch()

    def look(self, batches: Iterable[Batch], operators: Collection[str], since_s: float) -> None:
        """Take in what has finished of operators that can be scaled, and forget what ended before ``since_s``."""
        for batch in batches:
            if not batch.steady:  # first tasks on a new node load classes and start Python
                continue
            span_s = max(batch.duration_s, batch.trigger_interval_s, 1e-3)
            for at, name in self._stages(batch, operators).items():
                stage = batch.stages[at]
                share = stage.task_time_s / stage.tasks / span_s
                self._shares.setdefault(name, []).append((batch.ended_s, share))
        for name, shares in self._shares.items():
            self._shares[name] = [each for each in shares if each[0] > since_s]

    def share(self, operator: str) -> float | None:
        """The mean share of an instance; None where no batch told it."""
        shares = [share for _, share in self._shares.get(operator, [])]
        return sum(shares) / len(shares) if shares else None

    def _stages(self, batch: Batch, operators: Collection[str]) -> dict[int, str]:
        """Operators by the place of their stage. Python steps do not tell theirs; the number of tasks mostly does."""
        instances = {
            run.name: run.instances for run in batch.operators if run.instances and run.name in operators
        }
        places = {stage.index: at for at, stage in enumerate(batch.stages)}
        for run in batch.operators:
            if run.name in instances and run.stage in places:
                self._match.tell(batch.query, run.name, places[run.stage])
        ran = [Ran(stage.tasks, stage.task_time_s / max(1, batch.rows)) for stage in batch.stages]
        found = self._match.of(batch.query, ran, instances)
        return {at: name for at, name in found.items() if batch.stages[at].tasks > 0}


def behind(batch: Batch) -> bool:
    """Whether a batch left more at the source than it took, or took so long that more than an interval's wait for the
    next. A source that says late what it has counts some of what has just come as left."""
    return (batch.backlog_rows or 0.0) > max(
        1.0, batch.rows
    ) or 0 < batch.trigger_interval_s < batch.duration_s
