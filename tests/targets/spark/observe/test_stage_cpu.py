"""CPU of operators that are not Python steps: their share of the CPU of their stage."""

from __future__ import annotations

import pytest

from ebbflow.core.batches import Batch, OperatorRun, StageRun
from ebbflow.targets.spark.observe.batches import with_stage_cpu
from ebbflow.targets.spark.operators.row_counts import _Node, stages


def batch(*operators: OperatorRun) -> Batch:
    runs = tuple(
        StageRun(index=i, tasks=4, task_time_s=9.0, cpu_time_s=cpu_s, wall_s=1.0, longest_task_s=1.0)
        for i, cpu_s in enumerate((6.0, 2.0))
    )
    return Batch(
        query="q", batch_id=1, started_s=0.0, duration_s=2.0, rows=10, slots=2, trigger_interval_s=1.0,
        arrival_rate_per_s=5.0, backlog_rows=0.0, oldest_arrival_s=0.0, stages=runs, operators=operators,
    )  # fmt: skip


def marks(**stages_of: tuple[int, int]) -> dict[str, int]:
    return {
        f"ebbflow:{name}:{side}": stage
        for name, both in stages_of.items()
        for side, stage in zip(("in", "out"), both, strict=True)
    }


def test_an_operator_around_a_shuffle_has_a_share_of_both_stages() -> None:
    split = OperatorRun(name="split", rows_in=10, rows_out=10)
    count = OperatorRun(name="count", rows_in=10, rows_out=5)
    found = with_stage_cpu(batch(split, count), marks(split=(0, 0), count=(0, 1)))
    assert [(o.name, o.cpu_s) for o in found.operators] == [("split", 4.0), ("count", 2.0 + 2.0)]
    assert [o.stage for o in found.operators] == [0, 1]  # where it ends


def test_the_cpu_of_a_stage_is_split_among_its_operators_by_their_rows() -> None:
    split = OperatorRun(name="split", rows_in=10, rows_out=170)
    stop = OperatorRun(name="stop", rows_in=170, rows_out=10)
    count = OperatorRun(name="count", rows_in=5, rows_out=5)
    found = with_stage_cpu(batch(split, stop, count), marks(split=(0, 0), stop=(0, 0), count=(1, 1)))
    assert [(o.name, o.instances) for o in found.operators] == [("split", 4), ("stop", 4), ("count", 4)]
    assert [o.cpu_s for o in found.operators] == pytest.approx([3.0, 3.0, 2.0])
    assert sum(o.cpu_s or 0 for o in found.operators) == pytest.approx(8.0)


def test_a_measured_cpu_is_not_changed() -> None:
    python = OperatorRun(name="look", rows_in=10, rows_out=10, cpu_s=0.5, instances=2)
    found = with_stage_cpu(
        batch(python, OperatorRun(name="split", rows_in=1, rows_out=1)), marks(look=(0, 0), split=(0, 0))
    )
    assert found.operators[0] == python
    assert found.operators[1].cpu_s == 6.0


def test_an_operator_whose_stage_is_unknown_has_no_cpu() -> None:
    lost = OperatorRun(name="lost", rows_in=10, rows_out=10)
    for stage_of in ({}, marks(lost=(0, 9)), {"ebbflow:lost:in": 0}):
        found = with_stage_cpu(batch(lost), stage_of)
        assert found.operators[0].cpu_s is None
        assert found.operators[0].stage is None


def test_an_operator_without_rows_has_no_cpu() -> None:
    idle = OperatorRun(name="idle", rows_in=0, rows_out=0)
    assert with_stage_cpu(batch(idle), marks(idle=(0, 0))).operators[0].cpu_s is None


def test_a_plan_that_branches_says_nothing_about_the_order_of_its_stages() -> None:
    leaf = _Node("Filter (x = ebbflow:a:in)")
    assert stages(_Node("Join", [leaf, leaf])) == {}
    assert stages(_Node("Exchange hashpartitioning(x)", [leaf])) == {"ebbflow:a:in": 0}
