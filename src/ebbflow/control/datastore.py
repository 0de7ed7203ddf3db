"""Runs the control loop on a datastore, until stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from ebbflow.control.attach import decider
from ebbflow.control.loop import ControlLoop, CycleReport
from ebbflow.control.upkeep import with_upkeep
from ebbflow.core.clock import Clock
from ebbflow.core.folders import scratch_folder
from ebbflow.core.limits import Limits
from ebbflow.core.ports import Target
from ebbflow.guards import guards_for, make_guard, topology_guards
from ebbflow.monitoring.buffered_store import BufferedStore
from ebbflow.monitoring.store import Store
from ebbflow.options import Configuration


def scale_datastore(
    target: Target,
    configured: Configuration,
    limits: Limits,
    *,
    clock: Clock,
    stop: threading.Event,
    target_name: str,
    on_cycle: Callable[[CycleReport], None] | None = None,
) -> ControlLoop:
    """Scale a datastore between two sizes; returns the loop when ``stop`` is set.

    All guards of a datastore apply, whatever the strategy brings. The target is left as it is.
    """
    followed, strategy = decider(configured)
    settings = configured.guard_settings
    added = [
        make_guard(each, settings) if isinstance(each, str) else each for each in configured["guards.add"]
    ]
    with ExitStack() as opened:
        opened.callback(target.close)
        path = configured["store"]
        if path is None:
            path = Path(opened.enter_context(scratch_folder("store"))) / "run.sqlite"
        ledger = Store(path, clock)
        opened.callback(ledger.close)
        ledger.begin_run(
            {
                "slo": str(configured["slo"]),
                "nodes": str(limits),
                "target": target_name,
                "strategy": strategy.name,
                "started_s": repr(clock.now_s()),
            }
        )
        loop = ControlLoop(
            target=target,
            strategy=strategy,
            guards=guards_for(strategy, settings, [*added, *topology_guards()]),
            store=BufferedStore(ledger, clock),
            clock=clock,
            limits=limits,
            slo=configured["slo"],
            cycle_s=configured["cycle"],
            dry_run=configured["dry_run"],
            failures=configured.failure_limits,
            fallback=configured.make_fallback(strategy),
            on_cycle=with_upkeep(strategy, clock, opened, on_cycle),
            before_cycle=followed.refresh if followed is not None else None,
        )
        loop.run(stop)
        return loop
