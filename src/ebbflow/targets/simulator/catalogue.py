"""Pipelines to simulate, by name: operators, what a row costs in each, and how they are cut into stages.

``top-words`` is Elysium's T1 with the selectivities of its Table 2. ``sentiment`` is its T2, of which the seed gives
neither operators nor selectivities: they are those of ``pipelines.sentiment``, a row a tweet from end to end. All costs
are ours: a row of the first takes 5.9 ms of CPU in all, so that one core holds about 170 rows/s and twelve hold 2,000;
one of the second 7.2 ms, most of it in the features.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from ebbflow.core.pipeline import Operator, Pipeline, Stream
from ebbflow.errors import UnknownNameError
from ebbflow.targets.simulator.continuous.engine import Continuous
from ebbflow.targets.simulator.micro_batch.engine import MicroBatch, Stage


@dataclass(frozen=True, kw_only=True)
class Costed:
    """A pipeline with its costs: either engine can be made of it."""

    pipeline: Pipeline
    row_cost_s: Mapping[str, float]
    """CPU seconds of an input row of each operator."""
    most_parallel: Mapping[str, int]
    """Instances that an operator may have at most, where that is few: a final ranker is one."""
    state_mb: Mapping[str, float]

    def micro_batch(
        self, *, tasks: int = 48, per_task_s: float = 0.004, driver_s: float = 0.4,
        trigger_interval_s: float = 5.0, noise: float = 0.0, read_limit_rows: int | None = None,
    ) -> MicroBatch:  # fmt: skip
        """A stage for the sources and one for each operator with a boundary, in which those fused with it
        run too: c of a stage = Σ over its operators of cost · input rows per source row."""
        rates = self.pipeline.input_rates(dict.fromkeys(self.pipeline.sources, 1.0))
        by_name = {operator.name: operator for operator in self.pipeline.operators}
        heads: list[str] = []
        costs_s: list[float] = []
        for name in self.pipeline.order:
            if not heads or by_name[name].boundary:
                heads.append(name)
                costs_s.append(0.0)
            costs_s[-1] += self.row_cost_s[name] * rates[name]
        stages = tuple(
            Stage(
                tasks=min(tasks, self.most_parallel.get(head, tasks)),
                per_task_s=per_task_s,
                per_row_s=cost_s,
                operator=head if by_name[head].boundary else "",
                most_tasks=self.most_parallel.get(head),
            )
            for head, cost_s in zip(heads, costs_s, strict=True)
        )
        return MicroBatch(
            pipeline=self.pipeline, stages=stages, driver_s=driver_s,
            trigger_interval_s=trigger_interval_s, noise=noise, read_limit_rows=read_limit_rows,
        )  # fmt: skip

    def continuous(
        self, *, instances: int = 16, queue_bound_rows: float | None = 100_000.0,
        max_pending_rows: float | None = 5_000.0, noise: float = 0.0,
    ) -> Continuous:  # fmt: skip
        """Every operator with ``instances``, or as many as it may have."""
        parallelism = {n: min(instances, self.most_parallel.get(n, instances)) for n in self.pipeline.order}
        return Continuous(
            pipeline=self.pipeline, row_cost_s=self.row_cost_s, parallelism=parallelism, noise=noise,
            queue_bound_rows=queue_bound_rows, max_pending_rows=max_pending_rows, state_mb=self.state_mb,
        )  # fmt: skip


def _chain(name: str, *steps: tuple[Operator, float]) -> Pipeline:
    """Operators in a row, each with the selectivity of the stream that leaves it."""
    operators = tuple(operator for operator, _ in steps)
    streams = tuple(
        Stream(source=a.name, target=b.name, selectivity=selectivity)
        for (a, selectivity), (b, _) in itertools.pairwise(steps)
    )
    return Pipeline(name=name, operators=operators, streams=streams)


TOP_WORDS = Costed(
    pipeline=_chain(
        "top-words",
        (Operator(name="reader"), 1.0),
        (Operator(name="words"), 17.86),
        (Operator(name="stop-words"), 0.68),
        (Operator(name="counter", stateful=True, boundary=True), 0.41),
        (Operator(name="intermediate-ranker", stateful=True, boundary=True), 0.01),
        (Operator(name="final-ranker", stateful=True, boundary=True), 1.0),
    ),
    row_cost_s={
        "reader": 0.5e-3, "words": 2.0e-3, "stop-words": 0.1e-3,
        "counter": 0.1e-3, "intermediate-ranker": 0.08e-3, "final-ranker": 0.5e-3,
    },
    most_parallel={"final-ranker": 1},
    state_mb={"counter": 20.0, "intermediate-ranker": 2.0},
)  # fmt: skip

SENTIMENT = Costed(
    pipeline=_chain(
        "sentiment",
        (Operator(name="reader"), 1.0),
        (Operator(name="tokeniser"), 1.0),
        (Operator(name="preprocessing"), 1.0),
        (Operator(name="features", boundary=True), 1.0),
        (Operator(name="classifier", boundary=True), 1.0),
    ),
    row_cost_s={
        "reader": 0.4e-3, "tokeniser": 1.0e-3, "preprocessing": 1.2e-3, "features": 3.0e-3, "classifier": 1.6e-3,
    },
    most_parallel={},
    state_mb={},
)  # fmt: skip

PIPELINES: dict[str, Costed] = {costed.pipeline.name: costed for costed in (TOP_WORDS, SENTIMENT)}


def costed_pipeline(name: str) -> Costed:
    """A built-in pipeline by its name.

    >>> [stage.tasks for stage in costed_pipeline("top-words").micro_batch().stages]
    [48, 48, 48, 1]
    """
    try:
        return PIPELINES[name]
    except KeyError:
        raise UnknownNameError("pipeline", name, PIPELINES) from None
