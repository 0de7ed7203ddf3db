"""KEDA's Kafka scaler: an HPA fed with lag / lagThreshold.

Every 30 s the lag is polled. While there is lag, the HPA (every 15 s, tolerance 10 %, its limits up and
its 300 s window down) wants ceil(lag / 10), and the lag is counted up to 10 × partitions only: more
consumers than partitions would idle. When there has been no lag for 300 s (the cool-down), it goes to the
minimum whatever the HPA's window says. Reference: keda.sh, Apache Kafka scaler, ScaledObject.

Modelled: the lag is the pipeline's queue length; the threshold of 10 is Kafka's default, in rows for each
node, which any trigger interval exceeds: that is what users of the default get. Partitions are the most
tasks of a stage; a continuous target takes the planned parallelism of its sources; unknown means no cap.
KEDA's minimum of 0 is the minimum of the limits here. A look that covers several polls or syncs makes them all,
those before the last with the lag of the look before.
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
    """Nodes in proportion to the lag. See the module's text for the rule."""

    name = "keda"
    brings_own_guards = True

    def __init__(
        self,
        *,
        lag_threshold: Annotated[float, Number("Lag for each node.", above=0, unit="rows")] = 10.0,
        poll_s: Annotated[float, Duration("Time between two polls of the lag.", above=0)] = 30.0,
        cool_down_s: Annotated[float, Duration("Time without lag after which the minimum is taken.")] = 300.0,
        tolerance: Annotated[
            float, Number("Relative deviation from the target that is tolerated.", at_least=0)
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
        """The size at which each node would have a threshold's worth of lag."""
        missing = self._signals.look(snapshot)
        polls, syncs = self._poll.due(snapshot.now_s), self._sync.due(snapshot.now_s)
        if missing or self._signals.lag_rows is None:
            self._lag_rows = self._active_s = None  # what was not seen was not quiet
            return hold(snapshot, missing or "no data: the lag is unknown", FORMULA)
        held_rows = self._lag_rows
        if polls or held_rows is None:
            if held_rows and len(polls) > 1:
                self._active_s = polls[-2]
            self._lag_rows = self._signals.lag_rows
            if self._lag_rows > 0 or self._active_s is None:
                self._active_s = snapshot.now_s
        assert self._lag_rows is not None
        if not syncs:
            return hold(snapshot, "waits for its next sync", FORMULA)
        here, partitions = snapshot.planned.main_nodes, self._partitions(snapshot)
        inputs: dict[str, float | str] = {"lag_rows": round(self._lag_rows, 1), "nodes": here}
        quiet_s = snapshot.now_s - (self._active_s or 0.0)
        if self._lag_rows <= 0 and quiet_s >= self._cool_down_s - SLACK_S:
            return want(snapshot, snapshot.limits.min_nodes, f"no lag for {quiet_s:.0f} s", FORMULA, inputs)
        if partitions is not None:
            inputs["partitions"] = partitions
        nodes = here
        if held_rows is not None:
            for sync_s in syncs[:-1]:
                earlier = self._recommend(nodes, held_rows, partitions)
                nodes = self._behaviour.restrain(sync_s, nodes, earlier)
        recommended = self._recommend(nodes, self._lag_rows, partitions)
        nodes = self._behaviour.restrain(syncs[-1], nodes, recommended)
        inputs["recommended"] = recommended
        reason = f"lag {self._lag_rows:.0f} rows at {self._lag_threshold:g} a node: {recommended} recommended"
        if nodes == here:
            return hold(snapshot, reason, FORMULA, inputs)
        return want(snapshot, nodes, reason, FORMULA, inputs)

    def _recommend(self, here: int, lag_rows: float, partitions: int | None) -> int:
        """A threshold's worth of lag for each node, or those there are within the tolerance."""
        per_node = lag_rows / self._lag_threshold
        if partitions is not None:
            per_node = min(per_node, partitions)
        within = here > 0 and abs(per_node / here - 1) <= self._tolerance + SLACK_S
        return here if within else max(1, math.ceil(per_node - SLACK_S))

    def _partitions(self, snapshot: Snapshot) -> int | None:
        if self._signals.micro_batch:
            return self._signals.most_tasks
        sources = [snapshot.planned.parallelism.get(name) for name in snapshot.pipeline.sources]
        return max((p for p in sources if p is not None), default=None)
