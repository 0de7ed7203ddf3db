"""What rows cost on an engine without batches: learned in operation, or by given profiles that keep learning."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Window
from ebbflow.core.snapshot import Snapshot
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.models import Proportional
from ebbflow.profiling.profile import CpuProfile, NodeProfile, Profile, Spread
from ebbflow.profiling.profile_learner import ProfileLearner

FADE = 0.95
"""Factor by which sums fade at each update: about the last 20 count."""
log = logging.getLogger(__name__)


class LearnedCosts:
    """CPU and selectivity of the operators of an application, in proportion to their rows.

    From sums that fade with every update, for operator i with upstream j:

        CPU of a row = cpu_i / done_i         selectivity of (j, i) = (done_i + growth of queue_i) / done_j

    Both hold while rows queue up anywhere: rows queued before an operator were sent to it and have cost it nothing yet.
    The error is how far the CPU of each update was off what the earlier ones predicted. The measured range ends at the
    highest rate of an instance.
    """

    def __init__(self) -> None:
        self._seen_s: float | None = None
        self._cpu_s: dict[str, float] = {}
        self._done: dict[str, float] = {}
        self._sent: dict[str, float] = {}
        self._queues: dict[str, float] = {}
        self._missed_s: dict[str, float] = {}
        self._highest: dict[str, float] = {}
        self._updates = 0

    def learn(self, snapshot: Snapshot) -> None:
        """Add the readings since the last update."""
        of, since_s = snapshot.windows.of, self._seen_s
        read_s = max(
            (of(name, Metric.ROWS_IN).last_time_s or -math.inf for name in snapshot.pipeline.order),
            default=-math.inf,
        )
        if read_s == -math.inf or (since_s is not None and read_s <= since_s):
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
                predicted_s = self._cost_s(name) * done
                for sums, value in (
                    (self._cpu_s, used * instances), (self._done, done), (self._sent, sent),
                    (self._missed_s, abs(used * instances - predicted_s) if predicted_s else 0.0),
                ):  # fmt: skip
                    sums[name] = FADE * sums.get(name, 0.0) + value
                self._highest[name] = max(self._highest.get(name, 0.0), done / instances / (read_s - since_s))
            self._updates += 1
        self._seen_s, self._queues = read_s, queues

    def _cost_s(self, name: str) -> float:
        done = self._done.get(name, 0.0)
        return self._cpu_s[name] / done if done > 0 else 0.0

    def estimator(self, part: Pipeline, node: NodeProfile) -> Estimator | None:
        """None until an operator has used CPU. One that never has costs nothing."""
        done = self._done
        cpu = {
            name: CpuProfile(
                **_proportional(
                    self._cost_s(name),
                    high=self._highest[name],
                    error=self._missed_s[name] / self._cpu_s[name],
                    samples=self._updates,
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


class LearnedOverhead:
    """What the engine itself uses: CPU of the nodes ÷ CPU of the instances on them."""

    def __init__(self, *, window_s: float) -> None:
        self._window_s = window_s
        self._layout: Layout | None = None
        self._changed_s = -math.inf
        """When a change of the layout was last under way or completed."""
        self._factor: float | None = None
        self._missed = 0.0
        self._highest = 0.0
        self._updates = 0

    def note_changes(self, snapshot: Snapshot) -> None:
        """Note whether the layout changes. Call it in every cycle."""
        if snapshot.under_way or snapshot.observed != self._layout:
            self._layout, self._changed_s = snapshot.observed, snapshot.now_s

    def learn(self, snapshot: Snapshot) -> None:
        """Compare the means of the last window, or of the time since the layout changed, if that is shorter."""
        windows, nodes, instances = snapshot.windows, [], 0.0
        if snapshot.under_way:
            return
        for subject, metric in windows.series():
            if metric is Metric.NODE_CPU:
                nodes.append(self._mean(windows.of(subject, metric), snapshot.now_s))
        for name in snapshot.pipeline.order:
            used = self._mean(windows.of(name, Metric.INSTANCE_CPU), snapshot.now_s)
            instances += (used or 0.0) * (windows.of(name, Metric.INSTANCES).last or 1.0)
        shares = [share for share in nodes if share is not None]
        if not shares or instances < 0.1 or max(shares) > 0.98 or len(shares) != snapshot.observed.main_nodes:
            return  # a saturated node hides how much its instances would use
        factor = max(1.0, sum(shares) * max(1, snapshot.slots_per_node) / instances)
        if self._factor is not None:
            self._missed = 0.5 * (self._missed + abs(self._factor / factor - 1))
        self._factor = factor if self._factor is None else 0.5 * (self._factor + factor)
        self._highest = max(self._highest, instances / len(shares))
        self._updates += 1

    def _mean(self, window: Window, now_s: float) -> float | None:
        """Mean of the readings since the last change of the layout, without the first: half of it is from before."""
        since_s = now_s - self._window_s
        points = window.after(max(since_s, self._changed_s))
        if self._changed_s > since_s:
            points = points[1:]
        return sum(value for _, value in points) / len(points) if points else None

    def profile(self, cores: int) -> NodeProfile:
        """A profile of nodes with that many cores."""
        per_unit = (self._factor or 1.0) / max(1, cores)
        line = _proportional(per_unit, high=self._highest, error=self._missed, samples=self._updates)
        return NodeProfile(**line, cores=max(1, cores))


def _proportional(slope: float, *, high: float, error: float, samples: int) -> dict[str, Any]:
    model = Proportional(per_unit=slope)
    return {"model": model, "low": 0.0, "high": high, "slope": slope, "error": error, "samples": samples}


def name_in(estimator: Estimator, part: Pipeline, operator: str) -> str:
    """The name of an operator in an estimator, which lacks the prefix of the application."""
    return operator if operator in estimator.pipeline.order else operator.removeprefix(f"{part.name}/")


class UpdatedProfiles:
    """Given estimators, updated in operation: CPU is relearned when it drifts from the profile.

    Selectivities stay as profiled. In operation, rows queued between two operators would look like rows that the first
    one drops.
    """

    def __init__(self, given: Mapping[str, Estimator]) -> None:
        self._given = dict(given)
        self._learner: ProfileLearner | None = None

    def __contains__(self, application: str) -> bool:
        return application in self._given

    def learn(self, snapshot: Snapshot, parts: Sequence[Pipeline]) -> None:
        """Add the readings since the last update."""
        if self._learner is None:
            running = [part.name for part in parts]
            for name in self._given:
                if name not in running:
                    log.warning("ignoring the profile of '%s': only %s is running", name, ", ".join(running))
            base = self._base(snapshot.pipeline.name, parts)
            self._learner = ProfileLearner(snapshot.pipeline, base=base)
        self._learner.observe(snapshot)

    def estimators(self, parts: Sequence[Pipeline]) -> dict[str, Estimator]:
        """The estimators as of now, by application."""
        if self._learner is None:
            return {}
        learned = self._learner.profile()
        found = {}
        for part in parts:
            given = self._given.get(part.name)
            if given is not None:
                cpu = {**given.profile.cpu}
                for name in part.order:
                    if name in learned.cpu:
                        cpu[name_in(given, part, name)] = learned.cpu[name]
                profile = replace(given.profile, cpu=cpu, node=learned.node, costs=learned.costs)
                found[part.name] = Estimator(given.pipeline, profile, forecaster=given.forecaster)
        return found

    @property
    def drift(self) -> str:
        """The last drift that was detected, for the ledger; empty if there was none."""
        drifts = self._learner.drifts if self._learner is not None else []
        return str(drifts[-1]) if drifts else ""

    def _base(self, pipeline: str, parts: Sequence[Pipeline]) -> Profile:
        """All profiles as one, with the operator names of the snapshot and the node profile with the most samples."""
        cpu = {}
        for part in parts:
            given = self._given.get(part.name)
            if given is not None:
                for name in part.order:
                    known = given.profile.cpu.get(name_in(given, part, name))
                    if known is not None:
                        cpu[name] = known
        profiles = [given.profile for given in self._given.values()]
        costs = [profile.costs for profile in profiles if profile.costs is not None]
        return Profile(
            pipeline=pipeline,
            cpu=cpu,
            node=max((profile.node for profile in profiles), key=lambda node: node.samples),
            costs=costs[0] if costs else None,
        )
