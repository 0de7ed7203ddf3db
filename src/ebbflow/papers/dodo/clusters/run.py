"""Run the experiments of §6.4 and §7 in the simulator, each with several seeds.

``throughput`` is the mean rate of processed events in the last three minutes, where the load is highest; ``gain``
relates to the variant of the same case without optimisation.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ebbflow.control.loop import CycleReport
from ebbflow.core.decision import LedgerEntry
from ebbflow.core.metrics import Metric
from ebbflow.core.run import Run
from ebbflow.papers import SIMULATOR
from ebbflow.papers.dodo.clusters.calibration import (
    APART,
    SECOND,
    THIRD,
    TOGETHER,
    Reading,
    Testbed,
    chapter_6,
    chapter_7,
    ec2,
    emulab,
)
from ebbflow.papers.dodo.clusters.published import (
    AUTOSCALING,
    BALANCED,
    BY_MODEL,
    CASES,
    EXTREME,
    NONE,
    PROVISIONED,
    PUBLISHED,
    STATIC,
    VARIANTS,
    WITH_CAPACITY,
    WITHOUT_CAPACITY,
    Published,
)
from ebbflow.papers.rows import run_rows
from ebbflow.runs.score import score
from ebbflow.runs.simulation import run_simulation
from ebbflow.strategies import make_strategy

Points = list[tuple[float, float]]
MEASURED_S = 180.0
"""The end of a run over which its throughput is measured."""
POINT_S = 30.0
MOST_NODES = 15
"""Capacity over all clusters in Experiment 3."""

STRATEGIES: Mapping[str, str] = {
    NONE: "balance(load_threshold=1000)",
    WITH_CAPACITY: "balance",
    WITHOUT_CAPACITY: "balance(capacity=false)",
    STATIC: "balance(load_threshold=1000)",
    BALANCED: "balance",
    PROVISIONED: f"provision(sizing=thresholds, most_nodes={MOST_NODES})",
    BY_MODEL: f"provision(sizing=capacity, most_nodes={MOST_NODES})",
}
"""By variant. Without optimisation, a threshold that is never reached measures and moves nothing."""
CLUSTER_NAMES = {SECOND: "Cluster₂", THIRD: "Cluster₃"}


# -- results ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Curves:
    """A run for charts: a point every 30 s."""

    load: Points
    throughput: Points
    cpu: Mapping[str, Points] = field(default_factory=dict)
    """Mean CPU utilisation of the nodes of each cluster."""
    nodes: Mapping[str, Points] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "load": self.load,
            "throughput": self.throughput,
            "cpu": dict(self.cpu),
            "nodes": dict(self.nodes),
        }


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run."""

    throughput: float
    moves: float
    changes: float
    """Decisions that changed numbers of nodes."""
    nodes: tuple[float, float]
    """Nodes of both clusters at the end."""
    node_hours: float | None = None
    late: float | None = None
    """Share of the events that took longer than 30 s."""

    @classmethod
    def mean(cls, each: Sequence[Measured]) -> Measured:
        """The means over runs."""
        return cls(
            throughput=statistics.fmean(m.throughput for m in each),
            moves=statistics.fmean(m.moves for m in each),
            changes=statistics.fmean(m.changes for m in each),
            nodes=(statistics.fmean(m.nodes[0] for m in each), statistics.fmean(m.nodes[1] for m in each)),
            node_hours=statistics.fmean(m.node_hours or 0.0 for m in each),
            late=statistics.fmean(m.late or 0.0 for m in each),
        )


@dataclass(frozen=True, kw_only=True)
class Result:
    """A case under a variant: means over the runs, and the curves of the first."""

    case: str
    variant: str
    measured: Measured
    gain: float
    runs: int
    target: str = SIMULATOR
    curves: Curves | None = field(default=None, compare=False)

    @property
    def published(self) -> Published | None:
        """What the thesis reports."""
        return PUBLISHED.get((self.case, self.variant))

    def to_json(self) -> dict[str, Any]:
        """A row of ``ebbflow bench dodo --json``."""
        return {
            "case": self.case,
            "variant": self.variant,
            "target": self.target,
            "throughput": round(self.measured.throughput, 1),
            "gain": round(self.gain, 4),
            "moves": round(self.measured.moves, 2),
            "node_changes": round(self.measured.changes, 2),
            "nodes": [round(n, 2) for n in self.measured.nodes],
            "node_hours": None if self.measured.node_hours is None else round(self.measured.node_hours, 3),
            "late": None if self.measured.late is None else round(self.measured.late, 4),
            "runs": self.runs,
            "published": None if self.published is None else self.published.to_json(),
        }


def with_gains(
    found: Sequence[tuple[str, str, Measured, int, Curves | None]], target: str = SIMULATOR
) -> list[Result]:
    """Results with gains over the first variant of each case, which must be among them."""
    base = {
        case: measured.throughput for case, variant, measured, _, _ in found if variant == VARIANTS[case][0]
    }
    return [
        Result(
            case=case,
            variant=variant,
            measured=measured,
            gain=measured.throughput / base[case] - 1,
            runs=runs,
            target=target,
            curves=curves,
        )
        for case, variant, measured, runs, curves in found
    ]


# -- runs ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one run needs."""

    case: str
    variant: str
    testbed: Testbed
    with_curves: bool = True

    @property
    def start(self) -> tuple[tuple[int, int], Mapping[str, str]]:
        """Nodes and placement at the start (Tables 7, 8 and 9)."""
        if self.case == AUTOSCALING:
            return ((12, 3) if self.variant in (STATIC, BALANCED) else (1, 1)), APART
        return (6, 1), APART if self.case == EXTREME else TOGETHER


class Recorder:
    """CPU and nodes of each cluster, cycle by cycle."""

    def __init__(self) -> None:
        self.cpu: dict[str, list[tuple[float, float]]] = {name: [] for name in CLUSTER_NAMES}
        self.nodes: dict[str, Points] = {name: [] for name in CLUSTER_NAMES}

    def __call__(self, report: CycleReport) -> None:
        """Record a cycle."""
        observed = report.observation
        if observed is None:
            return
        cpu: dict[str, list[float]] = {name: [] for name in CLUSTER_NAMES}
        for reading in observed.readings:
            if reading.metric is Metric.NODE_CPU:
                cpu[THIRD if reading.subject.startswith(f"{THIRD}/") else SECOND].append(reading.value)
        for name, values in cpu.items():
            self.cpu[name].append((observed.time_s, statistics.fmean(values) if values else 0.0))
            self.nodes[name].append((observed.time_s, float(observed.layout.nodes[name])))

    def curves(self, run: Run) -> Curves:
        """The curves of a run."""
        times_s = np.arange(0.0, run.ended_s + 1e-9, POINT_S)
        arrived, done = run.arrived.interpolated(times_s), run.processed.interpolated(times_s)
        return Curves(
            load=_points(times_s[1:], np.diff(arrived) / POINT_S),
            throughput=_points(times_s[1:], np.diff(done) / POINT_S),
            cpu={CLUSTER_NAMES[name]: _thinned(points) for name, points in self.cpu.items()},
            nodes={CLUSTER_NAMES[name]: _steps(points) for name, points in self.nodes.items()},
        )


def _points(times_s: Any, values: Any) -> Points:
    return [(round(float(t) / 60, 2), round(float(v), 1)) for t, v in zip(times_s, values, strict=True)]


def _thinned(points: Points) -> Points:
    """Means over 30 s, in minutes."""
    found: dict[int, list[float]] = {}
    for time_s, value in points:
        found.setdefault(int(time_s / POINT_S), []).append(value)
    return [(round((k + 1) * POINT_S / 60, 2), round(statistics.fmean(v), 3)) for k, v in found.items()]


def _steps(points: Points) -> Points:
    """Only the changes, in minutes, and the end."""
    kept = [p for k, p in enumerate(points) if k in (0, len(points) - 1) or p[1] != points[k - 1][1]]
    return [(round(time_s / 60, 2), value) for time_s, value in kept]


def moved_operators(entries: Sequence[LedgerEntry]) -> int:
    """Operators that were moved."""
    return sum(
        len(entry.outcome.requested.difference(entry.before).moved)
        for entry in entries
        if entry.outcome is not None
    )


def run_row(_: None, row: Row, seed: int) -> tuple[Measured, Curves | None]:
    """One run of a row."""
    nodes, placement = row.start
    recorder = Recorder()
    run = run_simulation(
        row.testbed.scenario(nodes, placement, seed=seed), make_strategy(STRATEGIES[row.variant]),
        on_cycle=recorder if row.with_curves and seed == 1 else None,
    ).run  # fmt: skip
    done = run.processed.interpolated(np.array([run.ended_s - MEASURED_S, run.ended_s]))
    last = run.decisions[-1].decision.wanted.nodes
    scores = score(run, oracle_node_seconds=None)
    measured = Measured(
        throughput=float(done[1] - done[0]) / MEASURED_S,
        moves=float(moved_operators(run.decisions)),
        changes=float(sum(1 for e in run.decisions if e.decision.wanted.difference(e.before).nodes)),
        nodes=(float(last[SECOND]), float(last[THIRD])),
        node_hours=(scores.node_seconds or 0.0) / 3600,
        late=scores.violation,
    )
    return measured, recorder.curves(run) if row.with_curves and seed == 1 else None


def run_cases(
    cases: Sequence[str] = CASES,
    *,
    seeds: int = 3,
    workers: int | None = None,
    on_done: Callable[[], None] = lambda: None,
) -> list[Result]:
    """Every case under each of its variants."""
    rows = [
        Row(case=case, variant=variant, testbed=chapter_7() if case == AUTOSCALING else chapter_6())
        for case in cases
        for variant in VARIANTS[case]
    ]
    found = run_rows(
        run_row, None, rows,
        name=lambda row: f"{row.case} {row.variant}", seeds=seeds, workers=workers, on_done=on_done,
    )  # fmt: skip
    return with_gains(
        [
            (row.case, row.variant, Measured.mean(measured), seeds, curves)
            for row, (measured, curves) in zip(rows, found, strict=True)
        ]
    )


# -- other readings of the text --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Assumption:
    """Gains if the text is read in another way, or if an instance launches faster or slower."""

    text: str
    gains: Mapping[str, float]
    """By case and variant."""

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"assumption": self.text, "gains": {name: round(gain, 4) for name, gain in self.gains.items()}}


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """How much the gains depend on what the text leaves open."""

    assumptions: Sequence[Assumption]

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"assumptions": [each.to_json() for each in self.assumptions]}


_OTHER: Mapping[str, tuple[Testbed, Testbed]] = {
    "as used": (chapter_6(), chapter_7()),
    "extractor by the 6,000 tweets/s alone": (
        chapter_6(emulab(Reading.FIRST)), chapter_7(ec2(extractor=Reading.FIRST)),
    ),
    "extractor by the 7,000 tweets/s alone": (
        chapter_6(emulab(Reading.SECOND)), chapter_7(ec2(extractor=Reading.SECOND)),
    ),
    "count of §7 by the 12,313 events/s alone": (chapter_6(), chapter_7(ec2(count=Reading.FIRST))),
    "count of §7 by the 15,315 events/s alone": (chapter_6(), chapter_7(ec2(count=Reading.SECOND))),
    "an instance launches in 1 minute": (chapter_6(), chapter_7(launch_s=60.0)),
    "an instance launches in 5 minutes": (chapter_6(), chapter_7(launch_s=300.0)),
    "an instance launches in 10 minutes": (chapter_6(), chapter_7(launch_s=600.0)),
}  # fmt: skip
COMPARED = (
    (EXTREME, WITH_CAPACITY),
    (EXTREME, WITHOUT_CAPACITY),
    (AUTOSCALING, BALANCED),
    (AUTOSCALING, PROVISIONED),
    (AUTOSCALING, BY_MODEL),
)
"""Gains that are shown for each assumption."""


def study(*, workers: int | None = None, on_done: Callable[[], None] = lambda: None) -> Sensitivity:
    """The gains under each assumption, one run each."""
    pairs = [*COMPARED, (EXTREME, NONE), (AUTOSCALING, STATIC)]
    rows = [
        Row(case=case, variant=variant, testbed=beds[case == AUTOSCALING], with_curves=False)
        for beds in _OTHER.values()
        for case, variant in pairs
    ]
    found = run_rows(
        run_row,
        None,
        rows,
        name=lambda row: f"{row.case} {row.variant}",
        seeds=1,
        workers=workers,
        on_done=on_done,
    )
    assumptions = []
    for index, text in enumerate(_OTHER):
        here = slice(index * len(pairs), (index + 1) * len(pairs))
        rates = {
            (row.case, row.variant): measured[0].throughput
            for row, (measured, _) in zip(rows[here], found[here], strict=True)
        }
        gains = {
            f"{case} {variant}": rates[case, variant] / rates[case, VARIANTS[case][0]] - 1
            for case, variant in COMPARED
        }
        assumptions.append(Assumption(text=text, gains=gains))
    return Sensitivity(assumptions=assumptions)


def study_runs() -> int:
    """How many runs ``study`` makes."""
    return len(_OTHER) * (len(COMPARED) + 2)
