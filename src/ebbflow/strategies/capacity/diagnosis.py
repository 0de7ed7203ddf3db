"""Why more slots would not help a query, and what would."""

from __future__ import annotations

from ebbflow.core.decision import Constraint
from ebbflow.core.waves import waves
from ebbflow.profiling.batch.model import BatchModel
from ebbflow.profiling.batch.outlook import QueryState


def why_more_cannot_help(
    model: BatchModel, state: QueryState, *, slots: int, most_slots: int, slo_s: float
) -> Constraint | None:
    """The bottleneck that more slots would leave as it is; None if slots are the bottleneck.

    Causes are checked in the order in which to fix them: a read limit or a trigger that breaks the objective on its
    own, then the driver, then one long task, then too few tasks.
    """
    interval_s = state.trigger_interval_s
    rows = min(state.rate_ahead_per_s * max(interval_s, 1.0), state.rows_per_batch_limit)
    batch_s = model.on(slots).of(rows)
    if state.backlog_rows > 0 and interval_s and batch_s < interval_s:
        keeps_up = state.rows_per_batch_limit / interval_s
        if keeps_up < state.rate_ahead_per_s:
            return Constraint(
                name="read limit",
                why=f"a batch reads at most {state.rows_per_batch_limit:.0f} rows every {interval_s:g} s, "
                "fewer than arrive; raise maxOffsetsPerTrigger or the like",
            )
    if interval_s >= slo_s:
        return Constraint(
            name="trigger",
            why=f"the trigger interval of {interval_s:g} s alone uses up the objective of {slo_s:g} s; shorten it",
        )
    if model.driver_s > 0.5 * batch_s and model.driver_s > 0.25 * slo_s:
        return Constraint(
            name="driver",
            why=f"{model.driver_s:.1f} s of a {batch_s:.1f} s batch are planning and commits in the driver, "
            "which executors do not speed up",
        )
    slowest = max(
        model.stages, key=lambda s: s.waves(slots) * (s.costs[0] + s.costs[1] * rows / s.tasks), default=None
    )
    if slowest is None:
        return None
    if slowest.skew > 2.0 and slowest.skew > 0.9 * waves(slowest.tasks, slots):
        return Constraint(
            name="skew",
            why=f"one task runs {slowest.skew:.1f} times as long as the mean of its stage; "
            "salt the key or split that partition",
        )
    if slots >= slowest.tasks:
        return Constraint(
            name="partitions",
            why=f"the slowest stage has {slowest.tasks} tasks for {slots} slots; "
            "more partitions would let more executors work",
        )
    if slots >= most_slots:
        return Constraint(name="limit", why=f"the limits allow no more than {slots} slots")
    return None
