"""Missing readings of a running node fire no rule; a node that has left does not block any."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Reading, Windows
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import Snapshot
from ebbflow.policy import (
    Policy,
    above,
    absolute,
    below,
    cluster,
    metric,
    per_minute,
    percent,
    rule,
    seconds,
)
from ebbflow.policy.model import Trigger
from ebbflow.strategies.rules import Rules

CPU = metric("node-cpu")
Values = Callable[[int], dict[tuple[str, Metric], float]]


def changes(policy: Policy, values: Values, until_s: int = 200, step_s: int = 1) -> tuple[int | None, str]:
    """The time of the first change in the number of nodes, and the last reason before it."""
    rules, windows, reason = Rules(policy), Windows(600.0), ""
    layout = Layout.of(2, e=1)
    for t in range(0, until_s, step_s):
        windows.add(Reading(float(t), subject, kind, value) for (subject, kind), value in values(t).items())
        snapshot = Snapshot(
            now_s=float(t),
            pipeline=Pipeline.chain("p", "e"),
            planned=layout,
            requested=layout,
            observed=layout,
            windows=windows,
            batches=(),
            under_way=(),
            limits=Limits(min_nodes=1, max_nodes=10),
            slo=Slo(freshness_s=30.0),
            slots_per_node=1,
            lead_time_s=12.0,
            data_age_s=0.0,
        )
        decision = rules.decide(snapshot)
        if decision.wanted.main_nodes != 2:
            return t, reason
        reason = decision.reason
    return None, reason


def shrink(when: Trigger) -> Policy:
    return Policy(rule("in").scale_in(cluster()).by(absolute(1)).when(when))


def grow(when: Trigger) -> Policy:
    return Policy(rule("out").scale_out(cluster()).by(absolute(1)).when(when))


def nodes(
    one: float,
    two: float,
    *,
    silent: range,
    shown: bool = True,
    step_s: int = 1,
    of: Metric = Metric.NODE_CPU,
) -> Values:
    """Two nodes, the first of them silent for a time; ``shown``: the target still reports it."""

    def at(t: int) -> dict[tuple[str, Metric], float]:
        found = {("executor-2", Metric.NODE_CPU): two, ("executor-2", Metric.ACTIVE_TASKS): 1.0}
        if t not in silent:
            found["executor-1", Metric.NODE_CPU] = one
        if t not in silent or shown:
            found["executor-1", Metric.ACTIVE_TASKS] = 4.0
        return found

    return at


LOW = {
    "for at least": CPU.is_(below(percent(20))).for_at_least(seconds(10)),
    "m of n": CPU.is_(below(percent(20))).in_at_least(8, of=10),
    "mean": CPU.mean_over(seconds(10)).is_(below(percent(20))),
    "percentile": CPU.percentile(90, over=seconds(10)).is_(below(percent(20))),
    "forecast": CPU.is_forecast_to_be(below(percent(20)), ahead=seconds(10)),
}
HIGH = {
    "for at least": CPU.is_(above(percent(80))).for_at_least(seconds(10)),
    "m of n": CPU.is_(above(percent(80))).in_at_least(8, of=10),
    "mean": CPU.mean_over(seconds(10)).is_(above(percent(80))),
    "percentile": CPU.percentile(20, over=seconds(10)).is_(above(percent(80))),
    "forecast": CPU.is_forecast_to_be(above(percent(80)), ahead=seconds(10)),
}


@pytest.mark.parametrize("silent", [range(60, 75), range(60, 200)], ids=["a while", "for good"])
@pytest.mark.parametrize("kind", LOW)
def test_a_busy_node_that_falls_silent_does_not_let_others_shrink_the_cluster(
    kind: str, silent: range
) -> None:
    found, reason = changes(shrink(LOW[kind]), nodes(0.95, 0.05, silent=silent))
    assert found is None, f"shrinks at {found}: {reason}"


@pytest.mark.parametrize("silent", [range(60, 75), range(60, 200)], ids=["a while", "for good"])
@pytest.mark.parametrize("kind", HIGH)
def test_an_idle_node_that_falls_silent_does_not_let_others_grow_the_cluster(
    kind: str, silent: range
) -> None:
    found, reason = changes(grow(HIGH[kind]), nodes(0.05, 0.95, silent=silent))
    assert found is None, f"grows at {found}: {reason}"


@pytest.mark.parametrize("kind", HIGH)
def test_a_node_that_has_left_does_not_block_the_others(kind: str) -> None:
    found, _ = changes(grow(HIGH[kind]), nodes(0.05, 0.95, silent=range(60, 200), shown=False))
    assert found is not None
    assert 60 < found <= 90


def test_a_node_without_readings_counts_and_is_named() -> None:
    found, reason = changes(shrink(LOW["for at least"]), nodes(0.05, 0.05, silent=range(0, 200)))
    assert found is None
    assert "node-cpu has no reading of executor-1; it must be at or below 20%" in reason
    _, reason = changes(shrink(LOW["for at least"]), nodes(0.9, 0.05, silent=range(60, 200)))
    assert "node-cpu has no reading of executor-1 for 140 s" in reason


def test_a_run_ends_with_the_node_that_has_been_silent_longest() -> None:
    """Both are low from 56 on; the last reading of the first is at 59, so the run lasts 3 s, not 10."""

    def at(t: int) -> dict[tuple[str, Metric], float]:
        return nodes(0.9 if t < 56 else 0.05, 0.05, silent=range(60, 70))(t)

    found, _ = changes(shrink(LOW["for at least"]), at)
    assert found == 70


def test_nodes_with_infrequent_readings_are_not_silent() -> None:
    slow = nodes(0.05, 0.05, silent=range(0))
    found, _ = changes(shrink(LOW["for at least"]), lambda t: slow(t) if t % 30 == 0 else {}, 400, 30)
    assert found is not None


def test_a_silent_host_counts_until_nodes_have_left() -> None:
    when = metric("host-cpu").is_(below(percent(20))).for_at_least(seconds(10))

    def at(went: bool) -> Values:
        def values(t: int) -> dict[tuple[str, Metric], float]:
            found = {("host-b", Metric.HOST_CPU): 0.05}
            found[MAIN, Metric.NODES] = 1.0 if went and t > 61 else 2.0
            if t < 60:
                found["host-a", Metric.HOST_CPU] = 0.95
            return found

        return values

    assert changes(shrink(when), at(went=False))[0] is None
    found, _ = changes(shrink(when), at(went=True))
    assert found is not None
    assert found <= 90


def test_a_rate_of_change_over_all_nodes_needs_all_nodes() -> None:
    when = CPU.rate_of_change_over(seconds(10)).is_(above(per_minute(percent(10))))

    def at(t: int) -> dict[tuple[str, Metric], float]:
        return nodes(0.9 - t * 0.004, min(1.0, 0.1 + t * 0.004), silent=range(60, 200))(t)

    assert changes(grow(when), at)[0] is None
