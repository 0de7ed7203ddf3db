"""KEDA's Kafka scaler: an HPA on lag / lagThreshold.

    n' = ceil(min(lag / 10, partitions)), through the tolerance, limit and window of the HPA

The lag is polled every 30 s, and the HPA syncs every 15 s. More consumers than partitions would idle. Without lag for
300 s (the cool-down) it goes to the minimum, whatever the window of the HPA says. Reference: keda.sh, Apache Kafka
scaler and ScaledObject.

Modelled: the lag is the pipeline's queue length. The threshold of 10 rows per node is Kafka's default, which any
trigger interval exceeds: that is what users of the default get. Partitions are the most tasks of a stage; a continuous
target has the planned parallelism of its sources; unknown means no cap. KEDA's minimum of 0 is the minimum of the
limits. If several polls or syncs are due at once all are made, those before the last with the lag of the previous
snapshot.
"""

from __future__ import annotations

import math
from typing import Annotated

from ebbflow.core.decision import Decision, hold, want
from ebbflow.core.parameters import Duration, Number
from ebbflow.core.periods import SLACK_S, Every
from ebbflow.core.ports import Strategy
from ebbflow.core.signals import Signals
from ebbflow.core.snapshot import Snapshot
from ebbflow.strategies.baselines.hpa import Behaviour

FORMULA = "n' = ceil(min(lag / threshold, partitions)), as an HPA; no lag for the cool-down: the minimum"


class Keda(Strategy):
    """Nodes in proportion to the lag. The module docstring has the rule."""

    name = "keda"
    brings_own_guards = True

    def __init__(
        self,
        *,
        lag_threshold: Annotated[float, Number("Lag for each node.", above=0, unit="rows")] = 10.0,
        poll_s: Annotated[float, Duration("Time between two polls of the lag.", above=0)] = 30.0,
        cool_down_s: Annotated[float, Duration("Time without lag after which the minimum is taken.")] = 300.0,
        tolerance: Annotated[
            float, Number("Relative deviation from the target that is tolerated.", unit="share", at_least=0)
        ] = 0.1,
        interval_s: Annotated[float, Duration("Time between two evaluations.", above=0)] = 15.0,
        down_window_s: Annotated[float, Duration("Stabilisation window for scaling in.")] = 300.0,
    ) -> None:
        self._lag_threshold = lag_threshold
        self._cool_down_s = cool_down_s
        self._tolerance = tolerance
        self._poll = Every(poll_s)
        self._sync = Every(interval_s)
        self._behaviour = Behaviour(down_window_s=down_window_s)
        self._signals = Signals()
        self._lag_rows: float | None = None
        self._active_s: float | None = None

    def decide(self, snapshot: Snapshot) -> Decision:
        """The size at which the lag per node is the threshold."""
        missing = self._signals.update(snapshot)
        polls, syncs = self._poll.due(snapshot.now_s), self._sync.due(snapshot.now_s)
        if missing or self._signals.lag_rows is None:
            self._lag_rows = self._active_s = None  # unknown is not idle
            return hold(snapshot, missing or "no data: the lag is unknown", FORMULA)
        previous_rows = self._lag_rows
        if polls or previous_rows is None:
            if previous_rows and len(polls) > 1:
                self._active_s = polls[-2]
            self._lag_rows = self._signals.lag_rows
            if self._lag_rows > 0 or self._active_s is None:
                self._active_s = snapshot.now_s
        assert self._lag_rows is not None
        if not syncs:
            return hold(snapshot, "waiting for the next sync", FORMULA)
        planned, partitions = snapshot.planned.main_nodes, self._partitions(snapshot)
        inputs: dict[str, float | str] = {"lag_rows": round(self._lag_rows, 1), "nodes": planned}
        quiet_s = snapshot.now_s - (self._active_s or 0.0)
        if self._lag_rows <= 0 and quiet_s >= self._cool_down_s - SLACK_S:
            return want(snapshot, snapshot.limits.min_nodes, f"no lag for {quiet_s:.0f} s", FORMULA, inputs)
        if partitions is not None:
            inputs["partitions"] = partitions
        nodes = planned
        if previous_rows is not None:
            for sync_s in syncs[:-1]:
                earlier = self._recommend(nodes, previous_rows, partitions)
                nodes = self._behaviour.restrain(sync_s, nodes, earlier)
        recommended = self._recommend(nodes, self._lag_rows, partitions)
        nodes = self._behaviour.restrain(syncs[-1], nodes, recommended)
        inputs["recommended"] = recommended
        reason = f"lag {self._lag_rows:.0f} rows, {self._lag_threshold:g} per node: {recommended} recommended"
        if nodes == planned:
            return hold(snapshot, reason, FORMULA, inputs)
        return want(snapshot, nodes, reason, FORMULA, inputs)

    def _recommend(self, nodes: int, lag_rows: float, partitions: int | None) -> int:
        """One node per threshold of lag, or the present nodes within the tolerance."""
        wanted = lag_rows / self._lag_threshold
        if partitions is not None:
            wanted = min(wanted, partitions)
        within = nodes > 0 and abs(wanted / nodes - 1) <= self._tolerance + SLACK_S
        return nodes if within else max(1, math.ceil(wanted - SLACK_S))

    def _partitions(self, snapshot: Snapshot) -> int | None:
        if self._signals.micro_batch:
            return self._signals.most_tasks
        sources = [snapshot.planned.parallelism.get(name) for name in snapshot.pipeline.sources]
        return max((p for p in sources if p is not None), default=None)
