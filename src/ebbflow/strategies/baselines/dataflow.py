"""Google Dataflow's streaming autoscaling, as its older documentation described it.

    up    backlogged, and CPU above 20 %, for a couple of minutes    → ceil(n · (rate + lag / 150 s) / throughput)
    down  backlog below 10 s, and CPU below 75 %, for as long        → ceil(n · CPU / 75 %)

Up goes to as many workers as clear the backlog within about 150 s at the present throughput per worker, down to as many
as would use 75 % of their CPUs. Reference: Google Cloud, Dataflow, Horizontal autoscaling (before the hints of
Streaming Engine).

Modelled: backlog seconds = lag / throughput, and "backlogged" means 10 s or more, the published bound of the other
direction. A couple of minutes is 120 s. CPU is the busy share of the observed slots. Down goes to the largest size of
the window. Both clocks restart after a change of size.
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
from ebbflow.core.plural import counted
from ebbflow.core.ports import Strategy
from ebbflow.core.signals import Signals
from ebbflow.core.snapshot import Snapshot

FORMULA = "up: ceil(n·(rate + lag/clear)/throughput) if backlogged and busy; down: ceil(n·busy/0.75)"


@dataclass(frozen=True, kw_only=True)
class _Sample:
    """The conditions at one snapshot."""

    time_s: float
    up: bool
    down: bool
    fewest: int
    """Nodes that would be as busy as the target."""


class Dataflow(Strategy):
    """Workers by backlog and CPU. The module docstring has the rule."""

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
            float, Number("Scale out only above this busy share.", unit="share", at_least=0, at_most=1)
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
        self._samples: deque[_Sample] = deque()
        self._nodes: int | None = None

    def decide(self, snapshot: Snapshot) -> Decision:
        """More or fewer workers, if the condition lasted."""
        missing = self._signals.update(snapshot)
        signals, observed = self._signals, snapshot.observed.main_nodes
        busy_slots, lag_rows = signals.busy_slots, signals.lag_rows
        rate, throughput = signals.rate_per_s, signals.processed_per_s
        if (
            missing
            or busy_slots is None
            or lag_rows is None
            or rate is None
            or throughput is None
            or not observed
        ):
            self._samples.clear()
            return hold(snapshot, missing or "no data: lag, rate or busy time unknown", FORMULA)
        if observed != self._nodes or observed != snapshot.planned.main_nodes:
            self._samples.clear()
            self._nodes = observed
        busy = busy_slots / (observed * snapshot.slots_per_node)
        backlog_s = lag_rows / throughput if throughput > 0 else (0.0 if lag_rows <= 0 else math.inf)
        self._add(
            _Sample(
                time_s=snapshot.now_s,
                up=backlog_s >= self._backlog_s and busy > self._up_busy,
                down=backlog_s < self._backlog_s and busy < self._down_busy,
                fewest=max(1, math.ceil(observed * busy / self._down_busy - SLACK_S)),
            )
        )
        inputs: dict[str, float | str] = {
            "busy": round(busy, 4),
            "backlog_s": round(backlog_s, 2) if math.isfinite(backlog_s) else "unbounded",
            "rate_per_s": round(rate, 2),
            "throughput_per_s": round(throughput, 2),
            "nodes": observed,
        }
        condition = f"backlog {backlog_s:.0f} s, busy {busy:.0%}"
        if self._samples[-1].time_s - self._samples[0].time_s < self._sustained_s - SLACK_S:
            return hold(
                snapshot, f"{condition}: not measured for {self._sustained_s:g} s yet", FORMULA, inputs
            )
        if all(sample.up for sample in self._samples) and throughput > 0:
            wanted = observed * (rate + lag_rows / self._clear_s) / throughput
            nodes = max(observed + 1, math.ceil(wanted - SLACK_S))
            effect = Effect(
                metric=Metric.QUEUE_LENGTH,
                value=round(rate * self._backlog_s, 1),
                at_s=snapshot.now_s + snapshot.lead_time_s + self._clear_s,
            )
            reason = (
                f"{condition} for {self._sustained_s:g} s: {counted(nodes, 'node')} can clear it "
                f"in {self._clear_s:g} s"
            )
            return want(snapshot, nodes, reason, FORMULA, inputs, expected=effect)
        fewest = max(sample.fewest for sample in self._samples)
        if all(sample.down for sample in self._samples) and fewest < observed:
            reason = (
                f"{condition} for {self._sustained_s:g} s: {counted(fewest, 'node')} would be "
                f"{self._down_busy:.0%} busy"
            )
            return want(snapshot, fewest, reason, FORMULA, inputs)
        return hold(snapshot, f"{condition}: no condition lasted {self._sustained_s:g} s", FORMULA, inputs)

    def _add(self, sample: _Sample) -> None:
        """Keep the samples of the window, and the one at its edge."""
        self._samples.append(sample)
        edge_s = sample.time_s - self._sustained_s + SLACK_S
        while len(self._samples) > 1 and self._samples[1].time_s <= edge_s:
            self._samples.popleft()
