"""If more nodes cannot help, the diagnosis says what would."""

from __future__ import annotations

import math

import msgspec
from made_snapshots import made_batch
from msgspec.structs import replace

from ebbflow.core.batches import Batch
from ebbflow.core.decision import Constraint
from ebbflow.profiling.batch.model import BatchModel
from ebbflow.profiling.batch.outlook import QueryState
from ebbflow.strategies.capacity.diagnosis import why_more_cannot_help

STATE = QueryState(
    now_s=100.0,
    offsets_taken_s=95.0,
    free_at_s=99.0,
    trigger_interval_s=5.0,
    backlog_rows=0.0,
    rows_per_batch_limit=math.inf,
    rate_per_s=100.0,
)


def model_of(*batches: Batch) -> BatchModel:
    model = BatchModel()
    for batch in (batches[0], *batches):
        model.learn(batch)
    return model


def batches(tasks: int = 12, skew: float = 1.0, driver_s: float = 0.3) -> list[Batch]:
    made = []
    for i in range(1, 9):
        batch = made_batch(i, 40.0 * i, [tasks])
        stage = batch.stages[0]
        long_s = stage.longest_task_s * skew
        wall_s = max(stage.wall_s, long_s)
        made.append(
            msgspec.structs.replace(
                batch,
                stages=(msgspec.structs.replace(stage, longest_task_s=long_s),),
                duration_s=driver_s + wall_s,
            )
        )
    return made


def why(
    model: BatchModel, state: QueryState = STATE, *, slots: int = 12, slo_s: float = 30.0
) -> Constraint | None:
    return why_more_cannot_help(model, state, slots=slots, most_slots=24, slo_s=slo_s)


def name_of(found: Constraint | None) -> str:
    assert found is not None
    assert found.why
    return found.name


def test_if_slots_are_missing_there_is_no_other_bottleneck() -> None:
    assert why(model_of(*batches()), slots=4) is None


def test_a_read_limit_below_the_rate_comes_first() -> None:
    state = replace(STATE, backlog_rows=1000.0, rows_per_batch_limit=300.0)
    found = why(model_of(*batches()), state)
    assert name_of(found) == "read limit"
    assert found is not None
    assert "maxOffsetsPerTrigger" in found.why


def test_a_read_limit_that_keeps_up_is_not_to_blame() -> None:
    state = replace(STATE, backlog_rows=1000.0, rows_per_batch_limit=900.0)
    assert name_of(why(model_of(*batches()), state)) == "partitions"


def test_a_trigger_as_long_as_the_objective_is_named() -> None:
    assert name_of(why(model_of(*batches()), replace(STATE, trigger_interval_s=30.0))) == "trigger"


def test_a_driver_that_takes_most_of_the_batch_is_named() -> None:
    assert name_of(why(model_of(*batches(driver_s=12.0)))) == "driver"


def test_a_long_task_is_named_even_where_its_waves_just_hide_it() -> None:
    skewed = model_of(*batches(skew=6.0))
    assert name_of(why(skewed, slots=12)) == "skew"
    assert name_of(why(skewed, slots=2)) == "skew"
    assert why(skewed, slots=1) is None


def test_a_stage_with_fewer_tasks_than_slots_wants_partitions() -> None:
    found = why(model_of(*batches(tasks=6)))
    assert name_of(found) == "partitions"
    assert found is not None
    assert "6 tasks" in found.why


def test_the_end_of_the_limits_is_named_last() -> None:
    found = why_more_cannot_help(model_of(*batches(tasks=96)), STATE, slots=24, most_slots=24, slo_s=30.0)
    assert name_of(found) == "limit"
