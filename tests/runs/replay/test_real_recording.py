"""The recording of a real query by a listener: quirks that only real ones have must not break a replay.

Spark 4 on ``local[2]``: ``rate`` source rising to 4,000 rows/s, a count by key in 4 partitions, a trigger of 2 s. The
machine was busy with other things, so batch times vary for reasons that the recording does not show.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ebbflow.core.limits import Limits
from ebbflow.core.slo import Slo
from ebbflow.runs.replay.plan import (
    RECORDED,
    Plan,
    Settings,
    fidelity_of,
    plan_of,
    replay_case,
)
from ebbflow.runs.replay.readers import read_recording
from ebbflow.runs.sweep import sweep

RECORD = Path(__file__).parent / "rate_query.jsonl.gz"


@pytest.fixture(scope="module")
def plan() -> Plan:
    given = Settings(
        slo=Slo.parse("freshness p95 <= 30s"), limits=Limits.parse("1:3"), nodes_then=1, slots_per_node=2
    )
    return plan_of(read_recording(RECORD), given)


def test_a_real_recording_has_trigger_tasks_and_every_row(plan: Plan) -> None:
    recording = plan.recording
    assert (recording.query, recording.tasks, recording.starts) == ("counted", 4, 1)
    assert (recording.missing_batches, recording.rows_repeated) == (0, 0)
    assert recording.trigger_interval_s == 2.0
    assert recording.has_backlog
    assert len(recording.batches_with_rows) == 47
    assert plan.flow.arrived.values[-1] == sum(batch.rows for batch in recording.batches_with_rows)


def test_simulated_batches_with_the_recorded_nodes_take_as_long_as_the_recorded_ones(plan: Plan) -> None:
    fidelity = fidelity_of(plan)
    then_s, now_s = fidelity.batch_mean_s
    assert now_s == pytest.approx(then_s, rel=0.2)
    assert fidelity.doubt == ""


def test_strategies_run_on_it(plan: Plan) -> None:
    done = sweep([replay_case(plan)], ["capacity", "hpa", "spark-dra"], workers=1)
    assert done.failures == ()
    assert [result.strategy for result in done.results] == [RECORDED, "capacity", "hpa", "spark-dra"]
    then, *played = (result.scores.rows_in for result in done.results)
    assert (
        played == [pytest.approx(then, rel=1e-4)] * 3
    )  # the record ends within a second; engines count whole ones
