"""Learns the profile of an application from its readings and batches, before and while it is scaled."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from msgspec.structs import asdict

from ebbflow.core.batches import Batch
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Reading
from ebbflow.core.snapshot import Snapshot
from ebbflow.profiling import costs, samples
from ebbflow.profiling.costs import CostLearner, RunningSpread
from ebbflow.profiling.curve_learner import CurveLearner, Drift
from ebbflow.profiling.fitting import QUICK
from ebbflow.profiling.profile import CpuProfile, NodeProfile, Profile, SparkCosts, Spread
from ebbflow.profiling.samples import WINDOW_S, Sampler, WindowSample

log = logging.getLogger(__name__)

METRICS: tuple[Metric, ...] = tuple(dict.fromkeys((*samples.METRICS, *costs.METRICS)))
"""All metrics that a profile is learned from."""
KEPT_RATIOS = 1000
"""Windows kept for each selectivity."""


class ProfileLearner:
    """Learns from readings and batches; gives a profile at any time.

    With ``base``, a profile from a file, it continues from there: the base holds until the pipeline behaves otherwise
    (drift), and is extended when a wider range is observed. ``kinds``: the models to try; those of ``QUICK`` take
    milliseconds, so that a strategy can use them in every decision.

    >>> learner = ProfileLearner(Pipeline.chain("p", "split"))
    >>> for t in range(0, 400, 10):
    ...     learner.learn([Reading(float(t), "split", Metric.ROWS_IN, 20.0 * t),
    ...                    Reading(float(t), "split", Metric.INSTANCES, 2.0),
    ...                    Reading(float(t), "split", Metric.INSTANCE_CPU, 0.002 * t)])
    >>> cpu = learner.profile().cpu["split"]  # at t: t rows/s an instance
    >>> type(cpu.model).__name__, round(cpu.estimate(200.0).value, 3)
    ('Proportional', 0.4)
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        window_s: float = WINDOW_S,
        kinds: Sequence[str] = QUICK,
        base: Profile | None = None,
        target: str = "",
    ) -> None:
        self.pipeline = pipeline
        self._kinds = tuple(kinds)
        self._base = base
        self._target = target or (base.target if base is not None else "")
        self._sampler = Sampler(window_s=window_s)
        self._costs = CostLearner()
        self._cpu: dict[str, CurveLearner] = {}
        self._node = CurveLearner("a node", self._kinds, None if base is None else base.node)
        self._base_cores = base.node.cores if base is not None and base.node.samples else None
        """Cores of a node of the base. Shares of other nodes are converted to shares of such a node."""
        self._ratios: dict[tuple[str, str], deque[tuple[float, float]]] = {}
        self._read_s: dict[tuple[str, Metric], float] = {}
        self.drifts: list[Drift] = []
        """Detected changes of cost, oldest first."""
        for name, cpu in (base.cpu if base is not None else {}).items():
            self._cpu[name] = CurveLearner(name, self._kinds, cpu)

    # -- learning ----------------------------------------------------------------------------------

    def learn(self, readings: Iterable[Reading], batches: Iterable[Batch] = ()) -> None:
        """Learn from readings and finished batches."""
        new = list(readings)
        self._sampler.add(new)
        self._costs.learn(new, batches)
        found = self._sampler.take(self.pipeline)
        for name, cpu in found.cpu.items():
            if cpu and name not in self._cpu:
                self._cpu[name] = CurveLearner(name, self._kinds)
            for sample in cpu:
                self._note(self._cpu[name].add(sample))
        for sample in found.node:
            share = sample.y * self._sampler.cores / self._node_cores
            self._note(self._node.add(WindowSample(sample.time_s, sample.x, share)))
        for ends, streamed in found.selectivity.items():
            ratios = self._ratios.setdefault(ends, deque(maxlen=KEPT_RATIOS))
            ratios.extend((sample.x, sample.y) for sample in streamed)

    def observe(self, snapshot: Snapshot) -> None:
        """Learn from what is new in a snapshot."""
        self.pipeline = snapshot.pipeline
        new: list[Reading] = []
        for subject, metric in snapshot.windows.series():
            if metric not in _READ:
                continue
            window = snapshot.windows.of(subject, metric)
            since_s = self._read_s.get((subject, metric), float("-inf"))
            new += [Reading(time_s, subject, metric, value) for time_s, value in window.after(since_s)]
            if window.last_time_s is not None:
                self._read_s[subject, metric] = window.last_time_s
        self.learn(new, snapshot.batches)

    def _note(self, drift: Drift | None) -> None:
        if drift is not None:
            self.drifts.append(drift)
            log.warning("%s; learning it again", drift)

    # -- the profile ------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether the CPU of some operator is known."""
        return any(cpu.samples or cpu.base is not None for cpu in self._cpu.values())

    def profile(
        self, learned_at: datetime = datetime(1970, 1, 1, tzinfo=UTC), *, kinds: Sequence[str] | None = None
    ) -> Profile:
        """The profile as known now. ``kinds``: models to try this time, instead of those of the constructor."""
        cpu = {}
        for name, learner in self._cpu.items():
            if isinstance(learner.base, CpuProfile) and learner.holds:
                cpu[name] = learner.base
            elif (fit := learner.fit(kinds)) is not None:
                cpu[name] = CpuProfile(**asdict(fit))
        return Profile(
            pipeline=self.pipeline.name,
            selectivity=self._selectivity(),
            cpu=cpu,
            node=self._node_profile(kinds),
            costs=self._known_costs(),
            target=self._target,
            learned_at=learned_at,
        )

    def _selectivity(self) -> dict[tuple[str, str], Spread]:
        """Rows of the stream ÷ rows into the operator over all windows, with the deviation of single windows."""
        found = dict(self._base.selectivity) if self._base is not None else {}
        for ends, ratios in self._ratios.items():
            windows = RunningSpread()
            for into, along in ratios:
                windows.add(along / into)
            if windows.count:
                mean = sum(along for _, along in ratios) / sum(into for into, _ in ratios)
                found[ends] = Spread(mean=mean, deviation=windows.spread.deviation, samples=windows.count)
        return found

    def _node_profile(self, kinds: Sequence[str] | None) -> NodeProfile:
        base = self._node.base
        if isinstance(base, NodeProfile) and base.samples and self._node.holds:
            return base
        fit = self._node.fit(kinds)
        if fit is None:
            return NodeProfile.assumed(cores=self._node_cores)
        return NodeProfile(**asdict(fit), cores=self._node_cores)

    @property
    def _node_cores(self) -> int:
        return self._base_cores or self._sampler.cores

    def _known_costs(self) -> SparkCosts | None:
        """The observed costs, and those of the base where none were observed."""
        observed, base = self._costs.costs, None if self._base is None else self._base.costs
        if observed is None or base is None:
            return observed or base
        return SparkCosts(
            driver_s=observed.driver_s if observed.stages else base.driver_s,
            stages=observed.stages or base.stages,
            batch_rows=observed.batch_rows if observed.stages else base.batch_rows,
            lead_time_s=observed.lead_time_s or base.lead_time_s,
            state_rows=base.state_rows if observed.state_rows is None else observed.state_rows,
            state_bytes=base.state_bytes if observed.state_bytes is None else observed.state_bytes,
            reload_s=observed.reload_s or base.reload_s,
            reconfiguration=observed.reconfiguration or base.reconfiguration,
        )


_READ = frozenset(METRICS)
