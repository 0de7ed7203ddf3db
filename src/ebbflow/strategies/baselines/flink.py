"""Flink's autoscaler (of the Kubernetes operator), with its defaults.

Over a window of 15 min that starts 5 min after the last change (stabilisation) and must be full:

    source demand   = input rate + d(lag)/dt,   downstream demand = Σ upstream · ratio
    true rate       = rate / busy fraction; for a source the observed catch-up rate, if lag was over 30 s and that rate
                      is 15 % lower
    lag term        = lag / catch-up time, propagated downstream like the rate of the sources
    capacity wanted = lag term + demand · restart / catch-up + demand / 0.7
    p'              = ceil(p · capacity / true rate), the factor within [0.4, 10⁵], p' within 1 to 200

It acts, on all vertices at once, only if the true rate of one has left its band: below lag term + demand / 1.0 or above
lag term + demand · restart / catch-up + demand / 0.4 (utilisation 0.7 ± 0.3). A vertex shrinks after an hour in which
it always could have, to the largest size of that hour, if it was outside its band when that size was computed. No
vertex shrinks at a lag over 5 min. Reference: apache/flink-kubernetes-operator, JobVertexScaler, DelayedScaleDown and
ScalingMetricEvaluator.

Modelled: ``baselines.vertices`` says what a vertex is on a micro-batch target, and what happens to a layout with more
instances than slots. It evaluates once a minute, the reconcile interval of the operator. Operators share slots, as in
Flink. Left out: memory tuning, quotas, excluded periods, alignment to key groups.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Annotated

from ebbflow.core.decision import Decision, hold, want
from ebbflow.core.duration import format_duration
from ebbflow.core.parameters import Duration, Flag, Number, Share, Whole, check_order
from ebbflow.core.periods import SLACK_S, Every
from ebbflow.core.plural import counted
from ebbflow.core.ports import Strategy
from ebbflow.core.signals import Signals, Work
from ebbflow.core.snapshot import Snapshot
from ebbflow.strategies.baselines.vertices import Vertex, demands, deployable, layout_for, readable, vertices

FORMULA = "p' = ceil(p·(lag/C + d·R/C + d/0.7)/true rate), d = rate + d(lag)/dt, if a vertex left its band"


@dataclass(frozen=True, kw_only=True)
class _SourceSample:
    """The source at one snapshot."""

    time_s: float
    lag_rows: float
    rate_per_s: float

    def lag_s(self) -> float:
        if self.rate_per_s > 0:
            return self.lag_rows / self.rate_per_s
        return math.inf if self.lag_rows > 0 else 0.0


@dataclass(frozen=True, kw_only=True)
class _VertexSize:
    """A size for one vertex, and whether it was outside its band."""

    parallelism: int
    outside: bool


class _SmallerSizes:
    """Smaller sizes that would have sufficed for a vertex, since it first could shrink."""

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self._sizes: deque[tuple[float, _VertexSize]] = deque()
        """Sizes that no later size exceeds, so the first is the largest."""

    def add(self, time_s: float, size: _VertexSize) -> None:
        """Add a size."""
        while self._sizes and self._sizes[-1][1].parallelism <= size.parallelism:
            self._sizes.pop()
        self._sizes.append((time_s, size))

    def largest(self, from_s: float) -> _VertexSize:
        """The largest since a time. Earlier ones are forgotten."""
        while self._sizes[0][0] < from_s:
            self._sizes.popleft()
        return self._sizes[0][1]


class Flink(Strategy):
    """True rates, lag and a band. The module docstring has the rule."""

    name = "flink"
    brings_own_guards = True

    def __init__(
        self,
        *,
        utilisation: Annotated[float, Share("Target utilisation of a vertex.")] = 0.7,
        boundary: Annotated[
            float,
            Number(
                "Half the width of the utilisation band within which nothing changes.",
                unit="share",
                at_least=0,
                below=1,
            ),
        ] = 0.3,
        window_s: Annotated[float, Duration("Window over which metrics are averaged.", above=0)] = 900.0,
        stabilisation_s: Annotated[
            float, Duration("Time after a change in which nothing is evaluated.")
        ] = 300.0,
        scale_down_delay_s: Annotated[
            float, Duration("How long scaling down must have been possible.")
        ] = 3600.0,
        catch_up_s: Annotated[
            float, Duration("Time within which the lag is to be worked off.", above=0)
        ] = 1800.0,
        restart_s: Annotated[float, Duration("Expected time of a restart.")] = 300.0,
        observed_lag_s: Annotated[float, Duration("Lag above which the observed true rate is used.")] = 30.0,
        observed_lower: Annotated[
            float,
            Number("How much lower the observed true rate must be to be used.", unit="share", at_least=0),
        ] = 0.15,
        freeze_lag_s: Annotated[float, Duration("Lag above which no vertex is scaled down.")] = 300.0,
        least_factor: Annotated[
            float, Number("Smallest factor of one scale-down.", unit="factor", above=0, at_most=1)
        ] = 0.4,
        most_factor: Annotated[
            float, Number("Largest factor of one scale-up.", unit="factor", at_least=1)
        ] = 1e5,
        least_parallelism: Annotated[
            int, Whole("Fewest instances of a vertex.", unit="instances", at_least=1)
        ] = 1,
        most_parallelism: Annotated[
            int, Whole("Most instances of a vertex.", unit="instances", at_least=1)
        ] = 200,
        interval_s: Annotated[float, Duration("Time between two evaluations.", above=0)] = 60.0,
        slot_sharing: Annotated[bool, Flag("Whether a slot runs one instance of every operator.")] = True,
    ) -> None:
        check_order("least_parallelism", least_parallelism, "most_parallelism", most_parallelism)
        self._utilisation = utilisation
        self._boundary = boundary
        self._window_s = window_s
        self._stabilisation_s = stabilisation_s
        self._scale_down_delay_s = scale_down_delay_s
        self._catch_up_s = catch_up_s
        self._restart_s = restart_s
        self._observed_lag_s = observed_lag_s
        self._observed_lower = observed_lower
        self._freeze_lag_s = freeze_lag_s
        self._factors = (least_factor, most_factor)
        self._parallelism = (least_parallelism, most_parallelism)
        self._slot_sharing = slot_sharing
        self._every = Every(interval_s)
        self._signals = Signals()
        self._work: deque[Work] = deque()
        self._source: deque[_SourceSample] = deque()
        self._size: object = None
        self._changed_s = 0.0
        self._deployed = False
        self._smaller: dict[str, _SmallerSizes] = {}
        """Recent smaller sizes of the vertices that could shrink."""

    def decide(self, snapshot: Snapshot) -> Decision:
        """The parallelism that catches up with the lag and keeps the headroom, if a vertex has left its band."""
        missing = self._signals.update(snapshot)
        self._keep_window(snapshot)
        if missing:
            return hold(snapshot, missing, FORMULA)
        if not self._signals.micro_batch and not self._deployed:
            self._deployed = True
            if layout := deployable(snapshot, slot_sharing=self._slot_sharing):
                reason = "more instances than slots: deploying one instance of each operator per slot"
                return want(snapshot, layout.main_nodes, reason, FORMULA, {}, layout=layout)
        full_s = self._changed_s + self._stabilisation_s + self._window_s
        if snapshot.now_s < full_s - SLACK_S:
            return hold(
                snapshot, f"the window is full in {format_duration(full_s - snapshot.now_s)}", FORMULA
            )
        if not self._every.due(snapshot.now_s):
            return hold(snapshot, "waiting for the next evaluation", FORMULA)
        found = vertices(self._work, snapshot, micro_batch=self._signals.micro_batch)
        if not found or len(self._source) < 2 or any(v.busy is None for v in found.values()):
            return hold(snapshot, "no data: lag or busy time unknown in the window", FORMULA)
        return self._evaluate(snapshot, found)

    # -- the window ----------------------------------------------------------------------------

    def _keep_window(self, snapshot: Snapshot) -> None:
        size = (dict(snapshot.observed.nodes), dict(snapshot.planned.parallelism))
        now_s = snapshot.now_s
        if size != self._size:
            self._size, self._changed_s = size, now_s
            self._work.clear()
            self._source.clear()
            self._smaller.clear()
        if now_s < self._changed_s + self._stabilisation_s - SLACK_S:
            return
        signals = self._signals
        self._work.extend(signals.new)
        if signals.new and signals.lag_rows is not None and signals.processed_per_s is not None:
            self._source.append(
                _SourceSample(time_s=now_s, lag_rows=signals.lag_rows, rate_per_s=signals.processed_per_s)
            )
        while self._work and self._work[0].ended_s < now_s - self._window_s:
            self._work.popleft()
        while self._source and self._source[0].time_s < now_s - self._window_s:
            self._source.popleft()

    # -- the evaluation ------------------------------------------------------------------------

    def _evaluate(self, snapshot: Snapshot, found: dict[str, Vertex]) -> Decision:
        first, last = self._source[0], self._source[-1]
        lag_growth = (last.lag_rows - first.lag_rows) / (last.time_s - first.time_s)
        whole = self._signals.micro_batch
        sources = [v for v in found.values() if whole or v.name in snapshot.pipeline.sources]
        rate = sum(vertex.rate_per_s for vertex in sources)
        demand = demands(snapshot.pipeline, found, max(0.0, rate + lag_growth))
        lag_term = demands(snapshot.pipeline, found, last.lag_rows / self._catch_up_s)
        lag_s = _SourceSample(time_s=last.time_s, lag_rows=last.lag_rows, rate_per_s=rate).lag_s()
        inputs: dict[str, float | str] = {
            "rate_per_s": round(rate, 3),
            "lag_rows": round(last.lag_rows, 1),
            "lag_growth_per_s": round(lag_growth, 3),
        }
        sizes: dict[str, _VertexSize] = {}
        for name, vertex in found.items():
            share = 0.0
            if vertex in sources:
                share = vertex.rate_per_s / rate if rate > 0 else 1 / len(sources)
            true_rate = self._true_rate(vertex, share)
            sizes[name] = self._size_of(
                vertex, true_rate, demand[name], lag_term[name], lag_s > self._freeze_lag_s, snapshot.now_s
            )
            inputs[f"{name} true_rate_per_s"] = readable(true_rate)
            inputs[f"{name} parallelism"] = f"{vertex.parallelism} → {sizes[name].parallelism}"
        parallelism = {name: size.parallelism for name, size in sizes.items()}
        if not any(size.outside for size in sizes.values()):
            return hold(snapshot, "every vertex is within its band or waits to shrink", FORMULA, inputs)
        nodes, layout = layout_for(parallelism, snapshot, slot_sharing=self._slot_sharing)
        outside = ", ".join(name for name, size in sizes.items() if size.outside)
        reason = f"{outside} outside its band: {counted(nodes, 'node')}"
        return want(snapshot, nodes, reason, FORMULA, inputs, layout=layout)

    def _true_rate(self, vertex: Vertex, share: float) -> float:
        """By busy time; for a source the rate observed while it lagged, if that is clearly lower."""
        by_busy = vertex.true_rate_per_s
        assert by_busy is not None
        lagging = [sample.rate_per_s for sample in self._source if sample.lag_s() > self._observed_lag_s]
        if share > 0 and len(lagging) >= 2:
            observed = share * sum(lagging) / len(lagging)
            if by_busy >= observed * (1 + self._observed_lower):
                return observed
        return by_busy

    def _size_of(
        self, vertex: Vertex, true_rate: float, demand: float, lag_term: float, frozen: bool, now_s: float
    ) -> _VertexSize:
        """The parallelism of a vertex. ``lag_term``: the rows per second needed to catch up with the lag."""
        restart = demand * self._restart_s / self._catch_up_s
        capacity = lag_term + restart + demand / self._utilisation
        least, most = self._factors
        factor = min(max(capacity / true_rate if true_rate > 0 else 1.0, least), most)
        fewest, largest = self._parallelism
        now = vertex.parallelism
        wanted = math.ceil(now * factor - SLACK_S)
        wanted = min(max(wanted, min(now, fewest)), max(now, largest))
        if wanted >= now:
            self._smaller.pop(vertex.name, None)
            outside = true_rate < lag_term + demand / (self._utilisation + self._boundary)
            return _VertexSize(parallelism=wanted, outside=outside and wanted > now)
        low = self._utilisation - self._boundary
        outside = not frozen and true_rate > lag_term + restart + (demand / low if low > 0 else math.inf)
        smaller = self._smaller.setdefault(vertex.name, _SmallerSizes(now_s))
        smaller.add(now_s, _VertexSize(parallelism=wanted, outside=outside))
        if now_s - smaller.since_s < self._scale_down_delay_s - SLACK_S:
            return _VertexSize(parallelism=now, outside=False)
        return smaller.largest(now_s - self._scale_down_delay_s - SLACK_S)
