"""Learns the profile of an application from what is read of it, before and while it is scaled."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import numpy as np
from msgspec.structs import asdict

from ebbflow.core.batches import Batch
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Reading
from ebbflow.core.snapshot import Snapshot
from ebbflow.profiling import costs, samples
from ebbflow.profiling.costs import CostLearner, Seen
from ebbflow.profiling.drift import Cusum, Drift
from ebbflow.profiling.fitting import LEAST, LEAST_SHARE, QUICK, fit
from ebbflow.profiling.profile import BEYOND, CpuProfile, Fitted, NodeProfile, Profile, SparkCosts, Spread
from ebbflow.profiling.samples import WINDOW_S, Sample, Sampler

# One curve of a profile, learned as samples come: fitted when asked, watched for drift in between.


KEPT = 1000
"""Samples remembered: the last three hours of windows."""
MATURE = 30
"""Samples from which on drift is looked for: before, a curve is still being found."""
REFIT_SHARE = 0.1
"""A fit holds until so many times as many samples are new."""
CARRIED = 40
"""Points that stand for what a file said when it is stretched."""


class CurveLearner:
    """Samples of one curve; ``base`` is what was known before."""

    def __init__(self, name: str, kinds: Sequence[str], base: Fitted | None = None) -> None:
        self.name = name
        self.base = base if base is not None and base.samples else None
        self.samples: deque[Sample] = deque(maxlen=KEPT)
        self._kinds = tuple(kinds)
        self._fit: Fitted | None = None
        self._fitted_with = self._kinds
        self._new = 0
        """Samples since the last fit."""
        self._watched: tuple[Fitted, Cusum] | None = None
        self._unwatched, self._watch_anew_after = 0, MATURE
        if self.base is not None:
            self._watched = (self.base, Cusum(self.base.error))

    @property
    def holds(self) -> bool:
        """Whether what was known before needs no change: no drift, and no sample far beyond its range."""
        return self.base is not None and not any(s.x > BEYOND * self.base.high for s in self.samples)

    def add(self, sample: Sample) -> Drift | None:
        """Take one in; what it says if it is the one by which a change is noticed."""
        self.samples.append(sample)
        self._new += 1
        self._unwatched += 1
        if self._watched is None or (self.base is None and self._unwatched >= self._watch_anew_after):
            self._watch()
            return None
        known, cusum = self._watched
        # Beyond the range too: a guess that is wrong by so much is not one to decide on.
        if not cusum.add(sample.y, known.estimate(sample.x).value, _least(known, sample.x)):
            return None
        change, last = cusum.change, cusum.suspicious
        self._start_anew(last)
        return Drift(operator=self.name, time_s=sample.time_s, change=change)

    def _watch(self) -> None:
        """From now on compare with what is known by now; again when twice as much is."""
        if len(self.samples) < MATURE:
            return
        found = fit([s.x for s in self.samples], [s.y for s in self.samples], kinds=QUICK)
        if found is not None:
            self._watched = (found, Cusum(found.error))
            self._unwatched, self._watch_anew_after = 0, len(self.samples)

    def fit(self, kinds: Sequence[str] | None = None) -> Fitted | None:
        """The curve through what is remembered; found anew once a tenth more was seen, or with other models."""
        tried = self._kinds if kinds is None else tuple(kinds)
        if self._fit is None or tried != self._fitted_with or self._new > REFIT_SHARE * len(self.samples):
            carried = self._carried()
            x = [*(c[0] for c in carried), *(s.x for s in self.samples)]
            y = [*(c[1] for c in carried), *(s.y for s in self.samples)]
            self._fit = fit(x, y, kinds=tried)
            self._fitted_with, self._new = tried, 0
        return self._fit

    def _carried(self) -> list[tuple[float, float]]:
        if self.base is None:
            return []
        points = np.linspace(self.base.low, self.base.high, CARRIED).tolist()
        return [(x, max(0.0, self.base.model.at(x))) for x in points if x > 0]

    def _start_anew(self, last: int) -> None:
        """Only the samples that raised the alarm tell of how it is now."""
        kept = list(self.samples)[-max(1, last) :]
        self.samples.clear()
        self.samples.extend(kept)
        self.base = self._fit = self._watched = None
        self._new = 0


def _least(known: Fitted, x: float) -> float:
    """What an expected value counts as at least: who idles has not changed. As in ``fitting`` a share of the largest;
    below the range, where it is a guess, what the lowest rate that was seen costs."""
    least = max(LEAST_SHARE * known.estimate(known.high).value, LEAST)
    return max(least, known.estimate(known.low).value) if x < known.low else least


log = logging.getLogger("ebbflow")

METRICS: tuple[Metric, ...] = tuple(dict.fromkeys((*samples.METRICS, *costs.METRICS)))
"""Everything a profile is learned from: to be asked of a store."""
KEPT_RATIOS = 1000
"""Windows of which the selectivity is remembered."""


class ProfileLearner:
    """Takes in readings and batches; answers with a profile at any time.

    With ``base``, a profile from a file, it goes on from there: what the file says holds until the pipeline is seen
    to behave otherwise (``drift``), and is stretched where a wider range is seen. ``kinds``: the models to try;
    those of ``QUICK`` take milliseconds, so a strategy may ask at every decision.

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
        """Of a node of the base. Shares of nodes with more cores, or fewer, are told in shares of one of these."""
        self._ratios: dict[tuple[str, str], deque[tuple[float, float]]] = {}
        self._seen_s: dict[tuple[str, Metric], float] = {}
        self.drifts: list[Drift] = []
        """What was noticed to cost what it did not use to, oldest first."""
        for name, cpu in (base.cpu if base is not None else {}).items():
            self._cpu[name] = CurveLearner(name, self._kinds, cpu)

    # -- learning ----------------------------------------------------------------------------------

    def learn(self, readings: Iterable[Reading], batches: Iterable[Batch] = ()) -> None:
        """Take in what was read."""
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
            self._note(self._node.add(Sample(sample.time_s, sample.x, share)))
        for ends, streamed in found.selectivity.items():
            kept = self._ratios.setdefault(ends, deque(maxlen=KEPT_RATIOS))
            kept.extend((sample.x, sample.y) for sample in streamed)

    def look(self, snapshot: Snapshot) -> None:
        """Take in what a snapshot shows and was not taken in before: for strategies, which see nothing else."""
        self.pipeline = snapshot.pipeline
        new: list[Reading] = []
        for subject, metric in snapshot.windows.series():
            if metric not in _LOOKED_AT:
                continue
            window = snapshot.windows.of(subject, metric)
            since_s = self._seen_s.get((subject, metric), float("-inf"))
            new += [Reading(time_s, subject, metric, value) for time_s, value in window.after(since_s)]
            if window.last_time_s is not None:
                self._seen_s[subject, metric] = window.last_time_s
        self.learn(new, snapshot.batches)

    def _note(self, drift: Drift | None) -> None:
        if drift is not None:
            self.drifts.append(drift)
            log.warning("%s; learning it anew", drift)

    # -- asking ------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether the CPU of some operator is known."""
        return any(cpu.samples or cpu.base is not None for cpu in self._cpu.values())

    def profile(
        self, learned_at: datetime = datetime(1970, 1, 1, tzinfo=UTC), *, kinds: Sequence[str] | None = None
    ) -> Profile:
        """What is known by now. ``kinds``: other models to try than those it was made with, this once."""
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
        """Rows of the stream ÷ rows into the operator over all windows; the spread is that of single windows."""
        found = dict(self._base.selectivity) if self._base is not None else {}
        for ends, ratios in self._ratios.items():
            seen = Seen()
            for into, along in ratios:
                seen.add(along / into)
            if seen.count:
                mean = sum(along for _, along in ratios) / sum(into for into, _ in ratios)
                found[ends] = Spread(mean=mean, deviation=seen.spread.deviation, samples=seen.count)
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
        """What was seen; what was not, as the file has it."""
        seen, base = self._costs.costs, None if self._base is None else self._base.costs
        if seen is None or base is None:
            return seen or base
        return SparkCosts(
            driver_s=seen.driver_s if seen.stages else base.driver_s,
            stages=seen.stages or base.stages,
            batch_rows=seen.batch_rows if seen.stages else base.batch_rows,
            lead_time_s=seen.lead_time_s or base.lead_time_s,
            state_rows=base.state_rows if seen.state_rows is None else seen.state_rows,
            state_bytes=base.state_bytes if seen.state_bytes is None else seen.state_bytes,
            reload_s=seen.reload_s or base.reload_s,
            reconfiguration=seen.reconfiguration or base.reconfiguration,
        )


_LOOKED_AT = frozenset(METRICS)
