"""A machine's clock is set back while a job runs: nothing acts on readings of before, and nobody waits for them."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from fake_target import FakeTarget, MemoryStore, Wishing

from ebbflow.control.loop import ControlLoop
from ebbflow.control.set_back import SET_BACK_S
from ebbflow.core.clock import ManualClock
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.ports import StartsOver, Strategy
from ebbflow.core.readings import Reading
from ebbflow.core.slo import Slo
from ebbflow.errors import TargetError
from ebbflow.policy import Policy, above, absolute, cluster, metric, minutes, rule, seconds, tuples
from ebbflow.strategies.capacity import Capacity
from ebbflow.strategies.rules import Rules

HOUR_S = 3600.0
HIGH = metric("queue-length").is_(above(tuples(300))).for_at_least(seconds(10))
GROW = rule("grow").scale_out(cluster()).by(absolute(1)).when(HIGH)


class World:
    """A loop that looks once a second at a queue."""

    def __init__(self, strategy: Strategy | None = None, **options: Any) -> None:
        self.clock, self.store = ManualClock(100_000.0), MemoryStore()
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
        """When it was grown, in seconds from now, and to how many nodes."""
        asked, begun_s = [], self.clock.now_s()
        for _ in range(seconds_):
            before, now_s = len(self.target.applied), self.clock.now_s()
            self.target.show(readings=[Reading(now_s, "words", Metric.QUEUE_LENGTH, queue)])
            self.loop.cycle()
            asked += [(now_s - begun_s, each.main_nodes) for each in self.target.applied[before:]]
            self.target.observed = self.target.requested
            self.clock.advance(1.0)
        return asked

    @property
    def reasons(self) -> list[str]:
        return [row["reason"] for row in self.store.rows]


@pytest.mark.parametrize("back_s", [10.0, 200.0, 600.0, HOUR_S])
def test_readings_of_before_fire_nothing(back_s: float) -> None:
    world = World(decide_at_least_every_s=1.0)
    assert world.run(10, queue=301) == []
    world.clock.advance(-back_s)
    assert world.run(100, queue=0) == []


@pytest.mark.parametrize("back_s", [10.0, 200.0, 600.0, HOUR_S])
def test_a_full_period_after_it_rules_fire_again(back_s: float) -> None:
    world = World(decide_at_least_every_s=1.0)
    world.run(8, queue=301)
    world.clock.advance(-back_s)
    assert world.run(15, queue=301) == [(10, 2)]


def test_a_step_of_a_time_server_starts_nothing_over() -> None:
    world = World(decide_at_least_every_s=1.0)
    world.run(8, queue=301)
    world.clock.advance(-0.9 * SET_BACK_S)
    (first, *_) = world.run(15, queue=301)
    assert first[0] < 10
    assert not any("set back" in reason for reason in world.reasons)


def test_guard_times_count_from_then_on() -> None:
    guarded = GROW.with_no_scale_out_since(minutes(1))
    world = World(Rules(Policy(guarded)), decide_at_least_every_s=1.0)
    assert world.run(11, queue=301) == [(10, 2)]
    world.clock.advance(-HOUR_S)
    (first, *_) = world.run(100, queue=301)
    assert first[0] == pytest.approx(60, abs=2)
    assert not any("was -" in reason for reason in world.reasons)


def test_what_did_not_come_about_is_not_tried_again_an_hour_later() -> None:
    world = World(decide_at_least_every_s=1.0)
    rules = world.loop._strategy
    assert isinstance(rules, Rules)
    rules._attempts.note("", before=1, size=2, at_s=world.clock.now_s())
    rules.start_over(world.clock.now_s() - HOUR_S)
    assert rules._attempts.wait_s("", 2, world.clock.now_s() - HOUR_S) == 30.0


def test_it_is_written_to_the_ledger() -> None:
    world = World()
    world.run(3, queue=0)
    world.clock.advance(-HOUR_S)
    world.run(3, queue=0)
    told = [reason for reason in world.reasons if "set back" in reason]
    assert told == ["the clock was set back by 59m59s: readings and waiting times start over"]


def test_a_reading_dated_before_it_does_not_hide_those_that_follow() -> None:
    world = World(decide_at_least_every_s=1.0)
    world.run(8, queue=301)
    late = Reading(world.clock.now_s() - 1.0, "words", Metric.QUEUE_LENGTH, 301.0)
    world.clock.advance(-HOUR_S)
    world.target.show(readings=[late])
    world.loop.cycle()
    assert len(world.loop.windows) == 0
    world.clock.advance(1.0)
    assert world.run(15, queue=301) == [(10, 2)]


def test_a_look_of_before_is_not_taken_for_a_fresh_one() -> None:
    wish = Wishing()
    world = World(wish, decide_at_least_every_s=1.0)
    world.run(3, queue=0)
    world.clock.advance(-HOUR_S)
    world.target.trouble = TargetError("no answer")
    shown = len(wish.seen)
    world.run(20, queue=0)
    assert len(wish.seen) == shown
    assert world.store.rows[-1]["inputs"] == {"data_age_s": 19.0}
    assert world.reasons[-1] == "missing data: the target cannot be seen (no answer); it last was 19s ago"


def test_a_look_during_which_it_happens_is_not_dated_in_the_future() -> None:
    wish = Wishing()
    world = World(wish, decide_at_least_every_s=1.0)
    world.run(3, queue=0)
    observe = world.target.observe

    def set_back() -> Any:
        seen = observe()
        world.clock.advance(-HOUR_S)
        return seen

    world.target.observe = set_back  # type: ignore[method-assign]
    world.loop.cycle()
    world.target.observe = observe  # type: ignore[method-assign]
    assert wish.seen[-1].data_age_s == 0.0
    assert any("set back" in reason for reason in world.reasons)


def test_a_cycle_in_which_it_happens_is_not_followed_by_an_hour_of_waiting() -> None:
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
        world.clock.advance(-HOUR_S)
        return seen

    world.target.observe = set_back  # type: ignore[method-assign]
    world.loop.run(stop)
    assert waited == [1.0]


def test_strategies_that_wait_can_be_told() -> None:
    assert isinstance(Rules(), StartsOver)
    assert isinstance(Capacity(), StartsOver)
