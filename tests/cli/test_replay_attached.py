"""A store written by ``attach`` gives the scenario of its run: load, sizes, objective.

There is no Spark here: Spark's monitor observes a simulated application, so that readings have the names and times
they have there, and ``attach`` runs its own loop, with its own store and ledger.
"""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from console import ebbflow
from made_progress import progress
from msgspec.structs import replace

from ebbflow.control.attach import attach
from ebbflow.control.attached import Attached
from ebbflow.core.clock import Clock, ManualClock
from ebbflow.core.decision import Outcome
from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.ports import DEFAULT_LEAD_TIME_S, Observation
from ebbflow.core.readings import Reading
from ebbflow.core.slo import Slo
from ebbflow.errors import TargetGoneError
from ebbflow.runs.replay.plan import Plan, Settings, plan_of
from ebbflow.runs.replay.readers import read_recording
from ebbflow.targets.simulator import NodeKind, Scenario, SimulatorTarget, built_in_engine
from ebbflow.targets.spark.driver import ExecutorInfo, QueryStatus
from ebbflow.targets.spark.observe.lead_time import ExecutorRequests
from ebbflow.targets.spark.observe.monitor import SparkMonitor
from ebbflow.targets.spark.observe.progress import Progress
from ebbflow.targets.spark.operators.row_counts import RowCounts
from ebbflow.workloads import parse_load

QUERY, OBJECTIVE = "top-words", "freshness p90 <= 20s"
WAS = Scenario(
    engine=built_in_engine(QUERY, noise=0.05),
    load=parse_load("sine(base=200, peak=1500, period=15m)"),
    limits=Limits.parse("1:8"),
    slo=Slo.parse(OBJECTIVE),
    nodes=NodeKind(slots=2, lead_time_s=20.0),
    initial_nodes=3,
    seconds=1800.0,
)


class Query:
    """The one query of the application."""

    name, id, runId = QUERY, "0", "run-0"  # noqa: N815


class Driver:
    """What Spark's driver would report of the simulated application."""

    app_name = "shop"

    def __init__(self) -> None:
        self.query = Query()
        self.busy = False
        self.done: list[Progress] = []
        self._rows = 0
        self._ids: list[int] = []
        self._next = 0

    def take(self, seen: Observation) -> None:
        for batch in seen.batches:
            self._rows += batch.rows
            at = datetime.fromtimestamp(batch.started_s, UTC).isoformat(timespec="milliseconds")
            made = progress(batch, self._rows, query=QUERY, timestamp=at)
            self.done.append(msgspec.convert(made, Progress))
        self.busy = seen.queries[QUERY] is not None
        while len(self._ids) < seen.layout.main_nodes:
            self._ids.append(self._next)
            self._next += 1
        del self._ids[seen.layout.main_nodes :]

    def executors(self) -> list[ExecutorInfo]:
        return [ExecutorInfo(str(i), True, 2, 2, 0, 9, 0, 0, 0, 10**9) for i in self._ids]

    def queries(self) -> list[Any]:
        return [self.query]

    def trigger_interval_s(self, query: Any) -> float:
        return 5.0

    def row_counts(self) -> RowCounts:
        return RowCounts(None, None)

    def has_read_limit(self, query: Any) -> bool:
        return False

    def jobs_after(self, run_id: str, job_id: int) -> list[Any]:
        return []

    def stage_cpu_s(self, stage_id: int) -> float | None:
        return None

    def status(self, query: Any) -> QueryStatus:
        return QueryStatus("", is_data_available=self.busy, is_trigger_active=self.busy)

    def progress_after(self, query: Any, batch_id: int, counts: Any) -> list[tuple[Progress, dict[str, int]]]:
        return [(each, {}) for each in self.done if each.batch_id > batch_id]


class Application:
    """A target in place of Spark's; it ends with its scenario."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.world: SimulatorTarget = WAS.target(clock)
        self._requests = ExecutorRequests(self._clock, DEFAULT_LEAD_TIME_S)
        self._driver: Any = Driver()
        self._monitor = SparkMonitor(self._driver, clock, self._requests)
        self._requested = WAS.first_nodes
        self.over = threading.Event()

    def observe(self) -> Observation:
        now_s = self._clock.now_s()
        if now_s > WAS.duration_s:
            self.over.set()
            raise TargetGoneError("the job is over")
        seen = self.world.observe()
        self._driver.take(seen)
        readings, *_ = self._monitor.poll()
        readings.append(Reading(now_s, MAIN, Metric.NODES, float(seen.layout.main_nodes)))
        readings.append(Reading(now_s, MAIN, Metric.NODES_REQUESTED, float(seen.requested.main_nodes)))
        return replace(seen, readings=readings, pipeline=self._monitor.pipeline)

    def apply(self, planned: Layout) -> Outcome:
        outcome = self.world.apply(planned)
        requested = outcome.requested.main_nodes
        self._requests.add(max(0, requested - self._requested))
        self._requests.withdraw_newest(max(0, self._requested - requested))
        self._requested = requested
        return outcome

    def close(self) -> None:
        """Nothing to release."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory) -> tuple[Path, Attached, Application]:
    """The store of a job that ran, the loop that wrote it, and its simulated application."""
    file, clock, made = tmp_path_factory.mktemp("attached") / "run.sqlite", ManualClock(), []
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(applicationId="replayed"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "ebbflow.targets.spark.target.SparkTarget",
            lambda *_, **__: made.append(Application(clock)) or made[0],
        )
        attached = attach(session, executors=(1, 8), slo=OBJECTIVE, store=file, clock=clock)
    assert made[0].over.wait(120), "the job has not ended"
    attached.stop()
    return file, attached, made[0]


@pytest.fixture(scope="module")
def plan(ran) -> Plan:
    return plan_of(read_recording(ran[0]), Settings())


def test_the_load_is_the_recorded_one(plan: Plan) -> None:
    began_s = plan.flow.origin_s
    assert began_s < 20
    assert began_s + plan.flow.end_s > WAS.duration_s - 15
    for batch in plan.recording.batches_with_rows:
        since_s = batch.started_s - began_s
        came = WAS.arrivals.rows_by(batch.started_s) - WAS.arrivals.rows_by(began_s)
        assert plan.scenario.arrivals.rows_by(since_s) == pytest.approx(came, abs=2)


def test_sizes_slots_lead_time_and_acts_are_those_of_the_run(plan: Plan, ran) -> None:
    _, attached, application = ran
    truth = application.world.held()
    times_s = range(30, int(plan.flow.end_s), 7)
    then = [int(truth.stepped(plan.flow.origin_s + t)) for t in times_s]
    printed = [int(plan.held.stepped(t)) for t in times_s]
    assert len(set(then)) > 3, "it was scaled"
    assert sum(a != b for a, b in zip(then, printed, strict=True)) < 0.1 * len(then), (
        "apart from the second of an observation"
    )
    assert sum(printed) == pytest.approx(sum(then), rel=0.01)
    assert plan.scenario.nodes.slots == 2
    assert plan.scenario.nodes.lead_time_s == pytest.approx(20.0, abs=2.0)
    assert plan.recording.reconfigurations == attached.reconfigurations > 5


def test_slo_and_limits_are_those_of_the_run(plan: Plan) -> None:
    assert (plan.scenario.slo, plan.scenario.limits) == (WAS.slo, WAS.limits)
    sources = {each.name: (each.value, each.source) for each in plan.assumptions}
    assert sources["objective"] == (OBJECTIVE, "recorded")
    assert sources["nodes"] == ("1:8", "recorded")
    assert sources["trigger interval"] == ("5s", "recorded")


def test_the_command_prints_the_same_and_options_take_precedence(monkeypatch, capsys, ran, plan) -> None:
    call = ("replay", str(ran[0]), "--strategy", "capacity,hpa", "--json")
    code, out, _ = ebbflow(monkeypatch, capsys, *call)
    printed = json.loads(out)
    assert (code, printed["query"], printed["form"], printed["slo"]) == (
        0,
        QUERY,
        "store of Ebbflow",
        OBJECTIVE,
    )
    assert [each["strategy"] for each in printed["results"]] == ["recorded", "capacity", "hpa"]
    recorded, again = printed["results"][0], printed["results"][1]
    assert recorded["rows_in"] == again["rows_in"] == plan.scenario.arrivals.rows_by(plan.flow.end_s)
    assert again["node_seconds"] == pytest.approx(recorded["node_seconds"], rel=0.1), (
        "the same strategy again"
    )
    assert printed["warnings"] == []
    given = json.loads(ebbflow(monkeypatch, capsys, *call, "--slo", "freshness <= 1m", "--nodes", "2:5")[1])
    assert given["slo"] == "freshness max <= 1m"
    assert {"name": "nodes", "value": "2:5", "source": "given"} in given["assumptions"]
