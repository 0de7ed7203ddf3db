"""Who is compared: strategies as they come, agents after training, rules after calibration, and two bounds.

A contender *prepares* with a seed (it learns, or is calibrated) and then *runs* on loads. Every contender that prepares
gets the same budget: a number of passes over the learning loads. An agent uses them one after the other. A rule tries
other parameters in each pass, found by recursive random search, and keeps the best by

    cost = mean nodes + 10 · max nodes · share of late rows,

the cost that ``tuned`` optimises. Its first try are the parameters that it comes with.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Protocol

from ebbflow.core.decision import Decision, want
from ebbflow.core.expression import Call
from ebbflow.core.metrics import Metric
from ebbflow.core.parameters import Whole, declared
from ebbflow.core.ports import Guard, Strategy
from ebbflow.core.run import Run
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import Snapshot
from ebbflow.guards import Bounds, HoldOnMissingData, default_guards, guards_for
from ebbflow.papers.learner.evaluation.loads import (
    ALL_FIVE,
    CHANGE_S,
    CHANGED,
    EPISODE_S,
    HOUR_S,
    LEARNING,
    SHAPES,
    Loads,
    learning_scenario,
    order,
)
from ebbflow.papers.learner.training import TRAINED, episode_seed, run_episode
from ebbflow.runs.score import by_rows, score
from ebbflow.runs.simulation import oracle_of, run_simulation
from ebbflow.strategies import STRATEGIES, make_strategy, read_strategy
from ebbflow.strategies.learner import Learner, table_file
from ebbflow.strategies.learner.policies import TIES, Situation, best_action
from ebbflow.strategies.learner.state import Action, State
from ebbflow.strategies.tuned.random_search import Point, RecursiveRandomSearch
from ebbflow.targets.simulator import Scenario

FIRST, LEARNS = "first two hours", "while learning"
FIRST_EPISODES = 4
"""Phases of preparing, beside single passes."""
AFTER = ""
"""The phase of a run after preparing."""
BEFORE_CHANGE, SOON_AFTER, LATER = "before the change", "first two hours after", "later"
LATE_PRICE = 10.0
CONVERGED = 0.95
"""Share of the decisions in which a table must choose as the final one does, from some pass on, to have converged."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a run, or a part of one, cost with one seed."""

    load: str
    phase: str = AFTER
    hours: float
    node_seconds: float
    violation: float
    rows: int
    reconfigurations: float = 0.0
    converged_after_h: float | None = None
    """Of all passes together: hours of learning after which the greedy actions no longer changed."""

    @classmethod
    def of(cls, run: Run, load: str, phase: str = AFTER) -> Measured:
        """The scores of a run."""
        scores = score(run, oracle_node_seconds=None)
        return cls(
            load=load,
            phase=phase,
            hours=(run.ended_s - run.started_s) / HOUR_S,
            node_seconds=scores.node_seconds or 0.0,
            violation=scores.violation or 0.0,
            rows=scores.rows_in,
            reconfigurations=float(scores.reconfigurations or 0),
        )

    @classmethod
    def together(cls, parts: Sequence[Measured], load: str, phase: str) -> Measured:
        """Several runs as one: late rows are weighted by rows."""
        return cls(
            load=load,
            phase=phase,
            hours=math.fsum(part.hours for part in parts),
            node_seconds=math.fsum(part.node_seconds for part in parts),
            violation=by_rows([(part.violation, part.rows) for part in parts]) or 0.0,
            rows=sum(part.rows for part in parts),
            reconfigurations=math.fsum(part.reconfigurations for part in parts),
        )


class Contender(Protocol):
    """One of those compared. Contenders are equal if they do the same, so that each is run once."""

    def run(self, loads: Loads, names: Sequence[str], seed: int) -> list[Measured]:
        """Prepare with a seed, then run on the loads of these names."""
        ...


def passes_of(number: int) -> str:
    """The phase of a pass, from 1.

    >>> passes_of(3)
    'pass 3'
    """
    return f"pass {number}"


def seeded(expression: str, seed: int) -> Strategy:
    """A strategy with a seed, if it draws random numbers and none is given."""
    call = read_strategy(expression)
    given = dict(call.arguments)
    if call.name in (*TRAINED, "tuned"):
        given.setdefault("seed", str(seed))
    return make_strategy(str(replace(call, arguments=given)))


def run_parts(run: Run, name: str) -> list[Measured]:
    """The parts of a run: the load that changes midway is scored before, soon after and long after the change."""
    if name != CHANGED:
        return [Measured.of(run, name)]
    cuts_s = (0.0, CHANGE_S, CHANGE_S + 2 * HOUR_S, run.ended_s)
    phases = (BEFORE_CHANGE, SOON_AFTER, LATER)
    return [
        Measured.of(
            replace(run, started_s=cuts_s[k], ended_s=cuts_s[k + 1], reconfigurations=None), name, phase
        )
        for k, phase in enumerate(phases)
    ]


# -- strategies as they come ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Plain:
    """A strategy with its own parameters. ``carries``: it keeps what it learned from one shape to the next."""

    strategy: str
    carries: bool = False

    def run(self, loads: Loads, names: Sequence[str], seed: int) -> list[Measured]:
        """Run on each load."""
        parts = list[Measured]()
        state: str | None = None
        for name in names:
            if name == ALL_FIVE:
                parts += self._passed(seed)
                continue
            agent = seeded(self.strategy, seed)
            carries = self.carries and name in SHAPES
            if carries and state is not None:
                agent.restore(state)
            parts += run_parts(run_simulation(loads.judged(name, seed), agent).run, name)
            state = agent.state() if carries else state
        return parts

    def _passed(self, seed: int) -> Iterator[Measured]:
        """One pass of the learning loads, as agents meet them in their first."""
        ran = []
        for episode, name in enumerate(order(list(LEARNING), seed), start=1):
            scenario = _episode(name, seed, episode)
            ran.append(Measured.of(run_simulation(scenario, seeded(self.strategy, seed)).run, name))
        yield Measured.together(ran[:FIRST_EPISODES], ALL_FIVE, FIRST)
        yield Measured.together(ran, ALL_FIVE, passes_of(1))


def _episode(name: str, seed: int, episode: int) -> Scenario:
    return replace(learning_scenario([name], seed, episode), seed=episode_seed(seed, episode))


# -- agents --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Taught:
    """An agent after training: ``passes`` over the loads of ``on``, with exploration, then greedy.

    A trained ``learner`` goes on learning while it is judged. ``frozen`` ends that too.
    """

    strategy: str
    passes: int
    on: tuple[str, ...] = tuple(LEARNING)
    frozen: bool = False

    def run(self, loads: Loads, names: Sequence[str], seed: int) -> list[Measured]:
        """Train, then run on each load without exploring."""
        parts, state = self._train(seed)
        call = read_strategy(self.strategy)
        if self.frozen:
            call = replace(call, arguments={**call.arguments, "learningFactor": "1e-9"})
        for name in (name for name in names if name != ALL_FIVE):
            run, _ = run_episode(call, loads.judged(name, seed), seed=seed, episode=0, state=state)
            parts += run_parts(run, name)
        return parts

    def table(self, seed: int) -> str:
        """The text of the table, or of the weights, after training."""
        return self._train(seed)[1] or ""

    def _train(self, seed: int) -> tuple[list[Measured], str | None]:
        names = order(self.on, seed)
        call = read_strategy(self.strategy)
        if call.name == Learner.name:
            ran, states = self._in_episodes(call, names, seed)
            hours = converged_after(states) * len(names) * EPISODE_S / HOUR_S
        else:
            (ran, states), hours = self._at_once(call, names, seed), None
        each = len(names)
        whole = replace(Measured.together(ran, ALL_FIVE, LEARNS), converged_after_h=hours)
        parts = [Measured.together(ran[:FIRST_EPISODES], ALL_FIVE, FIRST), whole]
        parts += [
            Measured.together(ran[k : k + each], ALL_FIVE, passes_of(k // each + 1))
            for k in range(0, len(ran), each)
        ]
        return parts, states[-1]

    def _in_episodes(self, call: Call, names: Sequence[str], seed: int) -> tuple[list[Measured], list[str]]:
        """Half an hour at a time, keeping the table; returns the table after each pass."""
        ran, states, state = list[Measured](), list[str](), ""
        for episode in range(1, self.passes * len(names) + 1):
            name = names[(episode - 1) % len(names)]
            scenario = learning_scenario([name], seed, episode)
            run, after = run_episode(call, scenario, seed=seed, episode=episode, state=state or None)
            state = after or state
            ran.append(Measured.of(run, name))
            if episode % len(names) == 0:
                states.append(state)
        return ran, states

    def _at_once(self, call: Call, names: Sequence[str], seed: int) -> tuple[list[Measured], list[str]]:
        """All passes in one run: weights alone do not hold the memory that a deep agent learns from."""
        scenario = learning_scenario([*names] * self.passes, seed, 1)
        run, state = run_episode(call, scenario, seed=seed, episode=1, state=None)
        cuts_s = [EPISODE_S * k for k in range(len(names) * self.passes + 1)]
        ran = [
            Measured.of(replace(run, started_s=begin_s, ended_s=end_s, reconfigurations=None), ALL_FIVE)
            for begin_s, end_s in pairwise(cuts_s)
        ]
        return ran, [state or ""]


def converged_after(tables: Sequence[str]) -> int:
    """The first pass from which on the greedy actions agree with the final ones, weighted by the final visits."""
    final = table_file.from_text(tables[-1], "the table")
    weights = {state: sum(entry.visits) for state, entry in final.entries.items()}
    last = _greedy(tables[-1])
    converged = len(tables)
    for number in range(len(tables) - 1, 0, -1):
        now = _greedy(tables[number - 1])
        same = sum(weight for state, weight in weights.items() if now.get(state) is last[state])
        if same < CONVERGED * sum(weights.values()):
            break
        converged = number
    return converged


def _greedy(text: str) -> Mapping[State, Action]:
    table = table_file.from_text(text, "the table")
    return {
        state: best_action(Situation(values=entry.values, feasible=TIES, region=table.space.region(state)))
        for state, entry in table.entries.items()
    }


# -- rules ---------------------------------------------------------------------------------------------------------

Range = tuple[float, float, float]
"""Lowest and highest value, and the one that the rule comes with."""
RULES: Mapping[str, Mapping[str, Range]] = {
    "thresholds": {
        "upper": (0.5, 0.95, 0.8),
        "lower": (0.1, 0.6, 0.5),  # as a share of upper
        "out_after": (0.0, 60.0, 30.0),
        "in_after": (10.0, 600.0, 300.0),
        "grace": (0.0, 120.0, 60.0),
        "step_out": (1.0, 6.0, 1.0),
        "step_in": (1.0, 3.0, 1.0),
    },
    "rightscale": {
        "grow_busy": (0.4, 0.95, 0.7),
        "shrink_busy": (0.1, 0.9, 0.43),  # as a share of grow_busy
        "period": (10.0, 300.0, 180.0),
        "calm": (0.0, 900.0, 900.0),
        "resize_up": (1.0, 6.0, 2.0),
        "resize_down": (1.0, 3.0, 1.0),
    },
    "spark-legacy": {
        "interval": (10.0, 120.0, 60.0),
        "up_ratio": (0.4, 1.2, 0.9),
        "down_ratio": (0.1, 0.9, 0.33),  # as a share of up_ratio
    },
}
"""Parameters that are searched, by rule."""
_SHARE_OF = {"lower": "upper", "shrink_busy": "grow_busy", "down_ratio": "up_ratio"}
"""A lower threshold is searched as a share of its upper one, so that every point is valid."""


def rule_at(rule: str, point: Point) -> str:
    """The expression of a rule at a point of the unit cube.

    >>> rule_at("spark-legacy", (0.0, 1.0, 0.5))
    'spark-legacy(interval=10s, up_ratio=1.2, down_ratio=0.6)'
    """
    values: dict[str, float] = {}
    for (name, (low, high, _)), at in zip(RULES[rule].items(), point, strict=True):
        value = low + at * (high - low)
        values[name] = round(value * values[_SHARE_OF[name]] if name in _SHARE_OF else value, 3)
    kinds = {key: parameter.kind for key, parameter in declared(STRATEGIES[rule]).items()}
    whole = {
        name: round(value) if isinstance(kinds[name], Whole) else value for name, value in values.items()
    }
    return f"{rule}({', '.join(f'{name}={kinds[name].write(value)}' for name, value in whole.items())})"


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """A rule with the best parameters of as many tries as it has passes."""

    rule: str
    passes: int
    on: tuple[str, ...] = tuple(LEARNING)

    def run(self, loads: Loads, names: Sequence[str], seed: int) -> list[Measured]:
        """Calibrate, then run on each load."""
        parts, best = self._search(seed)
        return parts + Plain(strategy=best).run(loads, [name for name in names if name != ALL_FIVE], seed)

    def _search(self, seed: int) -> tuple[list[Measured], str]:
        start = tuple((first - low) / (high - low) for low, high, first in RULES[self.rule].values())
        search, tries = RecursiveRandomSearch(start, Random(seed)), []
        for number in range(1, self.passes + 1):
            expression, ran = rule_at(self.rule, search.ask()), []
            for k, name in enumerate(order(self.on, seed), start=1):
                scenario = _episode(name, seed, (number - 1) * len(self.on) + k)
                ran.append(Measured.of(run_simulation(scenario, make_strategy(expression)).run, name))
            tries.append(Measured.together(ran, ALL_FIVE, passes_of(number)))
            most = scenario.limits.max_nodes
            nodes = tries[-1].node_seconds / (tries[-1].hours * HOUR_S)
            search.tell(nodes + LATE_PRICE * most * tries[-1].violation)
        return [*tries, Measured.together(tries, ALL_FIVE, LEARNS)], rule_at(self.rule, search.best)


# -- bounds --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Hindsight:
    """The cheapest schedule with which no row is late, knowing the load and the lead time: a lower bound."""

    def run(self, loads: Loads, names: Sequence[str], seed: int) -> list[Measured]:
        """The bound of each load. The load that changes has none for its parts."""
        parts = []
        for name in (name for name in names if name not in (ALL_FIVE, CHANGED)):
            scenario = loads.judged(name, seed)
            oracle = oracle_of(replace(scenario, slo=Slo(freshness_s=scenario.slo.freshness_s)))
            if oracle is not None and oracle.feasible:
                parts.append(
                    Measured(
                        load=name,
                        hours=scenario.duration_s / HOUR_S,
                        node_seconds=oracle.node_seconds,
                        violation=0.0,
                        rows=0,
                    )
                )
        return parts


class FirstSign(Strategy):
    """``capacity``, but all nodes for two minutes as soon as the arrival rate has risen by a fifth.

    No strategy that only reacts can be faster after a jump of the load. What is late under it was late before any
    reaction could help, or because of the guards.
    """

    name = "first-sign"
    RISE, CALM_S = 0.2, 120.0

    def __init__(self) -> None:
        self._capacity = make_strategy("capacity")
        self._rate_per_s: float | None = None
        self._until_s = -math.inf

    def decide(self, snapshot: Snapshot) -> Decision:
        """All nodes after a rise, else what ``capacity`` decides."""
        decision = self._capacity.decide(snapshot)
        rate = snapshot.windows.of(snapshot.pipeline.name, Metric.ARRIVAL_RATE).last
        if rate is not None:
            if self._rate_per_s is not None and rate > (1 + self.RISE) * self._rate_per_s:
                self._until_s = snapshot.now_s + self.CALM_S
            self._rate_per_s = rate
        if snapshot.now_s >= self._until_s:
            return decision
        return want(snapshot, snapshot.limits.max_nodes, "the load rises", "n' = max nodes", {})


@dataclass(frozen=True, kw_only=True)
class Restrained:
    """A strategy under the default guards, although it brings its own: as the teacher of an agent is."""

    strategy: str

    def run(self, loads: Loads, names: Sequence[str], seed: int) -> list[Measured]:
        """Run on each load."""
        parts = []
        for name in (name for name in names if name != ALL_FIVE):
            strategy = seeded(self.strategy, seed)
            parts += run_parts(run_simulation(loads.judged(name, seed), strategy, default_guards()).run, name)
        return parts


@dataclass(frozen=True, kw_only=True)
class Reaction:
    """``FirstSign`` with the default guards, or with bounds and missing data alone."""

    guarded: bool

    def run(self, loads: Loads, names: Sequence[str], seed: int) -> list[Measured]:
        """Run on each load."""
        parts = []
        for name in (name for name in names if name != ALL_FIVE):
            strategy = FirstSign()
            guards: Sequence[Guard] = (
                guards_for(strategy) if self.guarded else (Bounds(), HoldOnMissingData())
            )
            parts += run_parts(run_simulation(loads.judged(name, seed), strategy, guards).run, name)
        return parts
