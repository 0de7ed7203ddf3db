"""Strategies × loads × seeds: every strategy on every scene, in parallel, with one hindsight per scene."""

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
"""Less simulated time than this in all is over sooner than worker processes have started."""

HINDSIGHT = "hindsight"
"""Stands for the strategy where it was the cheapest schedule that could not be found."""


@dataclass(frozen=True, kw_only=True)
class SweepCase:
    """A scenario, and the name its load goes by in tables."""

    load: str
    scenario: Scenario
    drawn: bool = False
    """Whether pictures are made of its runs."""
    store: Path | None = None
    """Where to keep its run, if it is played once: readings, batches, ledger and curves, for `ebbflow report`."""
    past: Run | None = None
    """A run of the same load that was already: scored and drawn beside those of the strategies, and before them."""

    def runs(self, strategies: Sequence[str]) -> list[str]:
        """Who it has runs of, when it is swept."""
        return [*([] if self.past is None else [self.past.strategy]), *strategies]

    @property
    def step_s(self) -> float:
        """How far apart the samples of its load are; 0 where it is known at any time."""
        return self.scenario.load.sample_step_s


@dataclass(frozen=True, kw_only=True)
class Result:
    """One run: what it was, and its scores."""

    load: str
    seed: int
    strategy: str
    scores: Scores
    kept: bool
    """Whether it kept the SLO: violation ≤ 1 − quantile."""
    oracle_node_seconds: float | None = None
    oracle_feasible: bool | None = None
    """Whether any schedule within the limits keeps the SLO; where not, the oracle is a best effort. None without an
    oracle."""
    step_s: float = 0.0
    """How far apart the samples of the load were; 0 where it was known at any time."""
    drawing: Any = field(default=None, compare=False)
    """What ``draw`` made of the run, if its scene is drawn."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One run that ended in an error."""

    load: str
    seed: int
    strategy: str
    error: str
    trace: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.strategy} on {self.load}, seed {self.seed}: {self.error}"


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """All results, in the order of the scenes and within each in that of the strategies; and what failed."""

    results: tuple[Result, ...]
    failures: tuple[Failure, ...]
    undone: int = 0
    """Runs that were not done when somebody interrupted."""

    @property
    def over(self) -> tuple[Result | Failure, ...]:
        """Runs that are over, however they ended."""
        return (*self.results, *self.failures)

    def comparable(self, strategies: Sequence[str]) -> Sweep:
        """What was done on the loads and seeds that all strategies have had; all of it while there are none such.

        Of a sweep that was interrupted some strategies have had loads that others have not, and their means would
        be of different things.
        """
        had = {(run.load, run.seed, run.strategy) for run in self.over}

        def had_by_all(run: Result | Failure) -> bool:
            return all((run.load, run.seed, name) in had for name in strategies)

        if not self.undone or not any(had_by_all(run) for run in self.results):
            return self
        return replace(
            self,
            results=tuple(run for run in self.results if had_by_all(run)),
            failures=tuple(run for run in self.failures if had_by_all(run)),
        )


class SweepInterrupted(KeyboardInterrupt):
    """Somebody interrupted a sweep; ``done`` is what there is of it. Who does not care for that leaves as ever."""

    def __init__(self, done: Sweep) -> None:
        super().__init__("interrupted")
        self.done = done


GuardsOf = Callable[[Strategy], Sequence[Guard]]

Draw = Callable[[Run, Floats, Curve | None], Any]
"""Makes of a run, the capacity of 0 … max nodes and the nodes that hindsight would hold (if there is one) what a page
needs of it. It is called where the run was: a whole run is too large to send back."""


def sweep(
    scenes: Sequence[SweepCase],
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
    """Run every strategy on every scene. The same scenes give the same results, however many work on them.

    ``policies``: those that rules follow, by the names under which they stand among the strategies.
    ``estimators``: by pipeline, for the strategies that size by profiles. ``guards``: the guards of a strategy.
    ``workers``: processes; as many as there are cores if not told, none besides this one for a short sweep.
    ``master``: a Spark cluster that works instead. ``on_done`` is called after each run. A run that fails
    is told among the failures, and the others go on. A scene's past run counts as one more. An interrupt ends
    the runs that are under way, and comes as ``SweepInterrupted``.

    >>> from ebbflow.targets.simulator import built_in_engine
    >>> from ebbflow.workloads import parse_load
    >>> scenario = Scenario(engine=built_in_engine("top-words"), load=parse_load("constant(300)"), seconds=600)
    >>> results = sweep([SweepCase(load="flat", scenario=scenario)], ["static", "static-mean"]).results
    >>> [(result.strategy, result.scores.node_seconds) for result in results]
    [('static', 9600.0), ('static-mean', 1200.0)]
    """
    if not scenes or not strategies:
        raise InputError("a sweep needs at least one load and one strategy")
    if workers is None:
        simulated_s = len(strategies) * sum(scene.scenario.duration_s for scene in scenes)
        workers = 1 if simulated_s < SHORT_S else cores()
    shared = _Shared(
        scenes=tuple(scenes),
        policies=dict(policies or {}),
        estimators=dict(estimators or {}),
        guards=guards,
        draw=draw,
    )
    runs = [(i, name) for i, scene in enumerate(scenes) for name in scene.runs(strategies)]
    hindsights: list[_Hindsight | Exception] = []
    answers: dict[int, Result | Exception] = {}

    def take(index: int, answer: Result | Exception) -> None:
        answers[index] = answer
        on_done()

    def done() -> Sweep:
        told: list[tuple[int, str, object]] = [(i, HINDSIGHT, h) for i, h in enumerate(hindsights)]
        told += [(*runs[index], answers[index]) for index in sorted(answers)]
        return Sweep(
            results=tuple(answer for _, _, answer in told if isinstance(answer, Result)),
            failures=tuple(
                _failure(scenes[i], name, answer) for i, name, answer in told if isinstance(answer, Exception)
            ),
            undone=len(runs) - len(answers),
        )

    try:
        with parallel_map(shared, workers=min(workers, len(scenes) * len(strategies)), master=master) as work:
            hindsights = work(_look_back, range(len(scenes)), lambda *_: None)
            bounds = [h if isinstance(h, _Hindsight) else _Hindsight() for h in hindsights]
            work(_run, [_Job(scene=i, strategy=name, hindsight=bounds[i]) for i, name in runs], take)
    except KeyboardInterrupt:
        raise SweepInterrupted(done()) from None
    return done()


@dataclass(frozen=True, kw_only=True)
class _Shared:
    scenes: tuple[SweepCase, ...]
    policies: Mapping[str, Policy]
    estimators: Mapping[str, Estimator]
    guards: GuardsOf
    draw: Draw | None


@dataclass(frozen=True, kw_only=True)
class _Hindsight:
    """What the oracle says of a scene: the schedule only where it is drawn."""

    node_seconds: float | None = None
    feasible: bool | None = None
    oracle: Oracle | None = None


@dataclass(frozen=True, kw_only=True)
class _Job:
    scene: int
    strategy: str
    hindsight: _Hindsight


def _look_back(shared: _Shared, index: int) -> _Hindsight | Exception:
    """The oracle depends on the arrivals alone: once per scene, not once per strategy. It knows one pipeline on one
    cluster; of others there is none."""
    scene = shared.scenes[index]
    if not scene.scenario.is_single:
        return _Hindsight()
    try:
        oracle = oracle_of(scene.scenario)
    except Exception as error:
        return _told(error)
    if oracle is None:
        return _Hindsight()
    return _Hindsight(
        node_seconds=oracle.node_seconds,
        feasible=oracle.feasible,
        oracle=oracle if scene.drawn else None,
    )


def _run(shared: _Shared, job: _Job) -> Result | Exception:
    scene = shared.scenes[job.scene]
    try:
        if scene.past is not None and job.strategy == scene.past.strategy:
            return _result(scene, job, [scene.past], shared.draw)
        policy = shared.policies.get(job.strategy)
        scenario = scene.scenario
        strategy = (
            strategy_for(job.strategy, scenario, shared.estimators)
            if policy is None
            else Rules(policy, begins_at_s=scenario.begins_at_s)
        )
        played = run_simulation(scenario, strategy, shared.guards(strategy), store=scene.store)
        result = _result(scene, job, played.runs, shared.draw)
        if scene.store is not None and job.hindsight.node_seconds is not None:
            with closing(Store(scene.store, ManualClock(scenario.duration_s))) as store:
                store.set_terms({"oracle_node_seconds": repr(job.hindsight.node_seconds)})
        return result
    except Exception as error:
        return _told(error)


def _result(scene: SweepCase, job: _Job, runs: Sequence[Run], draw: Draw | None) -> Result:
    hindsight, run = job.hindsight, runs[0]
    alone = len(runs) == 1
    scores = score(run, oracle_node_seconds=hindsight.node_seconds) if alone else score_together(runs)
    drawing = None
    if draw is not None and scene.drawn:
        schedule = None if hindsight.oracle is None else hindsight.oracle.schedule
        drawing = draw(run, scene.scenario.mean_speed_rows_per_s(scene.scenario.engine), schedule)
    return Result(
        load=scene.load,
        seed=scene.scenario.seed,
        strategy=job.strategy,
        scores=scores,
        kept=kept_slo(scores.violation, run.slo.quantile),
        oracle_node_seconds=hindsight.node_seconds,
        oracle_feasible=hindsight.feasible,
        step_s=scene.step_s,
        drawing=drawing,
    )


def kept_slo(violation: float | None, quantile: float) -> bool:
    """Whether few enough rows were late; where none came, none was.

    >>> kept_slo(0.05, 0.95), kept_slo(0.051, 0.95), kept_slo(None, 1.0)
    (True, False, True)
    """
    return violation is None or violation <= 1.0 - quantile + 1e-9


class _Raised(Exception):  # noqa: N818
    """An error as text: the error itself may not survive being sent from a worker."""

    def __init__(self, error: str, trace: str) -> None:
        super().__init__(error, trace)
        self.error, self.trace = error, trace


def _told(error: Exception) -> _Raised:
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{where.filename.rpartition('/')[2]}, line {where.lineno}"
    return _Raised(f"{type(error).__name__}: {error} ({place})", "".join(traceback.format_exception(error)))


def _failure(scene: SweepCase, strategy: str, error: Exception) -> Failure:
    told = error if isinstance(error, _Raised) else _Raised(f"{type(error).__name__}: {error}", "")
    return Failure(
        load=scene.load, seed=scene.scenario.seed, strategy=strategy, error=told.error, trace=told.trace
    )


def mean(values: Sequence[float | int | None]) -> float | None:
    """The mean of the values that are known; None where none is.

    >>> mean([1, None, 2]), mean([None])
    (1.5, None)
    """
    known = [float(value) for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
