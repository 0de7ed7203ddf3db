"""The dynamic test: a query that fails is told when it fails."""

from __future__ import annotations

import threading

import pytest

from ebbflow.errors import InputError, TargetError
from ebbflow.runs.watching import wait_for_end

BROKEN = Exception(
    "Job aborted\nebbflow.errors.InputError: cannot read /trace/part-3.csv.gz: it ends\n\tat org"
)


class World:
    """A clock moved by the waiting for it, the query and the loop in one."""

    def __init__(self, *, fails_at_s: float = 1e9, loop_ends_at_s: float = 1e9) -> None:
        self.time_s, self.fails_at_s, self.loop_ends_at_s = 0.0, fails_at_s, loop_ends_at_s

    def now_s(self) -> float:
        return self.time_s

    def wait(self, seconds: float, stop: threading.Event | None = None) -> bool:
        self.time_s += seconds
        return stop is not None and stop.is_set()

    def failure(self) -> Exception | None:
        return BROKEN if self.time_s >= self.fails_at_s else None

    @property
    def active(self) -> bool:
        return self.time_s < self.loop_ends_at_s


def watched(world: World, until_s: float = 300.0, ended: threading.Event | None = None) -> None:
    wait_for_end(world.failure, world, world, until_s, ended or threading.Event())


def test_a_query_that_died_is_told_within_seconds_in_its_own_words() -> None:
    world = World(fails_at_s=42.0, loop_ends_at_s=43.0)
    with pytest.raises(InputError, match=r"^cannot read /trace/part-3\.csv\.gz: it ends$"):
        watched(world)
    assert world.time_s <= 47.0


def test_one_that_dies_at_the_very_end_is_told_too() -> None:
    with pytest.raises(InputError, match="cannot read"):
        watched(World(fails_at_s=300.0))


def test_a_loop_that_has_ended_over_a_healthy_query_is_told() -> None:
    with pytest.raises(TargetError, match="the loop has ended too early"):
        watched(World(loop_ends_at_s=10.0))


def test_a_run_that_goes_well_ends_at_its_time_or_when_it_is_told_to() -> None:
    world = World()
    watched(world)
    assert world.time_s == 300.0
    told = threading.Event()
    told.set()
    watched(world, 900.0, told)
    assert world.time_s == 300.0
