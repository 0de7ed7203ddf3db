"""DS2: the parallelism of every operator in one step, from true rates.

    parallelism(B) = ceil( demand(B) / (true rate(B) / present parallelism(B)) × over-provision )

Demand follows from the source rate along the streams, and true rate = rate / busy fraction: Flink's autoscaler without
lag. Its claim: at most three steps to the optimum. Reference: V. Kalavri et al., Three steps is all you need, OSDI
2018.

Modelled: the source rate is the arrival rate, averaged over the interval. The over-provision factor is 1 (none). The
paper sets interval and warm-up per experiment. Here the interval is 60 s, without work done before the last change of
size or while one is under way. Every instance has a slot of its own (``slot_sharing`` is off); if the limits allow
fewer slots than wanted, instances share them. ``baselines.vertices`` says what a vertex is on a micro-batch target, and
what happens to a layout with more instances than slots.
"""

from __future__ import annotations

import math
from typing import Annotated

from ebbflow.core.decision import Decision, hold, want
from ebbflow.core.parameters import Duration, Flag, Number
from ebbflow.core.periods import SLACK_S, Every
from ebbflow.core.plural import counted
from ebbflow.core.ports import Strategy
from ebbflow.core.signals import Signals, Work
from ebbflow.core.snapshot import ActionKind, Snapshot
from ebbflow.strategies.baselines.vertices import demands, deployable, layout_for, readable, vertices

FORMULA = "p' = ceil(p · demand / true rate · over-provision), true rate = rate / busy, for all operators"


class Ds2(Strategy):
    """All operators at once, from their true rates. The module docstring has the rule."""

    name = "ds2"
    brings_own_guards = True

    def __init__(
        self,
        *,
        interval_s: Annotated[float, Duration("Time between two evaluations.", above=0)] = 60.0,
        over_provision: Annotated[
            float, Number("Factor on the computed parallelism.", unit="factor", above=0)
        ] = 1.0,
        slot_sharing: Annotated[bool, Flag("Whether a slot runs one instance of every operator.")] = False,
    ) -> None:
        self._every = Every(interval_s, at_once=False)
        self._over_provision = over_provision
        self._slot_sharing = slot_sharing
        self._signals = Signals()
        self._work: list[Work] = []
        self._rates: list[float] = []
        self._size: object = None
        self._deployed = False

    def decide(self, snapshot: Snapshot) -> Decision:
        """The parallelism at which every operator keeps up with the sources."""
        missing = self._signals.update(snapshot)
        self._collect(snapshot)
        due = self._every.due(snapshot.now_s)
        if not missing and not self._signals.micro_batch and not self._deployed:
            self._deployed = True
            if layout := deployable(snapshot, slot_sharing=self._slot_sharing):
                reason = "more instances than slots: deploying one instance per slot"
                return want(snapshot, layout.main_nodes, reason, FORMULA, {}, layout=layout)
        if not due:
            return hold(snapshot, "waiting for the next interval", FORMULA)
        work, rates = self._work, self._rates
        self._work, self._rates = [], []
        if missing or not work or not rates:
            return hold(snapshot, missing or "no data: no work on this size in the interval", FORMULA)
        source_rate = sum(rates) / len(rates)
        found = vertices(work, snapshot, micro_batch=self._signals.micro_batch)
        demand = demands(snapshot.pipeline, found, source_rate)
        parallelism: dict[str, int] = {}
        inputs: dict[str, float | str] = {"source_rate_per_s": round(source_rate, 3)}
        for name, vertex in found.items():
            true_rate = vertex.true_rate_per_s
            if true_rate is None:
                return hold(snapshot, f"no data: busy time of {name} unknown", FORMULA, inputs)
            factor = demand[name] / true_rate * self._over_provision if true_rate > 0 else 1.0
            parallelism[name] = max(1, math.ceil(vertex.parallelism * factor - SLACK_S))
            inputs[f"{name} true_rate_per_s"] = readable(true_rate)
            inputs[f"{name} parallelism"] = f"{vertex.parallelism} → {parallelism[name]}"
        nodes, layout = layout_for(parallelism, snapshot, slot_sharing=self._slot_sharing)
        reason = f"{source_rate:.0f} rows/s need {counted(nodes, 'node')} at the true rates"
        return want(snapshot, nodes, reason, FORMULA, inputs, layout=layout)

    def _collect(self, snapshot: Snapshot) -> None:
        """Collect the work done on this size, not what was done before or during a change."""
        size = (snapshot.observed.main_nodes, dict(snapshot.planned.parallelism))
        restarts = any(action.kind is ActionKind.RESTART for action in snapshot.under_way)
        if size != self._size or restarts:
            self._work, self._rates, self._size = [], [], size
            return
        self._work += self._signals.new
        if self._signals.new and self._signals.rate_per_s is not None:
            self._rates.append(self._signals.rate_per_s)
