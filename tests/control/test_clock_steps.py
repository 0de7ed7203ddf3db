"""The machine's clock is set back or leaps forward while a job runs: the loop decides as if it had not."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_target import FakeTarget, ScriptedStrategy, a_batch

from ebbflow.control.loop import ControlLoop, LoopStore
from ebbflow.control.loop_clock import STEP_S, LoopClock
from ebbflow.core.batches import Batch
from ebbflow.core.clock import ManualClock
from ebbflow.core.decision import Decision, Effect, Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.ports import Observation, Strategy, Target
from ebbflow.core.readings import Reading
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import Snapshot
from ebbflow.errors import TargetError
from ebbflow.guards import guards_for
from ebbflow.monitoring.store import MemoryStore, Store
from ebbflow.policy import Policy, above, absolute, bounds, cluster, metric, minutes, rule, seconds, tuples
from ebbflow.runs.stored_run import read_run
from ebbflow.strategies import STRATEGIES, make_strategy
from ebbflow.strategies.rules import Rules
from ebbflow.targets.simulator import Scenario, built_in_engine
from ebbflow.workloads import parse_load

HOUR_S = 3600.0
HIGH = metric("queue-length").is_(above(tuples(300))).for_at_least(seconds(10))
GROW = rule("grow").scale_out(cluster()).by(absolute(1)).when(HIGH)


# -- every strategy --------------------------------------------------------------------------------

STEP_AT_S = 200.0
LOAD = "square(base=100, peak=700, period=5m)"


class WallClock:
    """Shows the true time until it is set back, and less from then on; more if ``back_s`` is negative."""

    def __init__(self, true_time: ManualClock, back_s: float) -> None:
        self._true_time = true_time
        self._back_s = back_s

    def of(self, true_s: float) -> float:
        """The time it showed at a true time."""
        return true_s - self._back_s if true_s >= STEP_AT_S else true_s

    def now_s(self) -> float:
        return self.of(self._true_time.now_s())

    def monotonic_s(self) -> float:
        return self._true_time.monotonic_s()

    def wait(self, seconds_: float, stop: threading.Event) -> bool:
        return self._true_time.wait(seconds_, stop)


class DatedByWallClock:
    """A target whose observations have times of the wall clock; records what was applied."""

    def __init__(self, target: Target, wall: WallClock, true_time: ManualClock) -> None:
        self._target, self._wall, self._true_time = target, wall, true_time
        self.applied: list[tuple[float, Layout]] = []

    def observe(self) -> Observation:
        seen, of = self._target.observe(), self._wall.of

        def dated(batches: Any) -> list[Batch]:
            return [
                msgspec.structs.replace(b, started_s=of(b.started_s), oldest_arrival_s=of(b.oldest_arrival_s))
                for b in batches
            ]

        return msgspec.structs.replace(
            seen,
            time_s=of(seen.time_s),
            readings=[msgspec.structs.replace(r, time_s=of(r.time_s)) for r in seen.readings],
            batches=dated(seen.batches),
            first_batches=dated(seen.first_batches),
            under_way=[replace(action, since_s=of(action.since_s)) for action in seen.under_way],
            queries={q: None if since_s is None else of(since_s) for q, since_s in seen.queries.items()},
        )

    def apply(self, planned: Layout) -> Outcome:
        self.applied.append((self._true_time.now_s(), planned))
        return self._target.apply(planned)

    def close(self) -> None:
        self._target.close()


def applied(
    strategy: str, engine: str, back_s: float, store: LoopStore | None = None
) -> list[tuple[float, Layout]]:
    """The layouts a strategy applies in a quarter of an hour, with their true times."""
    true_time = ManualClock(0.0)
    scenario = Scenario(engine=built_in_engine("top-words", engine), load=parse_load(LOAD), seconds=900)
    wall = WallClock(true_time, back_s)
    target = DatedByWallClock(scenario.target(true_time), wall, true_time)
    made = make_strategy(strategy)
    loop = ControlLoop(
        target=target,
        strategy=made,
        guards=guards_for(made),
        store=store or MemoryStore(),
        clock=wall,
        limits=scenario.limits,
        slo=scenario.slo,
    )
    for _ in range(900):
        loop.cycle()
        true_time.advance(1.0)
    return target.applied


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_strategies_act_as_if_the_clock_had_not_stepped(strategy: str) -> None:
    """On the engine with more kinds of times: batches, triggers and readings."""
    undisturbed = applied(strategy, "micro-batch", back_s=0.0)
    assert applied(strategy, "micro-batch", HOUR_S) == undisturbed
    assert applied(strategy, "micro-batch", -HOUR_S) == undisturbed


@pytest.mark.parametrize("strategy", ["capacity", "flink", "rules"])
def test_so_they_do_on_the_continuous_engine_after_a_step_of_seconds(strategy: str) -> None:
    assert applied(strategy, "continuous", 10.0) == applied(strategy, "continuous", back_s=0.0)


@pytest.mark.parametrize("strategy", ["capacity", "symbiotic", "joint", "rules", "ds2", "dask"])
def test_without_loop_time_strategies_stop_acting(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control of the test above."""
    undisturbed = applied(strategy, "micro-batch", back_s=0.0)
    monkeypatch.setattr(LoopClock, "tick", lambda self: self._clock.now_s())
    monkeypatch.setattr(LoopClock, "date", lambda self, observation: observation)
    on_wall_time = applied(strategy, "micro-batch", HOUR_S)

    def later(acts: list[tuple[float, Layout]]) -> int:
        return sum(at_s > STEP_AT_S for at_s, _ in acts)

    assert later(on_wall_time) < later(undisturbed)


def test_a_stored_run_is_scored_as_if_the_clock_had_not_stepped(tmp_path: Path) -> None:
    def scores(back_s: float) -> dict[str, Any]:
        path = tmp_path / f"back-{back_s:g}.sqlite"
        with contextlib.closing(Store(path, ManualClock(0.0))) as store:
            store.begin_run({"slo": "freshness p95 <= 30s", "nodes": "1:8", "started_s": "0.0"})
            applied("capacity", "micro-batch", back_s, store)
        return read_run(path).score_values()

    undisturbed = scores(0.0)
    assert undisturbed["reconfigurations"] > 0
    assert scores(HOUR_S) == pytest.approx(undisturbed)
    assert scores(-30 * 86400.0) == pytest.approx(undisturbed)


# -- a queue under rules ---------------------------------------------------------------------------


class World:
    """A loop that observes a queue once a second."""

    def __init__(self, strategy: Strategy | None = None, **options: Any) -> None:
        self.clock, self.store = ManualClock(100_000.0), MemoryStore(keep=True)
        self.target = FakeTarget(self.clock)
        self.loop = ControlLoop(
            target=self.target,
            strategy=strategy or Rules(Policy(GROW)),
            guards=(),
            store=self.store,
            clock=self.clock,
            limits=Limits.parse("1:20"),
            slo=Slo(freshness_s=30.0),
            **options,
        )

    def run(self, seconds_: int, queue: float) -> list[tuple[float, int]]:
        """Seconds from now at which it grew, and its nodes then."""
        grew, begun_s = [], self.clock.now_s()
        for _ in range(seconds_):
            before, now_s = len(self.target.applied), self.clock.now_s()
            self.target.show(readings=[Reading(now_s, "words", Metric.QUEUE_LENGTH, queue)])
            self.loop.cycle()
            grew += [(now_s - begun_s, each.main_nodes) for each in self.target.applied[before:]]
            self.target.observed = self.target.requested
            self.clock.advance(1.0)
        return grew

    @property
    def rows(self) -> list[dict[str, Any]]:
        return self.store.ledger()

    @property
    def reasons(self) -> list[str]:
        return [row["reason"] for row in self.rows]


@pytest.mark.parametrize("back_s", [10.0, 200.0, 600.0, HOUR_S])
def test_readings_from_before_the_set_back_fire_nothing(back_s: float) -> None:
    world = World(decide_at_least_every_s=1.0)
    assert world.run(10, queue=301) == []
    world.clock.set(world.clock.now_s() - back_s)
    assert world.run(100, queue=0) == []


@pytest.mark.parametrize("back_s", [10.0, 200.0, 600.0, HOUR_S])
def test_the_period_of_a_condition_continues(back_s: float) -> None:
    world = World(decide_at_least_every_s=1.0)
    world.run(8, queue=301)
    world.clock.set(world.clock.now_s() - back_s)
    (first, *_) = world.run(15, queue=301)
    assert first == (2, 2)


def test_a_small_step_back_is_not_a_set_back() -> None:
    world = World(decide_at_least_every_s=1.0)
    world.run(8, queue=301)
    world.clock.set(world.clock.now_s() - 0.9 * STEP_S)
    (first, *_) = world.run(15, queue=301)
    assert first[0] < 10
    assert not any("set back" in reason for reason in world.reasons)


def test_guard_times_count_as_before() -> None:
    guarded = GROW.with_no_scale_out_since(minutes(1))
    world = World(Rules(Policy(guarded)), decide_at_least_every_s=1.0)
    assert world.run(11, queue=301) == [(10, 2)]
    world.clock.set(world.clock.now_s() - HOUR_S)
    (first, *_) = world.run(100, queue=301)
    assert first[0] == pytest.approx(60, abs=2)
    assert not any("was -" in reason for reason in world.reasons)


def test_bounds_of_the_calendar_follow_the_wall_clock() -> None:
    by_night = bounds("night").keep(cluster(), at_least=3).between("02:00", "03:00").in_timezone("UTC")
    world = World(Rules(Policy(by_night)), decide_at_least_every_s=1.0)
    assert world.run(2, queue=0) == []  # 100,000 s after the epoch it is 03:46
    world.clock.set(world.clock.now_s() - HOUR_S)
    assert world.run(2, queue=0) == [(0, 3)]


# -- what people read ------------------------------------------------------------------------------


def test_the_ledger_says_that_the_clock_was_set_back() -> None:
    world = World()
    world.run(3, queue=0)
    world.clock.set(world.clock.now_s() - HOUR_S)
    world.run(3, queue=0)
    reported = [reason for reason in world.reasons if "set back" in reason]
    assert reported == [
        "the clock was set back by 1h; waiting times are not affected, and times are recorded 1h ahead of the clock "
        "from here on"
    ]


def test_the_ledger_says_that_the_clock_leapt_forward() -> None:
    world = World()
    world.run(3, queue=0)
    world.clock.set(world.clock.now_s() + HOUR_S)
    world.run(3, queue=0)
    world.clock.set(world.clock.now_s() - 2 * HOUR_S)
    world.run(3, queue=0)
    assert [reason for reason in world.reasons if "the clock" in reason] == [
        "the clock leapt forward by 1h; waiting times are not affected, and times are recorded 1h behind the clock "
        "from here on",
        "the clock was set back by 2h; waiting times are not affected, and times are recorded 1h ahead of the clock "
        "from here on",
    ]


def test_readings_from_before_a_leap_keep_their_age() -> None:
    world = World(decide_at_least_every_s=1.0)
    world.run(8, queue=301)
    late = Reading(world.clock.now_s() - 1.0, "words", Metric.QUEUE_LENGTH, 301.0)
    world.clock.set(world.clock.now_s() + HOUR_S)
    world.target.show(readings=[late])
    world.loop.cycle()
    assert world.loop.windows.of("words", Metric.QUEUE_LENGTH).last_time_s == 100_007.0
    world.clock.advance(1.0)
    (first, *_) = world.run(15, queue=301)
    assert first == (1, 2), "the condition has held for ten seconds in all"


def test_the_ledger_and_the_store_continue_on_loop_time() -> None:
    class Expecting(ScriptedStrategy):
        def decide(self, snapshot: Snapshot) -> Decision:
            effect = Effect(metric=Metric.QUEUE_LENGTH, value=5.0, at_s=snapshot.now_s + 2.0)
            return msgspec.structs.replace(super().decide(snapshot), expected=effect)

    world = World(Expecting(), decide_at_least_every_s=1.0)
    world.run(3, queue=7)
    world.clock.set(world.clock.now_s() - HOUR_S)
    world.run(4, queue=9)
    decided = [row for row in world.rows if row["expected"]]
    times_s = [100_000.0 + passed for passed in range(7)]
    assert [row["time_s"] for row in decided] == times_s
    assert [row["expected"]["at_s"] for row in decided] == [time_s + 2.0 for time_s in times_s]
    assert [row["achieved"] for row in decided[:5]] == [7.0, 9.0, 9.0, 9.0, 9.0], "none is lost"
    queue = [r.time_s for r in world.store.readings if r.metric is Metric.QUEUE_LENGTH]
    assert queue == times_s
    assert [entry.time_s for entry in world.loop.ledger.entries if entry.decision.expected] == times_s


# -- observations that span it ---------------------------------------------------------------------


def test_a_reading_from_before_the_set_back_does_not_hide_later_ones() -> None:
    world = World(decide_at_least_every_s=1.0)
    world.run(8, queue=301)
    late = Reading(world.clock.now_s() - 1.0, "words", Metric.QUEUE_LENGTH, 301.0)
    world.clock.set(world.clock.now_s() - HOUR_S)
    world.target.show(readings=[late])
    world.loop.cycle()
    assert world.loop.windows.of("words", Metric.QUEUE_LENGTH).last_time_s == 100_007.0
    world.clock.advance(1.0)
    (first, *_) = world.run(15, queue=301)
    assert first == (1, 2)


def test_a_batch_that_started_before_the_set_back_keeps_its_times() -> None:
    strategy = ScriptedStrategy()
    world = World(strategy, decide_at_least_every_s=1.0)
    world.run(8, queue=0)
    world.clock.set(world.clock.now_s() - HOUR_S)
    world.target.show(batches=[a_batch(1, started_s=100_004.0), a_batch(2, started_s=96_406.0)])
    world.loop.cycle()
    assert [batch.started_s for batch in strategy.snapshots[-1].batches] == [100_004.0, 100_006.0]
    assert [batch.oldest_arrival_s for batch in strategy.snapshots[-1].batches] == [99_999.0, 100_001.0]


def test_an_observation_from_before_the_set_back_is_not_fresh() -> None:
    strategy = ScriptedStrategy()
    world = World(strategy, decide_at_least_every_s=1.0)
    world.run(3, queue=0)
    world.clock.set(world.clock.now_s() - HOUR_S)
    world.target.error = TargetError("no answer")
    shown = len(strategy.snapshots)
    world.run(20, queue=0)
    assert len(strategy.snapshots) == shown
    assert world.rows[-1]["inputs"] == {"data_age_s": 20.0}
    assert world.reasons[-1] == "missing data: cannot observe the target (no answer); last observed 20s ago"


def test_an_observation_during_the_set_back_is_not_dated_in_the_future() -> None:
    strategy = ScriptedStrategy()
    world = World(strategy, decide_at_least_every_s=1.0)
    world.run(3, queue=0)
    observe = world.target.observe

    def set_back() -> Any:
        seen = observe()
        world.clock.set(world.clock.now_s() - HOUR_S)
        return seen

    world.target.observe = set_back  # type: ignore[method-assign]
    world.loop.cycle()
    world.target.observe = observe  # type: ignore[method-assign]
    assert strategy.snapshots[-1].data_age_s == 0.0
    assert any("set back" in reason for reason in world.reasons)


def test_a_set_back_during_a_cycle_does_not_delay_the_next_one() -> None:
    world, stop, waited = World(), threading.Event(), []
    wait = world.clock.wait

    def watched(seconds_: float, event: threading.Event) -> bool:
        waited.append(seconds_)
        stop.set()
        return wait(seconds_, event)

    world.clock.wait = watched  # type: ignore[method-assign]
    observe = world.target.observe

    def set_back() -> Any:
        seen = observe()
        world.clock.set(world.clock.now_s() - HOUR_S)
        return seen

    world.target.observe = set_back  # type: ignore[method-assign]
    world.loop.run(stop)
    assert waited == [1.0]
