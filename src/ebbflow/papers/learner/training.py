"""Train the tables of several agents in the simulator.

Each seed is an agent of its own. It goes through the same number of episodes, taking the loads in turn, and keeps its
table from one to the next as a job does across restarts. An episode is a whole simulated run of the strategy with its
guards, so what is learned is what would happen on Spark. Agents run side by side, one per core.

At the end each agent runs once on every load without exploring. The best is the cheapest of those that keep the SLO on
average; if none does, the one that is late least. The same seeds give the same tables, with any number of processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ebbflow.core.expression import Call
from ebbflow.core.machine import cores
from ebbflow.core.ports import Strategy
from ebbflow.core.run import Run
from ebbflow.errors import InputError, RunFailedError
from ebbflow.guards import guards_for
from ebbflow.runs.parallel import parallel_map
from ebbflow.runs.score import score
from ebbflow.runs.simulation import run_simulation
from ebbflow.runs.sweep import GuardsOf, SweepCase, kept_slo, mean
from ebbflow.strategies import make_strategy, read_strategy
from ebbflow.strategies.deep_learner import DeepLearner
from ebbflow.strategies.learner import Learner
from ebbflow.targets.simulator import MicroBatch, Scenario


@dataclass(frozen=True, kw_only=True)
class TrainingMethod:
    """How a strategy is trained."""

    file: str
    """The parameter for the file that training writes."""
    training: Mapping[str, str] = field(default_factory=dict)
    """Parameters while it is trained."""


TRAINED: Mapping[str, TrainingMethod] = {
    Learner.name: TrainingMethod(file="table"),
    DeepLearner.name: TrainingMethod(file="weights", training={"policy": "explore"}),
}
"""Strategies that can be trained, by name."""


@dataclass(frozen=True, kw_only=True)
class EpisodeResult:
    """The scores of one run of an agent."""

    seed: int
    episode: int
    """From 1; 0 for the evaluation at the end."""
    load: str
    node_seconds: float
    violation: float
    reconfigurations: int

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "seed": self.seed,
            "episode": self.episode,
            "load": self.load,
            "node_seconds": round(self.node_seconds, 1),
            "violation": round(self.violation, 6),
            "reconfigurations": self.reconfigurations,
        }


@dataclass(frozen=True, kw_only=True)
class TrainedAgent:
    """One agent after its episodes."""

    seed: int
    table: str
    """The text of its table, or of its weights."""
    evaluation: Sequence[EpisodeResult]
    """Its runs without exploring, one per load."""

    @property
    def node_seconds(self) -> float:
        """Mean over the loads."""
        return mean([run.node_seconds for run in self.evaluation]) or 0.0

    @property
    def violation(self) -> float:
        """Mean over the loads."""
        return mean([run.violation for run in self.evaluation]) or 0.0


@dataclass(frozen=True, kw_only=True)
class Training:
    """All agents, and every episode in order."""

    agents: Sequence[TrainedAgent]
    episodes: Sequence[EpisodeResult]
    simulated_s: float
    """Simulated time of all episodes, without the evaluation."""
    quantile: float
    """Of the SLO."""

    @property
    def best(self) -> TrainedAgent:
        """Of the agents that keep the SLO the cheapest; if none does, the one that is late least."""

        def rank(agent: TrainedAgent) -> tuple[bool, float, float]:
            kept = kept_slo(agent.violation, self.quantile)
            return (not kept, 0.0 if kept else agent.violation, agent.node_seconds)

        return min(self.agents, key=rank)


def check_learner(expression: str) -> Call:
    """The call of an expression of ``TRAINED``. Raises ``InputError`` for another strategy or invalid parameters."""
    call = read_strategy(expression)
    if call.name not in TRAINED:
        raise InputError(
            f"strategy {call.name} has no table to train; name {' or '.join(TRAINED)}, like 'learner(seed=2)'"
        )
    make_strategy(expression)
    return call


def train(
    cases: Sequence[SweepCase],
    expression: str,
    *,
    episodes: int,
    seeds: Sequence[int],
    guards: GuardsOf = guards_for,
    workers: int | None = None,
    on_done: Callable[[], None] = lambda: None,
) -> Training:
    """Train one agent per seed on the loads in turn. ``on_done`` is called after each run: see ``runs_of``.

    ``guards``: returns the guards of a strategy. A ``table`` in the expression is where every agent starts. It is read,
    not written.
    """
    call = check_learner(expression)
    if not all(isinstance(case.scenario.engine, MicroBatch) for case in cases):
        raise InputError("learner learns from batches, and this engine has none; train it on micro-batch")
    shared = _Shared(cases=tuple(cases), call=call, guards=guards)
    tables: dict[int, str | None] = dict.fromkeys(seeds)
    results: list[EpisodeResult] = []
    with parallel_map(shared, workers=min(workers or cores(), len(seeds))) as work:
        for episode in range(1, episodes + 1):
            case = (episode - 1) % len(cases)
            jobs = [_Job(seed=seed, episode=episode, case=case, table=tables[seed]) for seed in seeds]
            for ran in _checked(work(_run, jobs, lambda *_: on_done())):
                tables[ran.result.seed] = ran.table
                results.append(ran.result)
        jobs = [
            _Job(seed=seed, episode=0, case=case, table=tables[seed])
            for seed in seeds
            for case in range(len(cases))
        ]
        evaluated = [ran.result for ran in _checked(work(_run, jobs, lambda *_: on_done()))]
    lengths_s = [cases[(episode - 1) % len(cases)].scenario.duration_s for episode in range(1, episodes + 1)]
    return Training(
        agents=[
            TrainedAgent(
                seed=seed, table=tables[seed] or "", evaluation=[run for run in evaluated if run.seed == seed]
            )
            for seed in seeds
        ],
        episodes=results,
        simulated_s=len(seeds) * sum(lengths_s),
        quantile=cases[0].scenario.slo.quantile,
    )


def runs_of(loads: int, episodes: int, seeds: int) -> int:
    """The number of runs of a training.

    >>> runs_of(loads=2, episodes=10, seeds=3)
    36
    """
    return seeds * (episodes + loads)


@dataclass(frozen=True, kw_only=True)
class _Shared:
    cases: tuple[SweepCase, ...]
    call: Call
    guards: GuardsOf


@dataclass(frozen=True, kw_only=True)
class _Job:
    seed: int
    episode: int
    case: int
    table: str | None


@dataclass(frozen=True, kw_only=True)
class _Ran:
    result: EpisodeResult
    table: str | None


def _run(shared: _Shared, job: _Job) -> _Ran | Exception:
    case = shared.cases[job.case]
    try:
        run, table = run_episode(
            shared.call,
            case.scenario,
            seed=job.seed,
            episode=job.episode,
            state=job.table,
            guards=shared.guards,
        )
        scores = score(run, oracle_node_seconds=None)
    except Exception as error:
        return RuntimeError(f"{case.load}, seed {job.seed}: {type(error).__name__}: {error}")
    return _Ran(
        result=EpisodeResult(
            seed=job.seed,
            episode=job.episode,
            load=case.load,
            node_seconds=scores.node_seconds or 0.0,
            violation=scores.violation or 0.0,
            reconfigurations=scores.reconfigurations or 0,
        ),
        table=table,
    )


def run_episode(
    call: Call,
    scenario: Scenario,
    *,
    seed: int,
    episode: int,
    state: str | None,
    guards: GuardsOf = guards_for,
) -> tuple[Run, str | None]:
    """One episode of an agent of ``TRAINED`` that continues from ``state``; returns the run and the state after it.

    Episode 0 is an evaluation: without exploring. Every episode has noise of its own.
    """
    agent = _agent(call, seed, episode, state)
    run = run_simulation(replace(scenario, seed=episode_seed(seed, episode)), agent, guards(agent)).run
    return run, agent.state() or state


def episode_seed(seed: int, episode: int) -> int:
    """The seed of an episode's noise."""
    return 1_000_003 * seed + episode


def _agent(call: Call, seed: int, episode: int, state: str | None) -> Strategy:
    given = {**call.arguments, **TRAINED[call.name].training, "seed": str(seed + 7919 * episode)}
    if episode == 0:
        given["policy"] = "greedy"
    if state is not None:
        given.pop(TRAINED[call.name].file, None)
    agent = make_strategy(str(replace(call, arguments=given)))
    if state is not None:
        agent.restore(state)
    return agent


def _checked(results: Sequence[Any]) -> list[_Ran]:
    for result in results:
        if isinstance(result, BaseException):
            raise RunFailedError(f"an episode failed: {result}")
    return list(results)
