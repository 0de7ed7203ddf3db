"""What a row came to: its three metrics (§5.1), means over seeds, and the curves of its first run.

``throughput_degradation`` and ``nodes_saved`` are those of ``bench.score``. The seed's definitions are the same but
for two points. Its Σc/(N·C) counts the nodes chosen at each assessment, ours the node-seconds that were held. And the
window over which |in − out|/in is taken decides its size: a stop of 7 s that is made up for within a minute nearly
vanishes in windows of a minute, which is how the seed's monitor smooths (§4) and how ``bench.score`` does. Figure 9
cannot come from such windows: a rebalance a minute scores 0.64 there (§5.2). So both are told:
``throughput_degradation`` as everywhere in Ebbflow, and ``throughput_degradation_unsmoothed`` second by second: what
was stopped and what was made up for both count.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ebbflow.core.run import Run
from ebbflow.papers.elysium.calibration import SAMPLED_EVERY_S
from ebbflow.papers.elysium.cases import Case
from ebbflow.papers.elysium.foresight import Foresight
from ebbflow.papers.elysium.published import PROACTIVE
from ebbflow.runs.score import by_rows, score, waits_of

Points = list[tuple[float, float]]
STANDS_IN = "no Twitter trace was named: a day of a web service stands in for it"


def unsmoothed_degradation(run: Run) -> float | None:
    """Mean of |in − out| / in over samples that do not overlap; those without input are left out.

    A sample is a second, or two typical gaps between commits where that is longer (micro-batches).

    100 rows/s, a stop of 2 s, then all of it at once: 1 in the second and third second, 2 in the fourth.

    >>> from ebbflow.core.curve import Curve
    >>> from ebbflow.core.limits import Limits
    >>> from ebbflow.core.slo import Slo
    >>> run = Run(
    ...     strategy="static", pipeline="p", slo=Slo(freshness_s=4.0), limits=Limits.parse("1:4"), started_s=0.0,
    ...     ended_s=8.0, arrived=Curve.of([(0, 0), (8, 800)]),
    ...     processed=Curve.of([(0, 0), (1, 100), (2, 100), (3, 100), *((t, 100 * t) for t in range(4, 9))]),
    ...     nodes=Curve.of([(0, 2)]), nodes_working=Curve.of([(0, 2)]),
    ... )
    >>> unsmoothed_degradation(run)
    0.5
    """
    if not len(run.arrived) or len(run.processed) < 2:
        return None
    commits_s = run.processed.times_s[np.concatenate(([True], np.diff(run.processed.values) > 0))]
    gap_s = float(np.median(np.diff(commits_s))) if len(commits_s) > 1 else 0.0
    every_s = 1.0 if gap_s <= 1.0 else 2.0 * gap_s
    edges_s = np.arange(run.started_s, run.ended_s + 1e-9, every_s)
    rows_in, rows_out = np.diff(run.arrived.interpolated(edges_s)), np.diff(run.processed.stepped(edges_s))
    if not rows_in.any():
        return None
    fed = rows_in > 0.01 * np.mean(rows_in)
    return float(np.mean(np.abs(rows_in - rows_out)[fed] / rows_in[fed]))


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The metrics of one run, or the means of several."""

    throughput_degradation: float | None
    throughput_degradation_unsmoothed: float | None
    nodes_saved: float | None
    latency_mean_s: float | None
    reconfigurations: float | None
    foresight: Foresight | None = None
    """Of a proactive run: what it sized for against what came."""

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Measured:
        """Of the pipelines of one run, which share its nodes: weighted by the rows of each."""
        scores = [score(run, oracle_node_seconds=None) for run in runs]
        rows = [each.rows_in for each in scores]

        def weighted(values: Sequence[float | None]) -> float | None:
            return by_rows(list(zip(values, rows, strict=True)))

        return cls(
            throughput_degradation=weighted([each.throughput_degradation for each in scores]),
            throughput_degradation_unsmoothed=weighted([unsmoothed_degradation(run) for run in runs]),
            nodes_saved=scores[0].nodes_saved,
            latency_mean_s=weighted([waits_of(run).mean_s for run in runs]),
            reconfigurations=scores[0].reconfigurations,
            foresight=Foresight.of(runs) if runs[0].strategy == PROACTIVE else None,
        )

    @classmethod
    def mean(cls, each: Sequence[Measured]) -> Measured:
        """The mean of each metric, over those runs that have it."""

        def over(of: Callable[[Measured], float | None]) -> float | None:
            known = [value for value in map(of, each) if value is not None]
            return statistics.fmean(known) if known else None

        return cls(
            throughput_degradation=over(lambda m: m.throughput_degradation),
            throughput_degradation_unsmoothed=over(lambda m: m.throughput_degradation_unsmoothed),
            nodes_saved=over(lambda m: m.nodes_saved),
            latency_mean_s=over(lambda m: m.latency_mean_s),
            reconfigurations=over(lambda m: m.reconfigurations),
            foresight=Foresight.mean([m.foresight for m in each if m.foresight is not None]),
        )


@dataclass(frozen=True, kw_only=True)
class Curves:
    """A run for pictures: a point every 10 s, and steps where something changed."""

    load: Mapping[str, Points]
    """Rows per second that came, by application."""
    throughput: Mapping[str, Points]
    latency: Mapping[str, Points]
    """Mean time from arrival to the end of the rows that were done in the 10 s up to each point; none where none were.
    The mean over all rows of these is ``Measured.latency_mean_s``."""
    nodes: Points
    parallelism: Mapping[str, Points]
    """Instances of each operator, planned."""

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "load": dict(self.load),
            "throughput": dict(self.throughput),
            "latency_s": dict(self.latency),
            "nodes": self.nodes,
            "parallelism": dict(self.parallelism),
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Curves:
        """Those of another process."""

        def each(curves: Mapping[str, Any]) -> dict[str, Points]:
            return {name: [(x, y) for x, y in points] for name, points in curves.items()}

        return cls(
            load=each(told["load"]),
            throughput=each(told["throughput"]),
            latency=each(told["latency_s"]),
            nodes=[(x, y) for x, y in told["nodes"]],
            parallelism=each(told["parallelism"]),
        )


def curves_of(runs: Mapping[str, Run], parallelism: Mapping[str, Points]) -> Curves:
    """The curves of the pipelines of one run, by application."""
    first = next(iter(runs.values()))
    times_s = np.arange(first.started_s, first.ended_s + 1e-9, SAMPLED_EVERY_S)
    since_s = times_s - first.started_s
    load, throughput, latency = {}, {}, {}
    for name, run in runs.items():
        arrived, done = run.arrived.interpolated(times_s), run.processed.stepped(times_s)
        load[name] = _points(since_s[1:], np.diff(arrived) / SAMPLED_EVERY_S)
        throughput[name] = _points(since_s[1:], np.diff(done) / SAMPLED_EVERY_S)
        waits_s = [
            waits_of(replace(run, started_s=begin_s, ended_s=end_s)).mean_s
            for begin_s, end_s in itertools.pairwise(times_s.tolist())
        ]
        known = [(t, wait_s) for t, wait_s in zip(since_s[1:], waits_s, strict=True) if wait_s is not None]
        latency[name] = _points(*zip(*known, strict=True)) if known else []
    held = first.nodes
    steps = [(float(t) - first.started_s, float(n)) for t, n in zip(held.times_s, held.values, strict=True)]
    end_s = first.ended_s - first.started_s
    nodes = [(max(t, 0.0), n) for t, n in steps if t <= end_s]
    nodes.append((end_s, nodes[-1][1]))
    return Curves(load=load, throughput=throughput, latency=latency, nodes=nodes, parallelism=parallelism)


def _points(times_s: Any, values: Any) -> Points:
    return [(round(float(t), 1), round(float(v), 2)) for t, v in zip(times_s, values, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Result:
    """A row: published beside ours."""

    case: Case
    target: str
    measured: Measured
    runs: int
    curves: Curves | None = field(default=None, compare=False)

    def to_json(self) -> dict[str, Any]:
        """As plain values: the contract of ``ebbflow bench elysium --json``."""
        key, measured, published = self.case.key, self.measured, self.case.published
        row: dict[str, Any] = {
            "application": key.application,
            "load": key.load,
            "strategy": key.strategy,
            "setting": key.setting,
            "target": self.target,
            "throughput_degradation": _rounded(measured.throughput_degradation),
            "throughput_degradation_unsmoothed": _rounded(measured.throughput_degradation_unsmoothed),
            "nodes_saved": _rounded(measured.nodes_saved),
            "latency_mean_s": _rounded(measured.latency_mean_s),
            "reconfigurations": _rounded(measured.reconfigurations),
            "runs": self.runs,
            "published": None if published is None else published.to_json(),
        }
        if measured.foresight is not None:
            row["foresight"] = measured.foresight.to_json()
        if not self.case.traced:
            row["note"] = STANDS_IN
        return row


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
