"""What a running loop does for its strategy after each cycle: keep its state, and go on with its background work."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from ebbflow.control.loop import CycleReport
from ebbflow.control.state_file import StateFile
from ebbflow.core.clock import Clock
from ebbflow.core.ports import Strategy


def with_upkeep(
    strategy: Strategy, clock: Clock, opened: ExitStack, on_cycle: Callable[[CycleReport], None] | None
) -> Callable[[CycleReport], None]:
    """A callback for the loop that does the upkeep and then calls ``on_cycle``. ``opened`` ends the upkeep.

    The state is not kept while the strategy is still deciding: it would be half of one.
    """
    kept = None if strategy.state_file is None else StateFile(strategy, strategy.state_file)
    if kept is not None:
        opened.callback(kept.close)
    work = strategy.in_background()
    if work is not None:
        opened.callback(work.close)

    def after_cycle(report: CycleReport) -> None:
        if kept is not None and not report.deciding:
            kept.after_cycle(clock.now_s())
        if work is not None:
            work.step()
        if on_cycle is not None:
            on_cycle(report)

    return after_cycle
