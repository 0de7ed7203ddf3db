"""``learner``: executors by reinforcement learning on total latency and the direction of the load.

S. Azimi Gehraz, *Auto-Scaling Techniques for Spark Streaming*, Master thesis, TU Darmstadt, 2018, §5. Every
``decisionInterval`` the agent observes its state, learns from what its last action led to, and chooses an action:

1. measure   mean total latency and incoming messages over ``windowSize``: ``window``
2. learn     the reward of the last action (``rewards``), then Q(S, A) moves towards R + γ · next (``learning``)
3. choose    the best action after the monotonicity constraint, or a random one (``policies``); with a teacher, the
             teacher's, unless the agent knows better (``teacher``)
4. size      how many executors the action is worth (``how_many``)

**The action of a step is what was carried out**: guards and limits may restrain a proposal, and a teacher may resize in
between. If the plan grew since the last decision it was a scale-out, if it shrank a scale-in.

**Safety.** The agent proposes, and the guards of the loop restrain. It does not explore while rows in its window are
later than the SLO allows. Without a finished batch in the window it holds. While latency is below the target, it also
holds as long as a change is under way: its effect is not known yet, and the next action would be a guess.

During ``valueIterationInitializationTime`` the agent follows its initial table and only counts. Then value iteration
sets the table (``learning``), and learning goes on from there.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Annotated

import msgspec

from ebbflow.core.decision import Constraint, Decision, Rounded, hold, want
from ebbflow.core.limits import Limits
from ebbflow.core.parameters import Choice, Duration, File, Kind, Number, Share, Whole, check_order
from ebbflow.core.periods import Every
from ebbflow.core.plural import counted
from ebbflow.core.ports import Strategy
from ebbflow.core.snapshot import Snapshot
from ebbflow.errors import InputError
from ebbflow.strategies import make_strategy
from ebbflow.strategies.learner import table_file
from ebbflow.strategies.learner.how_many import EXECUTOR_STRATEGIES, make_how_many
from ebbflow.strategies.learner.initial import initialiser
from ebbflow.strategies.learner.learning import LEARNING, Next, iterate_values
from ebbflow.strategies.learner.policies import (
    POLICIES,
    Probabilities,
    Situation,
    best_action,
    choose,
    feasible_actions,
    make_policy,
)
from ebbflow.strategies.learner.q_table import Entry, QTable
from ebbflow.strategies.learner.rewards import REWARDS, TABLES, reward
from ebbflow.strategies.learner.state import Action, Direction, State, StateSpace
from ebbflow.strategies.learner.teacher import beats, quantile
from ebbflow.strategies.learner.window import LatencyWindow, WindowMeans

log = logging.getLogger(__name__)

FORMULA = "a = argmax Q(s, ·) after the monotonicity constraint; n' = n ± step(a)"
DIGITS: dict[str, int | None] = {
    "latency_s": 2, "messages_per_s": 1, "n": 3, "q_out": 3, "q_in": 3, "q_none": 3, "freshness_s": 2,
}  # fmt: skip
_GAP = 2.5
"""After this many decision intervals without a snapshot, the step is not learned from: what happened is unknown."""
_VERBS = {Action.OUT: "scale out", Action.IN: "scale in", Action.NONE: "no action"}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Step:
    """The last decision, for learning from what follows."""

    state: State
    nodes: int
    """Planned before it."""
    measured: WindowMeans


@dataclass(frozen=True, kw_only=True, slots=True)
class _Chosen:
    """An action, and who chose it."""

    action: Action
    why: str
    taught: bool = False
    explored: bool = False


class Learner(Strategy):
    """A reinforcement learning agent. The parameters of Table 5.4 have the names they have there.

    >>> Learner(latencyGranularity=2.0, teacher="capacity").name
    'learner'
    >>> Learner(targetLatency=60.0)
    Traceback (most recent call last):
    ...
    ebbflow.errors.InputError: targetLatency is 60 and maxLatency is 30; targetLatency must be at most maxLatency
    """

    name = "learner"
    spark_prefix = "spark.streaming.dynamicAllocation."

    def __init__(
        self,
        *,
        minExecutors: Annotated[
            int | None,
            Whole("Fewest executors; the limits of the run apply too.", at_least=1, unit="executors"),
        ] = None,
        maxExecutors: Annotated[
            int | None,
            Whole("Most executors; the limits of the run apply too.", at_least=1, unit="executors"),
        ] = None,
        executorGranularity: Annotated[
            int, Whole("Executors to add or remove in a single step.", at_least=1, unit="executors")
        ] = 1,
        maxLatency: Annotated[
            float, Duration("Latency up to which states differ; everything beyond is one state.", above=0)
        ] = 30.0,
        targetLatency: Annotated[
            float,
            Duration(
                "Acceptable total latency of a batch, scheduling and processing. A row also waits for its batch, so "
                "keep it well below the SLO.",
                above=0,
            ),
        ] = 8.0,
        latencyGranularity: Annotated[float, Duration("Latency of one step of the states.", above=0)] = 0.5,
        incomingMessageGranularity: Annotated[
            float | None,
            Number(
                "Incoming messages of one step of the states. Unset: only their direction is part of a state.",
                above=0,
                unit="rows/s",
            ),
        ] = None,
        windowSize: Annotated[
            float, Duration("Sliding window over which latency and messages are averaged.", above=0)
        ] = 10.0,
        learningFactor: Annotated[float, Share("How much a new experience weighs: α.")] = 0.03,
        discountFactor: Annotated[
            float, Number("How much future rewards count: γ.", above=0, below=1, unit="share")
        ] = 0.5,
        initializationMode: Annotated[
            str,
            Choice(
                "Initial values of the table.",
                ("zero", "random", "optimal"),
                aliases={"optimized": "optimal", "optimised": "optimal"},
            ),
        ] = "optimal",
        epsilon: Annotated[
            float,
            Number(
                "Share of random actions of the two policies that explore.",
                at_least=0,
                at_most=1,
                unit="share",
            ),
        ] = 0.1,
        epsilonStep: Annotated[
            float,
            Number(
                "By how much epsilon falls with each decision of the decreasing policy.",
                at_least=0,
                unit="share",
            ),
        ] = 0.0001,
        valueIterationInitializationCount: Annotated[
            int, Whole("Most sweeps of value iteration.", at_least=1, unit="sweeps")
        ] = 1000,
        valueIterationInitializationTime: Annotated[
            float, Duration("How long to count transitions before value iteration. 0s: no value iteration.")
        ] = 0.0,
        policy: Annotated[
            str,
            Choice("Policy function.", POLICIES, aliases={"decreasing": "decreasing-one-minus-epsilon"}),
        ] = "decreasing-one-minus-epsilon",
        reward: Annotated[str, Choice("Reward function.", REWARDS)] = "prefer-scale-in",
        decisionInterval: Annotated[float, Duration("Time between two decisions.", above=0)] = 10.0,
        executorStrategy: Annotated[
            str,
            Choice(
                "How many executors an action adds or removes.",
                EXECUTOR_STRATEGIES,
                aliases={"queue-aware": "relative"},
            ),
        ] = "relative",
        seed: Annotated[int, Whole("Seed of random values and actions.", at_least=0)] = 1,
        learning: Annotated[str, Choice("Learning rule.", tuple(LEARNING))] = "sarsa",
        epsilonByRegion: Annotated[
            str, Kind("Factors of epsilon in the regions 1 to 4; 1,0,0,1 never explores above the target.")
        ] = "1,1,1,1",
        teacher: Annotated[
            str | Strategy | None,
            Kind("Strategy to imitate until the agent knows better, like capacity. Unset: none."),
        ] = None,
        confidence: Annotated[
            float,
            Number(
                "How certain it must be that an action is better than the teacher's before the agent takes it.",
                above=0,
                below=1,
                unit="share",
            ),
        ] = 0.95,
        table: Annotated[
            Path | None,
            File("Table to continue from. On Spark it is also kept there while the job runs."),
        ] = None,
    ) -> None:
        if minExecutors is not None and maxExecutors is not None:
            check_order("minExecutors", minExecutors, "maxExecutors", maxExecutors)
        self._space = StateSpace(
            granularity_s=latencyGranularity,
            max_latency_s=maxLatency,
            target_latency_s=targetLatency,
            messages_per_state=incomingMessageGranularity,
        )
        self._parameters: dict[str, float | int | str | None] = {
            "latencyGranularity": float(latencyGranularity),
            "maxLatency": float(maxLatency),
            "targetLatency": float(targetLatency),
            "incomingMessageGranularity": incomingMessageGranularity,
            "windowSize": float(windowSize),
            "decisionInterval": float(decisionInterval),
            "discountFactor": float(discountFactor),
            "reward": reward,
            "executorStrategy": executorStrategy,
            "executorGranularity": executorGranularity,
        }
        self._bounds = (minExecutors, maxExecutors)
        self._rng = Random(seed)
        self._table = QTable(initialiser(initializationMode, self._space, self._rng))
        self._policy = make_policy(
            policy, epsilon=epsilon, step=epsilonStep, factors=_factors(epsilonByRegion)
        )
        self._rewards = TABLES[reward]
        self._next_value = LEARNING[learning]
        self._learning_factor, self._discount = learningFactor, discountFactor
        self._how_many = make_how_many(executorStrategy, executorGranularity)
        self._interval_s = decisionInterval
        self._collect_s, self._sweeps = valueIterationInitializationTime, valueIterationInitializationCount
        self._teacher = _teacher(teacher)
        self._z = quantile(confidence)
        self._window = LatencyWindow(windowSize, targetLatency)
        self._every = Every(decisionInterval)
        self._decisions = 0
        self._last: _Step | None = None
        self._chosen = _Chosen(action=Action.NONE, why="nothing is decided yet", taught=True)
        self._due = False
        self._seen_s = float("-inf")
        self._changed = False
        self._file = None if table is None else Path(table)
        if self._file is not None:
            self._read(self._file)

    # -- deciding ------------------------------------------------------------------------------------------

    def decide(self, snapshot: Snapshot) -> Decision:
        """Learn and choose once per interval; hold in between, or let the teacher decide if this interval is its."""
        self._window.add(snapshot)
        teachers = None if self._teacher is None else self._teacher.decide(snapshot)
        if snapshot.now_s - self._seen_s > _GAP * self._interval_s:
            self._last = None
        self._seen_s = snapshot.now_s
        self._due = bool(self._every.due(snapshot.now_s)) or self._due
        if not self._due:
            left_s = self._every.left_s(snapshot.now_s)
            return self._between(snapshot, teachers, f"{left_s:.0f} s to the next decision")
        measured = self._window.measure(snapshot)
        if measured is None:
            return self._between(snapshot, teachers, "no data: no batch at the present size has ended")
        if snapshot.under_way and measured.latency_s < self._target_s:
            return self._between(snapshot, teachers, "waiting for the change under way to take effect")
        self._due = False
        return self._decide(snapshot, measured, teachers)

    def _decide(self, snapshot: Snapshot, measured: WindowMeans, teachers: Decision | None) -> Decision:
        last = self._last
        if last is None:  # nothing to compare with: above the target, the cautious guess
            direction = Direction.RISING if measured.latency_s >= self._target_s else Direction.FALLING
        else:
            before = last.measured
            direction = Direction.of(
                (before.messages_per_s, measured.messages_per_s), (before.latency_s, measured.latency_s)
            )
        state = self._space.state(measured.latency_s, measured.messages_per_s, direction)
        carried_out = None if last is None else _change(last.nodes, snapshot.planned.main_nodes)
        entry = self._table[state]
        broken = measured.freshness_s > snapshot.slo.freshness_s
        situation = Situation(
            values=entry.values,
            feasible=feasible_actions(state, None if last is None else last.state, carried_out),
            region=self._space.region(state),
            decisions=self._decisions,
            may_explore=not broken,
        )
        probabilities = self._policy.probabilities(situation)
        self._chosen = self._choose(snapshot, entry, situation, probabilities, teachers, broken=broken)
        if last is not None and carried_out is not None:
            ahead = Next(
                values=entry.values,
                action=self._chosen.action,
                probabilities=probabilities,
                feasible=situation.feasible,
            )
            self._learn(last.state, carried_out, state, ahead)
        self._last = _Step(
            state=state,
            nodes=snapshot.planned.main_nodes,
            measured=measured,
        )
        self._count_decision()
        if self._chosen.taught and teachers is not None:
            return self._taught(snapshot, teachers)
        return self._proposal(snapshot, measured, state, entry)

    def _choose(
        self,
        snapshot: Snapshot,
        entry: Entry,
        situation: Situation,
        probabilities: Probabilities,
        teachers: Decision | None,
        *,
        broken: bool,
    ) -> _Chosen:
        best = best_action(situation)
        action = choose(probabilities, self._rng)
        explored = action is not best
        own = _Chosen(action=action, why="explores" if explored else "best value", explored=explored)
        if teachers is None:
            return own
        taught = _change(snapshot.planned.main_nodes, teachers.wanted.main_nodes)
        if broken:
            return _Chosen(action=taught, why="the SLO is broken", taught=True)
        if action is taught:
            return _Chosen(action=taught, why="the agent agrees", taught=True)
        if explored and taught is not Action.OUT:
            return own
        if not explored and beats(entry, action, taught, learning_factor=self._learning_factor, z=self._z):
            return _Chosen(action=action, why="better than the teacher's action with confidence")
        return _Chosen(action=taught, why="the agent is not certain of better", taught=True)

    def _between(self, snapshot: Snapshot, teachers: Decision | None, why: str) -> Decision:
        """A decision of the loop at a time at which the agent has none to make."""
        if teachers is not None:
            rescue = self._chosen.explored and teachers.wanted.main_nodes > snapshot.planned.main_nodes
            if self._chosen.taught or rescue:
                return self._taught(snapshot, teachers)
        return hold(snapshot, why, FORMULA)

    def _proposal(self, snapshot: Snapshot, measured: WindowMeans, state: State, entry: Entry) -> Decision:
        chosen, planned = self._chosen, snapshot.planned.main_nodes
        step = self._how_many.step(chosen.action, measured.waiting_batches)
        wanted = planned + (step if chosen.action is Action.OUT else -step)
        n, region = self._space.ratio(state), self._space.region(state)
        inputs = Rounded(
            {
                "latency_s": measured.latency_s,
                "messages_per_s": measured.messages_per_s,
                "freshness_s": measured.freshness_s,
                "load": state.direction.value,
                "region": int(region),
                "n": n,
                "q_out": entry.values[Action.OUT],
                "q_in": entry.values[Action.IN],
                "q_none": entry.values[Action.NONE],
                "visits": sum(entry.visits),
                "waiting_batches": measured.waiting_batches,
                "decisions": self._decisions,
            },
            DIGITS,
        )
        verb = _VERBS[chosen.action]
        by = f" by {counted(step, 'executor')}" if step else ""
        reason = (
            f"region {int(region)}: latency of {measured.latency_s:.1f} s is {measured.latency_s / self._target_s:.0%} "
            f"of the target and the load is {state.direction}: {verb}{by} ({chosen.why})"
        )
        return self._bounded(snapshot, want(snapshot, wanted, reason, FORMULA, inputs))

    def _taught(self, snapshot: Snapshot, teachers: Decision) -> Decision:
        """The teacher's decision, marked as such."""
        assert self._teacher is not None
        reason = f"the teacher {self._teacher.name} decides, because {self._chosen.why}: {teachers.reason}"
        decision = msgspec.structs.replace(teachers, reason=reason, formula=teachers.formula or FORMULA)
        return self._bounded(snapshot, decision)

    def _bounded(self, snapshot: Snapshot, decision: Decision) -> Decision:
        """The decision within ``minExecutors`` and ``maxExecutors``, as far as the limits of the run allow them."""
        fewest, most = self._bounds
        low = snapshot.limits.clamp(fewest or snapshot.limits.min_nodes)
        limits = Limits(
            min_nodes=low, max_nodes=max(low, snapshot.limits.clamp(most or snapshot.limits.max_nodes))
        )
        nodes = limits.clamp(decision.wanted.main_nodes)
        if nodes == decision.wanted.main_nodes:
            return decision
        why = f"{counted(decision.wanted.main_nodes, 'executor')} wanted, {limits} allowed by the parameters"
        bound = Constraint(name="executors", why=why)
        return msgspec.structs.replace(
            decision,
            wanted=decision.wanted.with_nodes(nodes),
            bound_by=(*decision.bound_by, bound),
            expected=None,
        )

    @property
    def _target_s(self) -> float:
        return self._space.target_latency_s

    # -- learning ------------------------------------------------------------------------------------------

    @property
    def _collecting(self) -> bool:
        """Whether samples for value iteration are being counted."""
        return self._decisions * self._interval_s < self._collect_s

    def _learn(self, before: State, action: Action, state: State, ahead: Next) -> None:
        """Equation 5.7, and line 7 of Algorithm 3."""
        got = reward(
            self._rewards,
            self._space.region_after(before, state),
            before.direction,
            action,
            self._space.ratio(state),
        )
        entry = self._table[before]
        entry.count(action, got, state)
        if not self._collecting:
            entry.learn(action, got + self._discount * self._next_value(ahead), self._learning_factor)
        self._changed = True

    def _count_decision(self) -> None:
        collecting = self._collecting
        self._decisions += 1
        self._changed = True
        if collecting and not self._collecting:
            iterate_values(self._table, self._discount, most_sweeps=self._sweeps)

    # -- remembering ---------------------------------------------------------------------------------------

    @property
    def state_file(self) -> Path | None:
        """The file of the parameter ``table``."""
        return self._file

    def state(self) -> str | None:
        """The table as text; None if it has not changed since the last call."""
        if not self._changed:
            return None
        self._changed = False
        return table_file.to_text(self._table, self._space, self._parameters, self._decisions)

    def restore(self, state: str) -> None:
        """Continue from the text of a table."""
        self._take(table_file.from_text(state, "the table"), "the table")

    def _read(self, path: Path) -> None:
        if not path.exists():
            if not path.absolute().parent.is_dir():
                raise InputError(f"table: there is no folder {path.absolute().parent} for {path.name}")
            log.warning("there is no table %s yet; learner starts a new one", path)
            return
        self._take(table_file.read(path), str(path))

    def _take(self, stored: table_file.StoredTable, where: str) -> None:
        for state, entry in table_file.fitting(stored, self._parameters, where).items():
            self._table[state] = entry
        self._decisions = stored.decisions


def _change(before: int, after: int) -> Action:
    """The action that turns one number of executors into another."""
    return Action.NONE if after == before else Action.OUT if after > before else Action.IN


def _factors(text: str) -> tuple[float, ...]:
    """The four numbers of ``epsilonByRegion``.

    >>> _factors("1, 0,0,0.5")
    (1.0, 0.0, 0.0, 0.5)
    """
    try:
        factors = tuple(float(part) for part in text.split(","))
    except ValueError:
        factors = ()
    if len(factors) != 4 or not all(0 <= factor <= 1 for factor in factors):
        raise InputError(f"epsilonByRegion is '{text}'; it must be four numbers from 0 to 1, like 1,0,0,1")
    return factors


def _teacher(teacher: str | Strategy | None) -> Strategy | None:
    made = make_strategy(teacher) if isinstance(teacher, str) else teacher
    if isinstance(made, Learner):
        raise InputError("teacher is a learner itself; name a strategy that knows what to do, like capacity")
    return made
