"""A target with agents adds their readings of its own nodes to each observation."""

from __future__ import annotations

import pytest

from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.ports import Observation
from ebbflow.core.readings import Reading
from ebbflow.errors import TargetError
from ebbflow.monitoring.collector import WithAgents

NOW_S = 500.0
OWN = (
    Reading(NOW_S, "executor-1", Metric.ACTIVE_TASKS, 1.0),
    Reading(NOW_S, "main", Metric.NODES, 1.0),
)


class FakeTarget:
    def __init__(self) -> None:
        self.planned: Layout | None = None
        self.closed = self.fails = False

    def observe(self) -> Observation:
        if self.fails:
            raise TargetError("no answer")
        return Observation(
            time_s=NOW_S, pipeline=Pipeline(name="p", operators=()), layout=Layout.of(1), requested=Layout.of(1),
            slots_per_node=1, lead_time_s=1.0, readings=OWN,
        )  # fmt: skip

    def apply(self, planned: Layout) -> str:
        self.planned = planned
        return "done"

    def close(self) -> None:
        self.closed = True


class FakeCollector:
    def __init__(self, *readings: Reading) -> None:
        self.readings = list(readings)
        self.subscribed: list[object] = []
        self.closed = False

    def subscribe_to(self, series) -> None:
        self.subscribed.append(set(series))

    def take(self, now_s: float) -> list[Reading]:
        assert now_s == NOW_S
        taken, self.readings = self.readings, []
        return taken

    def close(self) -> None:
        self.closed = True


def test_readings_of_nodes_the_target_shows_and_of_hosts_join_the_observation() -> None:
    cpu = Reading(NOW_S, "executor-1", Metric.NODE_CPU, 0.9)
    starting = Reading(NOW_S, "executor-2", Metric.NODE_CPU, 1.0)
    host = Reading(NOW_S, "host-w", Metric.HOST_CPU, 0.5)
    seen = WithAgents(FakeTarget(), FakeCollector(cpu, starting, host), lambda: ()).observe()
    assert tuple(seen.readings) == (*OWN, cpu, host)
    assert seen.layout == Layout.of(1)


def test_silent_agents_leave_the_observation_as_it_was() -> None:
    assert WithAgents(FakeTarget(), FakeCollector(), lambda: ()).observe() == FakeTarget().observe()


def test_the_needed_series_are_read_at_every_observation() -> None:
    needed = {("*", Metric.NODE_CPU)}
    collector = FakeCollector()
    target = WithAgents(FakeTarget(), collector, lambda: needed)
    target.observe()
    needed = {("*", Metric.NODE_HEAP)}
    target.observe()
    assert collector.subscribed == [{("*", Metric.NODE_CPU)}, {("*", Metric.NODE_HEAP)}]


def test_failed_observations_lose_no_reading() -> None:
    inner, collector = FakeTarget(), FakeCollector(Reading(NOW_S, "host-w", Metric.HOST_CPU, 0.5))
    target = WithAgents(inner, collector, lambda: ())
    inner.fails = True
    with pytest.raises(TargetError):
        target.observe()
    inner.fails = False
    assert target.observe().readings[-1].subject == "host-w"


def test_apply_and_close_are_passed_to_the_target() -> None:
    inner, collector = FakeTarget(), FakeCollector()
    target = WithAgents(inner, collector, lambda: ())
    assert target.apply(Layout.of(3)) == "done"
    target.close()
    assert inner.planned == Layout.of(3)
    assert inner.closed
    assert collector.closed
