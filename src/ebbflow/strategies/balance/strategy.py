"""Balance: operators move from the most loaded cluster to the least loaded one (DoDo, §6; Algorithm 1).

Every ``period_s`` the load of each operator is measured, s = λ·p, and the load of each cluster, Σ s / N. The means of
the last ``periods`` decide. Nodes stay as they are; ``provision`` changes them as well.

Three additions to the paper keep moves rare, because each stops an operator:

- **Cost.** A move must relieve the cluster that it leaves by more node-seconds in ``horizon_s`` than wait while the
  operator is stopped: (peak before − peak after) · N₁ · horizon > s · (down-time + state ÷ speed). The down-time is
  that of the last restart, once one was measured. All moves between two clusters together must relieve the one by a
  tenth of the difference.
- **Hysteresis.** An operator that moved stays for ``stay_s``. Nothing moves while a move or new nodes are under way.
- **Initial placement** (``initial=greedy``): once loads are known, operators are placed by greedy number partitioning
  weighted by nodes (§6.2.1), if that lowers the highest load by more than the threshold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.core.decision import Decision, hold
from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.parameters import Choice, Duration, Number, Part, Whole
from ebbflow.core.plural import counted
from ebbflow.core.ports import DecidesOn, Strategy
from ebbflow.core.snapshot import ActionKind, Snapshot
from ebbflow.strategies.balance.algorithm_one import Move, Thresholds, plan
from ebbflow.strategies.balance.loads import Loads, LoadSeries, followers
from ebbflow.strategies.balance.partitioning import partition

FORMULA = "move P from C₁ to C₂ while (s_P + moved)/N₂ < (ES_C1 − ES_C2)/2, if ES_C1 − ES_C2 > threshold"
WITHOUT_CAPACITY = "move the P of C₁ with the largest (ρ(P, C₁) − ρ(P, C₂))/2, if ES_C1 − ES_C2 > threshold"
INITIAL = "operators in decreasing order of load, each to argmin (Σ s + s_P)/N"
KEEP, GREEDY = "keep", "greedy"


@dataclass(frozen=True, kw_only=True)
class MoveCosts:
    """What a move costs, and how long an operator stays."""

    stay_s: Annotated[float, Duration("How long an operator that moved stays before it may move again.")] = (
        1800.0
    )
    downtime_s: Annotated[
        float, Duration("Assumed down-time of an operator in a move, until a restart was measured.")
    ] = 5.0
    reload_mb_per_s: Annotated[
        float, Number("Speed at which the state of an operator is loaded after a move.", unit="MB/s", above=0)
    ] = 50.0
    horizon_s: Annotated[
        float, Duration("Time within which the relief by a move must exceed its cost.", above=0)
    ] = 600.0


class Balancer:
    """Plans moves, and remembers when operators moved; for ``balance`` and ``provision``."""

    def __init__(self, thresholds: Thresholds, costs: MoveCosts) -> None:
        self.thresholds, self.costs = thresholds, costs
        self._moved_s: dict[str, float] = {}

    def moves(self, snapshot: Snapshot, loads: Loads) -> list[Move]:
        """The moves of one assessment, by Algorithm 1."""
        fixed = {operator.name for operator in snapshot.pipeline.operators if not operator.may_move}
        movable = np.array(
            [
                name not in fixed and snapshot.now_s - self._moved_s.get(name, -np.inf) >= self.costs.stay_s
                for name in loads.operators
            ],
            dtype=np.float64,
        )
        return plan(loads, self.thresholds, movable=movable, price=self._prices(snapshot, loads))

    def _prices(self, snapshot: Snapshot, loads: Loads) -> Floats:
        """For each operator: s · (down-time + reload time) ÷ horizon."""
        stopped_s = np.array([self.stopped_s(snapshot, name) for name in loads.operators])
        return np.asarray(loads.operator_means * stopped_s / self.costs.horizon_s)

    def stopped_s(self, snapshot: Snapshot, operator: str) -> float:
        """How long a move would stop an operator."""
        windows = snapshot.windows
        query = next((each.query for each in snapshot.pipeline.operators if each.name == operator), "")
        downtime_s = self.costs.downtime_s
        for subject in (operator, query, snapshot.pipeline.name):
            stop = windows.of(subject, Metric.RESTART_STOP).last
            start = windows.of(subject, Metric.RESTART_START).last
            if stop is not None and start is not None:
                downtime_s = stop + start
                break
        state = windows.of(operator, Metric.STATE_SIZE).last or 0.0
        return downtime_s + state / 1e6 / self.costs.reload_mb_per_s

    def note(self, snapshot: Snapshot, operators: Sequence[str]) -> None:
        """Remember that operators move now."""
        self._moved_s.update(dict.fromkeys(operators, snapshot.now_s))


class Balance(Strategy):
    """Moves operators between clusters. The module docstring has the rule."""

    name = "balance"
    brings_own_guards = True
    decides_on = DecidesOn.READINGS
    handles_clusters = True

    def __init__(
        self,
        *,
        thresholds: Annotated[Thresholds | None, Part(Thresholds)] = None,
        costs: Annotated[MoveCosts | None, Part(MoveCosts)] = None,
        period_s: Annotated[float, Duration("Length of a period of the load series.", above=0)] = 30.0,
        periods: Annotated[int, Whole("Periods that the means and correlations cover (k).", at_least=1)] = 10,
        initial: Annotated[
            str,
            Choice(
                "Placement to begin with: the present one, or one by greedy partitioning.", (KEEP, GREEDY)
            ),
        ] = KEEP,
    ) -> None:
        self._balancer = Balancer(thresholds or Thresholds(), costs or MoveCosts())
        self._series = LoadSeries(period_s=period_s, periods=periods)
        self._place = initial == GREEDY
        self._formula = FORMULA if self._balancer.thresholds.capacity else WITHOUT_CAPACITY

    def decide(self, snapshot: Snapshot) -> Decision:
        """Assess at the end of each period."""
        nodes = snapshot.observed.nodes
        if len(nodes) < 2:
            return hold(snapshot, "there is only one cluster, hence nothing to balance", self._formula)
        if busy := why_busy(snapshot):
            self._series.restart_period(snapshot)
            return hold(snapshot, busy, self._formula)
        if waiting := self._series.update(snapshot):
            return hold(snapshot, waiting, self._formula)
        loads = self._series.loads(snapshot.planned, nodes)
        if self._place:
            self._place = False
            if placed := self._initial(snapshot, loads):
                return placed
        moves = self._balancer.moves(snapshot, loads)
        inputs = {
            f"load of {name}": round(float(load), 3)
            for name, load in zip(loads.clusters, loads.means, strict=True)
        }
        if not moves:
            return hold(snapshot, balanced_reason(loads), self._formula, inputs)
        self._balancer.note(snapshot, [move.operator for move in moves])
        return Decision(
            wanted=with_moves(snapshot, {move.operator: move.target for move in moves}, loads.operators),
            reason=moves_reason(moves),
            formula=self._formula,
            inputs=inputs | {f"load of {move.operator}": round(move.load, 3) for move in moves},
        )

    def _initial(self, snapshot: Snapshot, loads: Loads) -> Decision | None:
        """The greedy placement, if it lowers the highest load by more than the threshold."""
        fixed = {operator.name for operator in snapshot.pipeline.operators if not operator.may_move}
        here = {
            name: loads.clusters[where] for name, where in zip(loads.operators, loads.placed, strict=True)
        }
        size = dict(zip(loads.operators, loads.operator_means.tolist(), strict=True))
        wanted = partition(
            size, snapshot.observed.nodes, {name: here[name] for name in loads.operators if name in fixed}
        )
        index = {name: k for k, name in enumerate(loads.clusters)}
        after = loads.moved(np.array([index[wanted[name]] for name in loads.operators], dtype=np.int64))
        before_max, after_max = float(loads.means.max()), float(after.means.max())
        if not before_max - after_max > self._balancer.thresholds.load_threshold:
            return None
        moved = {name: wanted[name] for name in loads.operators if wanted[name] != here[name]}
        self._balancer.note(snapshot, list(moved))
        return Decision(
            wanted=with_moves(snapshot, moved, loads.operators),
            reason=f"initial placement: {counted(len(moved), 'operator')} to the cluster with the most free capacity; "
            f"highest load {before_max:.2f} → {after_max:.2f}",
            formula=INITIAL,
            inputs={f"load of {name}": round(load, 3) for name, load in size.items()},
        )


def why_busy(snapshot: Snapshot) -> str:
    """Why nothing may move now; empty if operators may."""
    for action in snapshot.under_way:
        if action.kind is ActionKind.RESTART:
            return "operators are moving or restarting; loads are measured again afterwards"
        if action.kind is ActionKind.GROW:
            return f"{counted(action.nodes, 'node')} on the way to {action.cluster}; moves wait for them"
    if snapshot.observed.placement != snapshot.planned.placement:
        return "a move is under way"
    return ""


def with_moves(snapshot: Snapshot, moved: Mapping[str, str], leaders: Sequence[str]) -> Layout:
    """The planned layout with operators, and those that move with them, in other clusters."""
    along = followers(snapshot, leaders)
    planned = snapshot.planned
    placement = dict(planned.placement)
    for name, cluster in moved.items():
        for each in (name, *along[name]):
            placement[each] = cluster
    if MAIN in planned.nodes:  # the default, which layouts leave out
        placement = {name: cluster for name, cluster in placement.items() if cluster != MAIN}
    return Layout(nodes=planned.nodes, parallelism=planned.parallelism, placement=placement)


def moves_reason(moves: Sequence[Move]) -> str:
    """Why operators move."""
    parts = [
        f"{move.operator} moves from {move.source} to {move.target}: loads {move.source_load:.2f} and "
        f"{move.target_load:.2f} become {move.source_after:.2f} and {move.target_after:.2f}"
        for move in moves
    ]
    return "; ".join(parts)


def balanced_reason(loads: Loads) -> str:
    """Why nothing moves."""
    low, high = float(loads.means.min()), float(loads.means.max())
    return f"no move is worth it: loads of the clusters from {low:.2f} to {high:.2f}"
