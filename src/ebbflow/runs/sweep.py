"""Run every strategy on every case in parallel: strategies × loads × seeds.

The hindsight schedule of a case is computed once, because it depends on the arrivals alone.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ebbflow.core.clock import ManualClock
from ebbflow.core.curve import Curve, Floats
from ebbflow.core.machine import cores
from ebbflow.core.ports import Guard, Strategy
from ebbflow.core.run import Run
from ebbflow.errors import InputError
from ebbflow.guards import guards_for
from ebbflow.monitoring.store import Store
from ebbflow.policy.model import Policy
from ebbflow.profiling.estimator import Estimator
from ebbflow.runs.oracle import Oracle
from ebbflow.runs.parallel import parallel_map
from ebbflow.runs.score import Scores, score, score_together
from ebbflow.runs.simulation import oracle_of, run_simulation, strategy_for
from ebbflow.strategies.rules import Rules
from ebbflow.targets.simulator.scenario import Scenario

SHORT_S = 6 * 3600.0
"""Sweeps with less simulated time than this run in one process: starting workers would take longer."""

HINDSIGHT = "hindsight"
"""Used as the strategy name of a failure to compute the hindsight schedule."""


@dataclass(frozen=True, kw_only=True)
class SweepCase:
    """A scenario, and the name of its load in tables."""

    load: str
    scenario: Scenario
    drawn: bool = False
    """Whether its runs are drawn on a page."""
    store: Path | None = None
    """Where to store its run, for `ebbflow report`; only for a case that runs once."""
    recorded: Run | None = None
    """A recorded run of the same load, scored and drawn before those of the strategies."""

    def run_names(self, strategies: Sequence[str]) -> list[str]:
        """The strategy names of its runs in a sweep."""
        return [*([] if self.recorded is None else [self.recorded.strategy]), *strategies]

    @property
    def step_s(self) -> float:
        """Seconds between samples of the load; 0 if it is known at any time."""
        return self.scenario.load.sample_step_s


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """The scores of one run."""

    load: str
    seed: int
    strategy: str
    scores: Scores
    slo_kept: bool
    """Whether violation ≤ 1 − quantile."""
    oracle_node_seconds: float | None = None
    oracle_feasible: bool | None = None
    """Whether any schedule within the limits keeps the SLO; if not, the oracle is a best effort. None without an
    oracle."""
    step_s: float = 0.0
    """Seconds between samples of the load; 0 if it is known at any time."""
    drawing: Any = field(default=None, compare=False)
    """What ``draw`` returned, if the case is drawn."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A run that ended in an error."""

    load: str
    seed: int
    strategy: str
    error: str
    trace: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.strategy} on {self.load}, seed {self.seed}: {self.error}"


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """All results and failures, ordered by case and then by strategy."""

    results: tuple[SweepResult, ...]
    failures: tuple[Failure, ...]
    unfinished: int = 0
    """Runs that were not finished when the sweep was interrupted."""

    @property
    def finished(self) -> tuple[SweepResult | Failure, ...]:
        """All runs that have ended, failed ones included."""
        return (*self.results, *self.failures)

    def comparable(self, strategies: Sequence[str]) -> Sweep:
        """The runs on loads and seeds that all strategies have finished; everything if there are none.

        In an interrupted sweep some strategies have finished loads that others have not, so their means would not be
        comparable.
        """
        finished = {(run.load, run.seed, run.strategy) for run in self.finished}

        def finished_by_all(run: SweepResult | Failure) -> bool:
            return all((run.load, run.seed, name) in finished for name in strategies)

        if not self.unfinished or not any(finished_by_all(run) for run in self.results):
            return self
        return replace(
            self,
            results=tuple(run for run in self.results if finished_by_all(run)),
            failures=tuple(run for run in self.failures if finished_by_all(run)),
        )


class SweepInterrupted(KeyboardInterrupt):
    """A sweep was interrupted; ``sweep`` holds what had finished."""

    def __init__(self, sweep: Sweep) -> None:
        super().__init__("interrupted")
        self.sweep = sweep


GuardsOf = Callable[[Strategy], Sequence[Guard]]

Draw = Callable[[Sequence[Run], Floats, Curve | None], Any]
"""Extracts what a page shows from a run with the rows of each pipeline, the capacity of 0 … max nodes and the hindsight
schedule (if any). It is called in the worker: a whole run is too large to send back."""


def sweep(
    cases: Sequence[SweepCase],
    strategies: Sequence[str],
    *,
    policies: Mapping[str, Policy] | None = None,
    estimators: Mapping[str, Estimator] | None = None,
    guards: GuardsOf = guards_for,
    workers: int | None = None,
    master: str | None = None,
    draw: Draw | None = None,
    on_done: Callable[[], None] = lambda: None,
) -> Sweep:
    """Run every strategy on every case. The results do not depend on the number of workers.

    ``policies``: policies by their name in ``strategies``. ``estimators``: by pipeline, for strategies that use
    profiles. ``guards``: returns the guards of a strategy. ``workers``: processes; by default one per core, or one for
    a short sweep. ``master``: run on this Spark cluster instead. ``on_done`` is called after each run. Failed runs are
    listed in the result, and the others continue. An interrupt kills the active runs and raises
    ``SweepInterrupted``.

    >>> from ebbflow.targets.simulator import built_in_engine
    >>> from ebbflow.workloads import parse_load
    >>> scenario = Scenario(engine=built_in_engine("top-words"), load=parse_load("constant(300)"), seconds=600)
    >>> results = sweep([SweepCase(load="flat", scenario=scenario)], ["static", "static-mean"]).results
    >>> [(result.strategy, result.scores.node_seconds) for result in results]
    [('static', 9600.0), ('static-mean', 1200.0)]
    """
    if not cases or not strategies:
        raise InputError("a sweep needs at least one load and one strategy")
    if workers is None:
        simulated_s = len(strategies) * sum(case.scenario.duration_s for case in cases)
        workers = 1 if simulated_s < SHORT_S else cores()
    shared = _Shared(
        cases=tuple(cases),
        policies=dict(policies or {}),
        estimators=dict(estimators or {}),
        guards=guards,
        draw=draw,
    )
    runs = [(i, name) for i, case in enumerate(cases) for name in case.run_names(strategies)]
    hindsights: list[_Hindsight | Exception] = []
    answers: dict[int, SweepResult | Exception] = {}

    def take(index: int, answer: SweepResult | Exception) -> None:
        answers[index] = answer
        on_done()

    def collect() -> Sweep:
        ended: list[tuple[int, str, object]] = [(i, HINDSIGHT, h) for i, h in enumerate(hindsights)]
        ended += [(*runs[index], answers[index]) for index in sorted(answers)]
        return Sweep(
            results=tuple(answer for _, _, answer in ended if isinstance(answer, SweepResult)),
            failures=tuple(
                _failure(cases[i], name, answer) for i, name, answer in ended if isinstance(answer, Exception)
            ),
            unfinished=len(runs) - len(answers),
        )

    try:
        with parallel_map(shared, workers=min(workers, len(cases) * len(strategies)), master=master) as work:
            hindsights = work(_find_hindsight, range(len(cases)), lambda *_: None)
            bounds = [h if isinstance(h, _Hindsight) else _Hindsight() for h in hindsights]
            work(_run, [_Job(case=i, strategy=name, hindsight=bounds[i]) for i, name in runs], take)
    except KeyboardInterrupt:
        raise SweepInterrupted(collect()) from None
    return collect()


@dataclass(frozen=True, kw_only=True)
class _Shared:
    cases: tuple[SweepCase, ...]
    policies: Mapping[str, Policy]
    estimators: Mapping[str, Estimator]
    guards: GuardsOf
    draw: Draw | None


@dataclass(frozen=True, kw_only=True)
class _Hindsight:
    """The oracle of a case; with its schedule only if the case is drawn."""

    node_seconds: float | None = None
    feasible: bool | None = None
    oracle: Oracle | None = None


@dataclass(frozen=True, kw_only=True)
class _Job:
    case: int
    strategy: str
    hindsight: _Hindsight


def _find_hindsight(shared: _Shared, index: int) -> _Hindsight | Exception:
    """The oracle of a case; empty unless it is one pipeline on one cluster."""
    case = shared.cases[index]
    if not case.scenario.is_single:
        return _Hindsight()
    try:
        oracle = oracle_of(case.scenario)
    except Exception as error:
        return _as_text(error)
    if oracle is None:
        return _Hindsight()
    return _Hindsight(
        node_seconds=oracle.node_seconds,
        feasible=oracle.feasible,
        oracle=oracle if case.drawn else None,
    )


def _run(shared: _Shared, job: _Job) -> SweepResult | Exception:
    case = shared.cases[job.case]
    try:
        if case.recorded is not None and job.strategy == case.recorded.strategy:
            return _result(case, job, [case.recorded], shared.draw)
        policy = shared.policies.get(job.strategy)
        scenario = case.scenario
        strategy = (
            strategy_for(job.strategy, scenario, shared.estimators)
            if policy is None
            else Rules(policy, begins_at_s=scenario.begins_at_s)
        )
        simulation = run_simulation(scenario, strategy, shared.guards(strategy), store=case.store)
        result = _result(case, job, simulation.runs, shared.draw)
        if case.store is not None and job.hindsight.node_seconds is not None:
            with closing(Store(case.store, ManualClock(scenario.duration_s))) as store:
                store.set_terms({"oracle_node_seconds": repr(job.hindsight.node_seconds)})
        return result
    except Exception as error:
        return _as_text(error)


def _result(case: SweepCase, job: _Job, runs: Sequence[Run], draw: Draw | None) -> SweepResult:
    hindsight, run = job.hindsight, runs[0]
    alone = len(runs) == 1
    scores = score(run, oracle_node_seconds=hindsight.node_seconds) if alone else score_together(runs)
    drawing = None
    if draw is not None and case.drawn:
        schedule = None if hindsight.oracle is None else hindsight.oracle.schedule
        capacity = case.scenario.mean_speed_rows_per_s(case.scenario.engine)
        drawing = draw(runs, capacity, schedule)
    return SweepResult(
        load=case.load,
        seed=case.scenario.seed,
        strategy=job.strategy,
        scores=scores,
        slo_kept=kept_slo(scores.violation, run.slo.quantile),
        oracle_node_seconds=hindsight.node_seconds,
        oracle_feasible=hindsight.feasible,
        step_s=case.step_s,
        drawing=drawing,
    )


def kept_slo(violation: float | None, quantile: float) -> bool:
    """Whether few enough rows were late. A run without rows keeps its SLO.

    >>> kept_slo(0.05, 0.95), kept_slo(0.051, 0.95), kept_slo(None, 1.0)
    (True, False, True)
    """
    return violation is None or violation <= 1.0 - quantile + 1e-9


class _Raised(Exception):  # noqa: N818
    """An error as text: the error itself may not be picklable."""

    def __init__(self, error: str, trace: str) -> None:
        super().__init__(error, trace)
        self.error, self.trace = error, trace


def _as_text(error: Exception) -> _Raised:
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{where.filename.rpartition('/')[2]}, line {where.lineno}"
    return _Raised(f"{type(error).__name__}: {error} ({place})", "".join(traceback.format_exception(error)))


def _failure(case: SweepCase, strategy: str, error: Exception) -> Failure:
    raised = error if isinstance(error, _Raised) else _Raised(f"{type(error).__name__}: {error}", "")
    return Failure(
        load=case.load, seed=case.scenario.seed, strategy=strategy, error=raised.error, trace=raised.trace
    )


def mean(values: Sequence[float | int | None]) -> float | None:
    """The mean of the known values; None if there are none.

    >>> mean([1, None, 2]), mean([None])
    (1.5, None)
    """
    known = [float(value) for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
