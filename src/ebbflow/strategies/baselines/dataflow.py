"""Google Dataflow's streaming autoscaling, as its older documentation described it.

Up if the pipeline stayed backlogged while its workers used more than 20 % of their CPUs for a couple of
minutes: to as many as clear the backlog within about 150 s at the present throughput per worker. Down if
the backlog stayed below 10 s and the workers used less than 75 % of their CPUs for as long: to as many as
would use 75 %. Reference: Dataflow, Horizontal autoscaling (before Streaming Engine's hints).

Modelled: backlog seconds = lag / throughput, and "backlogged" is 10 s or more, the bound that is published
for the other direction; a couple of minutes is 120 s; CPU is the busy share of the slots that are there.
Down goes to the largest size that the window asked for. Both clocks start anew after a change.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Annotated

from ebbflow.core.decision import Decision, Effect, hold, want
from ebbflow.core.metrics import Metric
from ebbflow.core.parameters import Duration, Number, Share
from ebbflow.core.periods import SLACK_S
from ebbflow.core.ports import Strategy
from ebbflow.core.signals import Signals
from ebbflow.core.snapshot import Snapshot

FORMULA = "up: ceil(n·(rate + lag/clear)/throughput) if backlogged and busy; down: ceil(n·busy/0.75)"


@dataclass(frozen=True, kw_only=True)
class _Look:
    time_s: float
    up: bool
    down: bool
    fewest: int


class Dataflow(Strategy):
    """Workers by backlog and CPU. See the module's text for the rule."""

    name = "dataflow"
    brings_own_guards = True

    def __init__(
        self,
        *,
        sustained_s: Annotated[float, Duration("How long a condition must hold.")] = 120.0,
        backlog_s: Annotated[
            float,
            Duration(
                "Backlog from which a pipeline is backlogged, in time at the present throughput.", above=0
            ),
        ] = 10.0,
        up_busy: Annotated[
            float, Number("Scale out only above this busy share.", at_least=0, at_most=1)
        ] = 0.2,
        down_busy: Annotated[float, Share("Scale in only below this busy share, and to it.")] = 0.75,
        clear_s: Annotated[
            float, Duration("Time within which the backlog is to be worked off.", above=0)
        ] = 150.0,
    ) -> None:
        self._sustained_s = sustained_s
        self._backlog_s = backlog_s
        self._up_busy = up_busy
        self._down_busy = down_busy
        self._clear_s = clear_s
        self._signals = Signals()
        self._looks: deque[_Look] = deque()
        self._nodes: int | None = None

    def decide(self, snapshot: Snapshot) -> Decision:
        """More, fewer or as many workers, if the signs lasted."""
        missing = self._signals.look(snapshot)
        signals, here = self._signals, snapshot.observed.main_nodes
        busy_slots, lag_rows = signals.busy_slots, signals.lag_rows
        rate, throughput = signals.rate_per_s, signals.processed_per_s
        if (
            missing
            or busy_slots is None
            or lag_rows is None
            or rate is None
            or throughput is None
            or not here
        ):
            self._looks.clear()
            return hold(snapshot, missing or "no data: lag, rate or busy time unknown", FORMULA)
        if here != self._nodes or here != snapshot.planned.main_nodes:
            self._looks.clear()
            self._nodes = here
        busy = busy_slots / (here * snapshot.slots_per_node)
        backlog_s = lag_rows / throughput if throughput > 0 else (0.0 if lag_rows <= 0 else math.inf)
        self._note(
            _Look(
                time_s=snapshot.now_s,
                up=backlog_s >= self._backlog_s and busy > self._up_busy,
                down=backlog_s < self._backlog_s and busy < self._down_busy,
                fewest=max(1, math.ceil(here * busy / self._down_busy - SLACK_S)),
            )
        )
        inputs: dict[str, float | str] = {
            "busy": round(busy, 4),
            "backlog_s": round(backlog_s, 2) if math.isfinite(backlog_s) else "unbounded",
            "rate_per_s": round(rate, 2),
            "throughput_per_s": round(throughput, 2),
            "nodes": here,
        }
        signs = f"backlog {backlog_s:.0f} s, busy {busy:.0%}"
        if self._looks[-1].time_s - self._looks[0].time_s < self._sustained_s - SLACK_S:
            return hold(snapshot, f"{signs}: watched for too short a time", FORMULA, inputs)
        if all(look.up for look in self._looks) and throughput > 0:
            wanted = here * (rate + lag_rows / self._clear_s) / throughput
            nodes = max(here + 1, math.ceil(wanted - SLACK_S))
            effect = Effect(
                metric=Metric.QUEUE_LENGTH,
                value=round(rate * self._backlog_s, 1),
                at_s=snapshot.now_s + snapshot.lead_time_s + self._clear_s,
            )
            reason = f"{signs} for {self._sustained_s:g} s: {nodes} clear it in {self._clear_s:g} s"
            return want(snapshot, nodes, reason, FORMULA, inputs, expected=effect)
        fewest = max(look.fewest for look in self._looks)
        if all(look.down for look in self._looks) and fewest < here:
            reason = f"{signs} for {self._sustained_s:g} s: {fewest} would be {self._down_busy:.0%} busy"
            return want(snapshot, fewest, reason, FORMULA, inputs)
        return hold(snapshot, f"{signs}: no sign lasted", FORMULA, inputs)

    def _note(self, look: _Look) -> None:
        """Keep the looks of the window, and the one at its edge."""
        self._looks.append(look)
        edge_s = look.time_s - self._sustained_s + SLACK_S
        while len(self._looks) > 1 and self._looks[1].time_s <= edge_s:
            self._looks.popleft()
