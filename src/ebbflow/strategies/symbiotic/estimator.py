"""What operators cost, learned in operation where no profile was given: in proportion to their rows."""

from __future__ import annotations

import math
from typing import Any

from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Window
from ebbflow.core.snapshot import Snapshot
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.models import Proportional
from ebbflow.profiling.profile import CpuProfile, NodeProfile, Profile, Spread

FADE = 0.95
"""Weight that a look keeps when the next one comes: about the last 20 count."""


class LearnedEstimator:
    """An estimator made of what snapshots show. From sums that fade with every look, of operator i with upstream j:

        CPU of a row = cpu_i / done_i         selectivity of (j, i) = (done_i + growth of queue_i) / done_j

    Both hold while rows pile up anywhere: what waits before an operator was passed on to it, and costs it nothing yet.
    Its error is by how much the CPU of each look was off what the looks before it said; its range ends at the highest
    rate that an instance was seen to work at.
    """

    def __init__(self) -> None:
        self._seen_s: float | None = None
        self._cpu_s: dict[str, float] = {}
        self._done: dict[str, float] = {}
        self._sent: dict[str, float] = {}
        self._queues: dict[str, float] = {}
        self._missed_s: dict[str, float] = {}
        self._highest: dict[str, float] = {}
        self._looks = 0

    def learn(self, snapshot: Snapshot) -> None:
        """Take in what was read since the last look."""
        of, since_s = snapshot.windows.of, self._seen_s
        looked_s = max(
            (of(name, Metric.ROWS_IN).last_time_s or -math.inf for name in snapshot.pipeline.order),
            default=-math.inf,
        )
        if looked_s == -math.inf or (since_s is not None and looked_s <= since_s):
            return
        queues = {name: of(name, Metric.OPERATOR_QUEUE).last or 0.0 for name in snapshot.pipeline.order}
        if since_s is not None:
            for name in snapshot.pipeline.order:
                used, before_s = 0.0, since_s
                for time_s, share in of(name, Metric.INSTANCE_CPU).after(since_s):
                    used += share * (time_s - before_s)
                    before_s = time_s
                done = sum([rows for _, rows in of(name, Metric.ROWS_IN).after(since_s)])
                sent = done + queues[name] - self._queues.get(name, 0.0)
                instances = of(name, Metric.INSTANCES).last or 1.0
                said_s = self._cost_s(name) * done
                for sums, value in (
                    (self._cpu_s, used * instances), (self._done, done), (self._sent, sent),
                    (self._missed_s, abs(used * instances - said_s) if said_s else 0.0),
                ):  # fmt: skip
                    sums[name] = FADE * sums.get(name, 0.0) + value
                self._highest[name] = max(
                    self._highest.get(name, 0.0), done / instances / (looked_s - since_s)
                )
            self._looks += 1
        self._seen_s, self._queues = looked_s, queues

    def start_over(self) -> None:
        """The clock was set back: the next look is a first one. What rows cost is known as before."""
        self._seen_s = None

    def _cost_s(self, name: str) -> float:
        done = self._done.get(name, 0.0)
        return self._cpu_s[name] / done if done > 0 else 0.0

    def estimator(self, part: Pipeline, node: NodeProfile) -> Estimator | None:
        """None while no operator was seen at work; one that never was costs nothing."""
        done = self._done
        cpu = {
            name: CpuProfile(
                **_proportional(
                    self._cost_s(name),
                    high=self._highest[name],
                    error=self._missed_s[name] / self._cpu_s[name],
                    samples=self._looks,
                )
            )
            for name in part.order
            if self._cost_s(name) > 0
        }
        if not cpu:
            return None
        selectivity = {}
        for stream in part.streams:
            entering = [s for s in part.streams if s.target == stream.target]
            expected = sum(done.get(s.source, 0.0) * s.selectivity for s in entering)
            if expected > 0:
                off = max(0.0, self._sent.get(stream.target, 0.0)) / expected
                selectivity[stream.source, stream.target] = Spread(mean=stream.selectivity * off, samples=1)
        return Estimator(part, Profile(pipeline=part.name, cpu=cpu, node=node, selectivity=selectivity))


class Overhead:
    """CPU of the nodes ÷ CPU of the instances on them, as both are read: what the engine itself takes."""

    def __init__(self, *, window_s: float) -> None:
        self._window_s = window_s
        self._layout: Layout | None = None
        self._changed_s = -math.inf
        """When a change of the layout was last seen to be under way, or to have come."""
        self._factor: float | None = None
        self._missed = 0.0
        self._highest = 0.0
        self._looks = 0

    def watch(self, snapshot: Snapshot) -> None:
        """Note whether the layout changes: to be called at every look."""
        if snapshot.under_way or snapshot.observed != self._layout:
            self._layout, self._changed_s = snapshot.observed, snapshot.now_s

    def look(self, snapshot: Snapshot) -> None:
        """Compare means over the same time: the last window, or since the layout changed, if that is less."""
        windows, nodes, instances = snapshot.windows, [], 0.0
        if snapshot.under_way:
            return
        for subject, metric in windows.series():
            if metric is Metric.NODE_CPU:
                nodes.append(self._mean(windows.of(subject, metric), snapshot.now_s))
        for name in snapshot.pipeline.order:
            used = self._mean(windows.of(name, Metric.INSTANCE_CPU), snapshot.now_s)
            instances += (used or 0.0) * (windows.of(name, Metric.INSTANCES).last or 1.0)
        read = [share for share in nodes if share is not None]
        if not read or instances < 0.1 or max(read) > 0.98 or len(read) != snapshot.observed.main_nodes:
            return  # a node that is full shows no more, whatever is asked of it
        seen = max(1.0, sum(read) * max(1, snapshot.slots_per_node) / instances)
        if self._factor is not None:
            self._missed = 0.5 * (self._missed + abs(self._factor / seen - 1))
        self._factor = seen if self._factor is None else 0.5 * (self._factor + seen)
        self._highest = max(self._highest, instances / len(read))
        self._looks += 1

    def _mean(self, window: Window, now_s: float) -> float | None:
        """Of the readings of the window; those of a layout that is no more, and the first after it, which is half of
        it, do not count."""
        since_s = now_s - self._window_s
        points = window.after(max(since_s, self._changed_s))
        if self._changed_s > since_s:
            points = points[1:]
        return sum(value for _, value in points) / len(points) if points else None

    def profile(self, cores: int) -> NodeProfile:
        """As a profile of nodes with so many cores."""
        per_unit = (self._factor or 1.0) / max(1, cores)
        told = _proportional(per_unit, high=self._highest, error=self._missed, samples=self._looks)
        return NodeProfile(**told, cores=max(1, cores))


def _proportional(slope: float, *, high: float, error: float, samples: int) -> dict[str, Any]:
    model = Proportional(per_unit=slope)
    return {"model": model, "low": 0.0, "high": high, "slope": slope, "error": error, "samples": samples}
