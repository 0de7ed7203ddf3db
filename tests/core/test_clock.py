"""Clocks passed to constructors."""

from __future__ import annotations

import threading

from ebbflow.core.clock import ManualClock, SystemClock, wait_until


def test_a_manual_clock_moves_only_when_advanced() -> None:
    clock = ManualClock(10.0)
    assert clock.now_s() == clock.now_s() == 10.0
    clock.advance(2.5)
    assert clock.now_s() == 12.5


def test_waiting_on_a_manual_clock_passes_the_time_at_once() -> None:
    clock = ManualClock(10.0)
    assert clock.wait(5.0, threading.Event()) is False
    assert clock.now_s() == 15.0


def test_a_negative_wait_does_not_turn_time_back() -> None:
    clock = ManualClock(10.0)
    clock.wait(-5.0, threading.Event())
    assert clock.now_s() == 10.0


def test_a_wait_is_cut_short_by_its_event() -> None:
    stop = threading.Event()
    stop.set()
    manual = ManualClock(10.0)
    assert manual.wait(1000.0, stop) is True
    assert manual.now_s() == 10.0
    assert SystemClock().wait(1000.0, stop) is True


def test_a_condition_is_checked_even_after_the_deadline() -> None:
    clock = ManualClock(10.0)
    assert wait_until(lambda: True, clock, within_s=-5.0)
    assert not wait_until(lambda: False, clock, within_s=-5.0)
    assert clock.now_s() == 10.0


def test_waiting_for_a_condition_ends_when_stopped() -> None:
    clock, stop = ManualClock(10.0), threading.Event()
    checks = []

    def check() -> bool:
        checks.append(clock.now_s())
        if len(checks) == 3:
            stop.set()
        return False

    assert not wait_until(check, clock, within_s=99.0, every_s=1.0, stop=stop)
    assert checks == [10.0, 11.0, 12.0]
    assert not wait_until(lambda: True, clock, within_s=99.0, stop=stop)
