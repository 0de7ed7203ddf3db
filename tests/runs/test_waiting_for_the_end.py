"""Waiting for a run reports a failed query at once."""

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

    def monotonic_s(self) -> float:
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


def test_a_failed_query_is_reported_within_seconds_with_its_error() -> None:
    world = World(fails_at_s=42.0, loop_ends_at_s=43.0)
    with pytest.raises(InputError, match=r"^cannot read /trace/part-3\.csv\.gz: it ends$"):
        watched(world)
    assert world.time_s <= 47.0


def test_a_failure_at_the_very_end_is_reported() -> None:
    with pytest.raises(InputError, match="cannot read"):
        watched(World(fails_at_s=300.0))


def test_a_loop_that_ends_while_its_query_runs_is_an_error() -> None:
    with pytest.raises(TargetError, match="the loop has ended too early"):
        watched(World(loop_ends_at_s=10.0))


def test_a_healthy_run_ends_at_its_time_or_when_stopped() -> None:
    world = World()
    watched(world)
    assert world.time_s == 300.0
    output = threading.Event()
    output.set()
    watched(world, 900.0, output)
    assert world.time_s == 300.0
