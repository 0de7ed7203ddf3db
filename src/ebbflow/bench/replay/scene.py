"""A recorded run as a scene of a sweep: what would these strategies have made of my last week?

A recording gives the load (rows that had come by each trigger), the trigger interval, and the costs of a batch
(``batch_fit``). With them the micro-batch engine plays the same time under any strategy, by the same sweep as every
comparison, and the recorded run stands beside them.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from ebbflow.bench.leaderboard.sweep import Scene
from ebbflow.bench.replay.plan import Plan
from ebbflow.core.curve import Curve
from ebbflow.core.run import Run

RECORDED = "recorded"
"""What the recorded run is called where strategies have their names."""


def scene_of(plan: Plan, *, drawn: bool = False) -> Scene:
    """What is swept: the scenario of the recording, and the run that was."""
    return Scene(load=plan.recording.query, scenario=plan.scenario, drawn=drawn, past=recorded_run(plan))


def recorded_run(plan: Plan) -> Run:
    """The run as it was recorded; what is not known of it is empty or None."""
    recording, flow = plan.recording, plan.flow
    unknown = Curve.of([])
    return Run(
        strategy=RECORDED,
        pipeline=recording.query,
        slo=plan.scenario.slo,
        limits=plan.scenario.limits,
        started_s=0.0,
        ended_s=flow.end_s,
        arrived=flow.arrived,
        processed=flow.processed,
        nodes=plan.held if plan.nodes_known else unknown,
        nodes_working=plan.working if plan.nodes_known else unknown,
        decisions=[
            msgspec.structs.replace(entry, time_s=entry.time_s - flow.origin_s)
            for entry in recording.decisions
            if 0.0 <= entry.time_s - flow.origin_s <= flow.end_s
        ],
        reconfigurations=recording.reconfigurations,
        rows_repeated=recording.rows_repeated,
    )


def kept_up(plan: Plan) -> dict[str, Any]:
    """Whether the recorded run did: batches that outlasted their trigger, and rows that waited at the end."""
    trigger_s = plan.engine.trigger_interval_s
    durations = np.array([batch.duration_s for batch in plan.recording.worked])
    waiting = float(plan.recording.batches[-1].left_rows or 0.0)
    late = float(np.mean(durations > trigger_s)) if trigger_s else None
    return {"batches_longer_than_trigger": late, "rows_left_at_the_end": waiting}
