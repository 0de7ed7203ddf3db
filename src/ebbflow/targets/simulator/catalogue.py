"""Built-in pipelines by name: operators, the cost of a row in each, and their stages.

``top-words`` is the topology T1 of Elysium with the selectivities of its Table 2. ``sentiment`` is its T2; the paper
gives neither operators nor selectivities, so these are those of ``papers.elysium.pipelines.sentiment``, one row per
tweet. All costs are ours: a row of ``top-words`` takes 5.9 ms of CPU, so one core handles about 170 rows/s and twelve
2,000 rows/s; a row of ``sentiment`` takes 7.2 ms, mostly for the features.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from ebbflow.core.pipeline import Operator, Pipeline, Stream
from ebbflow.errors import UnknownNameError
from ebbflow.targets.simulator.continuous import Continuous
from ebbflow.targets.simulator.micro_batch import MicroBatch, Stage


@dataclass(frozen=True, kw_only=True)
class CostedPipeline:
    """A pipeline with the costs of its operators, for either engine."""

    pipeline: Pipeline
    row_cost_s: Mapping[str, float]
    """CPU seconds per input row of each operator."""
    max_parallelism: Mapping[str, int]
    """The maximum instances of operators that have one, such as a final ranker."""
    state_mb: Mapping[str, float]

    def micro_batch(
        self, *, tasks: int = 48, per_task_s: float = 0.004, driver_s: float = 0.4,
        trigger_interval_s: float = 5.0, noise: float = 0.0, read_limit_rows: int | None = None,
    ) -> MicroBatch:  # fmt: skip
        """One stage for the sources and one per operator with a boundary, each with the operators fused to it.

        c of a stage = Σ over its operators of cost · input rows per source row.
        """
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
                tasks=min(tasks, self.max_parallelism.get(head, tasks)),
                per_task_s=per_task_s,
                per_row_s=cost_s,
                operator=head if by_name[head].boundary else "",
                max_tasks=self.max_parallelism.get(head),
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
        """Every operator with ``instances`` instances, or its maximum."""
        parallelism = {n: min(instances, self.max_parallelism.get(n, instances)) for n in self.pipeline.order}
        return Continuous(
            pipeline=self.pipeline, row_cost_s=self.row_cost_s, parallelism=parallelism, noise=noise,
            queue_bound_rows=queue_bound_rows, max_pending_rows=max_pending_rows, state_mb=self.state_mb,
        )  # fmt: skip


def _chain(name: str, *steps: tuple[Operator, float]) -> Pipeline:
    """A chain of operators, each with the selectivity of its output stream."""
    operators = tuple(operator for operator, _ in steps)
    streams = tuple(
        Stream(source=a.name, target=b.name, selectivity=selectivity)
        for (a, selectivity), (b, _) in itertools.pairwise(steps)
    )
    return Pipeline(name=name, operators=operators, streams=streams)


TOP_WORDS = CostedPipeline(
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
    max_parallelism={"final-ranker": 1},
    state_mb={"counter": 20.0, "intermediate-ranker": 2.0},
)  # fmt: skip

SENTIMENT = CostedPipeline(
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
    max_parallelism={},
    state_mb={},
)  # fmt: skip

PIPELINES: dict[str, CostedPipeline] = {costed.pipeline.name: costed for costed in (TOP_WORDS, SENTIMENT)}


def costed_pipeline(name: str) -> CostedPipeline:
    """A built-in pipeline by name.

    >>> [stage.tasks for stage in costed_pipeline("top-words").micro_batch().stages]
    [48, 48, 48, 1]
    """
    try:
        return PIPELINES[name]
    except KeyError:
        raise UnknownNameError("pipeline", name, PIPELINES) from None
