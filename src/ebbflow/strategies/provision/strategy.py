"""Provision: nodes for every cluster from its load, within a capacity over all of them (DoDo, §7; Algorithm 2).

Every ``period_s`` the loads are measured as for ``balance``. ``sizing`` says how many nodes a cluster needs:

- ``thresholds``: Algorithm 2, from the mean load of the last ``periods``. After a change, a cluster waits until its new
  nodes work and their launch time has passed, or ``shutdown_s``. The thesis sleeps, for all clusters; here the others
  go on.
- ``capacity``: our ``capacity`` strategy for each cluster by itself. It sizes for the rate when new nodes will have
  joined and for the backlog, by the objective of freshness, instead of for the present load by a threshold.

If all clusters together may have no more nodes, the last go to the highest loads. With ``capacity``, nodes of a cluster
are then released for another, if that lowers the highest load by a tenth. A node counts until it is released.

When no nodes are under way, operators are balanced over the clusters by Algorithm 1, as ``balance`` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from ebbflow.core.decision import Constraint, Decision, hold
from ebbflow.core.layout import Layout
from ebbflow.core.parameters import Choice, Duration, Flag, Part, Share, Whole, check_order
from ebbflow.core.ports import DecidesOn, Strategy
from ebbflow.core.snapshot import ActionKind, Snapshot
from ebbflow.strategies.balance.algorithm_one import Thresholds
from ebbflow.strategies.balance.loads import Loads, LoadSeries
from ebbflow.strategies.balance.strategy import Balancer, MoveCosts, moves_reason, why_busy, with_moves
from ebbflow.strategies.provision.algorithm_two import even_loads, nodes_to_add, nodes_to_remove, share_out
from ebbflow.strategies.provision.per_cluster import ClusterSizing

THRESHOLDS, CAPACITY = "thresholds", "capacity"
FORMULA = "add I·(ES − max)/max nodes if ES > max; remove I·(k·max − ES)/(k·max) if ES < min and I > 2"
MODEL = "for each cluster the nodes that capacity finds"
WORTH = 0.1
"""How much lower the highest load must become for nodes to go from one cluster to another."""


class Provision(Strategy):
    """Sizes every cluster and balances operators over them. The module docstring has the rules."""

    name = "provision"
    decides_on = DecidesOn.READINGS
    handles_clusters = True

    def __init__(
        self,
        *,
        sizing: Annotated[
            str,
            Choice("How nodes are counted: Algorithm 2, or the model of capacity.", (THRESHOLDS, CAPACITY)),
        ] = CAPACITY,
        max_load: Annotated[float, Share("Mean load of a node above which nodes are added.")] = 0.8,
        min_load: Annotated[float, Share("Mean load of a node below which nodes are removed.")] = 0.3,
        ideal: Annotated[float, Share("Load of a node after a removal, as a share of max_load (k).")] = 0.75,
        most_nodes: Annotated[
            int | None,
            Whole(
                "Most nodes of all clusters together.",
                unit="nodes",
                at_least=1,
                unset="the maximum of each cluster",
            ),
        ] = None,
        shutdown_s: Annotated[
            float, Duration("How long a cluster waits after a removal before it changes again.")
        ] = 30.0,
        balance: Annotated[bool, Flag("Whether operators are moved as well.")] = True,
        thresholds: Annotated[Thresholds | None, Part(Thresholds)] = None,
        costs: Annotated[MoveCosts | None, Part(MoveCosts)] = None,
        period_s: Annotated[float, Duration("Length of a period of the load series.", above=0)] = 15.0,
        periods: Annotated[int, Whole("Periods that the means and correlations cover (k).", at_least=1)] = 4,
    ) -> None:
        # Algorithm 2 has its own waits; the sizes of the model are restrained as those of capacity are
        self.brings_own_guards = sizing == THRESHOLDS
        check_order("min_load", min_load, "max_load", max_load)
        self._max_load, self._min_load, self._ideal_load = max_load, min_load, ideal * max_load
        self._most_nodes, self._shutdown_s = most_nodes, shutdown_s
        self._balancer = Balancer(thresholds or Thresholds(), costs or MoveCosts()) if balance else None
        self._series = LoadSeries(period_s=period_s, periods=periods)
        self._model = ClusterSizing() if sizing == CAPACITY else None
        self._formula = FORMULA if self._model is None else MODEL
        self._waits_until_s: dict[str, float] = {}

    def decide(self, snapshot: Snapshot) -> Decision:
        """Size the clusters at the end of each period; if none changes, balance the operators."""
        sizes: dict[str, int] = {}
        if self._model is not None:  # it learns from every snapshot
            for cluster in snapshot.planned.nodes:
                decision = self._model.decide(snapshot, cluster)
                if decision is not None:
                    sizes[cluster] = decision.wanted.main_nodes
        if any(action.kind is ActionKind.RESTART for action in snapshot.under_way):
            self._series.restart_period(snapshot)
            return hold(
                snapshot, "operators are moving or restarting; loads are measured afterwards", self._formula
            )
        if waiting := self._series.update(snapshot):
            return hold(snapshot, waiting, self._formula)
        nodes = {name: max(1, count) for name, count in snapshot.observed.nodes.items()}
        loads = self._series.loads(snapshot.planned, nodes)
        means = dict(zip(loads.clusters, loads.means.tolist(), strict=True))
        inputs: dict[str, float | str] = {f"load of {name}": round(load, 3) for name, load in means.items()}
        if self._model is None:
            sizes = self._by_thresholds(snapshot, means)
        wanted, bound = self._within_capacity(snapshot, sizes, means, nodes)
        changed = {name: (snapshot.planned.nodes[name], n) for name, n in wanted.items()}
        changed = {name: (old, new) for name, (old, new) in changed.items() if old != new}
        if changed:
            return self._resized(snapshot, changed, means, inputs, bound)
        return self._balanced(snapshot, loads, inputs, bound)

    # -- sizing ----------------------------------------------------------------------------------

    def _by_thresholds(self, snapshot: Snapshot, means: Mapping[str, float]) -> dict[str, int]:
        """Algorithm 2 for the clusters that wait for nothing."""
        sizes = {}
        joining = {a.cluster for a in snapshot.under_way if a.kind in (ActionKind.GROW, ActionKind.SHRINK)}
        for name, now in snapshot.planned.nodes.items():
            sizes[name] = now
            if name in joining or snapshot.now_s < self._waits_until_s.get(name, 0.0):
                continue
            sizes[name] += nodes_to_add(now, means[name], self._max_load)
            sizes[name] -= nodes_to_remove(
                now, means[name], min_load=self._min_load, ideal_load=self._ideal_load
            )
        return sizes

    def _within_capacity(
        self,
        snapshot: Snapshot,
        sizes: Mapping[str, int],
        means: Mapping[str, float],
        nodes: Mapping[str, int],
    ) -> tuple[dict[str, int], tuple[Constraint, ...]]:
        """The sizes, or as much of them as the limits and the capacity over all clusters allow."""
        planned = snapshot.planned.nodes
        wanted = {name: snapshot.limits_of(name).clamp(sizes.get(name, now)) for name, now in planned.items()}
        most = self._most_nodes
        # nodes to be released count until they are: a guard may keep them
        if most is None or sum(max(now, wanted[name]) for name, now in planned.items()) <= most:
            return wanted, ()
        total = sum(wanted.values())
        bound = (Constraint(name="most_nodes", why=f"{total} nodes wanted, {most} allowed in all clusters"),)
        work = {name: means[name] * nodes[name] for name in planned}
        given = share_out(wanted, planned, work, most)
        for name, now in planned.items():
            if wanted[name] < now:
                given[name] = wanted[name]
        if self._model is None or snapshot.under_way or total <= most:
            return given, bound
        even = even_loads(wanted, work, most)
        if _highest(even, work) < (1 - WORTH) * _highest(given, work):
            # release first; the next decision gives the nodes to the highest load
            return {name: min(now, even[name]) for name, now in planned.items()}, bound
        return given, bound

    def _resized(
        self,
        snapshot: Snapshot,
        changed: Mapping[str, tuple[int, int]],
        means: Mapping[str, float],
        inputs: Mapping[str, float | str],
        bound: tuple[Constraint, ...],
    ) -> Decision:
        wanted: Layout = snapshot.planned
        parts = []
        for name, (old, new) in changed.items():
            wanted = wanted.with_nodes(new, name)
            wait_s = snapshot.lead_time_s if new > old else self._shutdown_s
            self._waits_until_s[name] = snapshot.now_s + wait_s
            after = means[name] * max(1, snapshot.observed.nodes.get(name, 0)) / new
            parts.append(f"{name} {old} → {new}: its load of {means[name]:.2f} becomes {after:.2f}")
        return Decision(
            wanted=wanted, reason="; ".join(parts), formula=self._formula, inputs=inputs, bound_by=bound
        )

    # -- balancing -------------------------------------------------------------------------------

    def _balanced(
        self,
        snapshot: Snapshot,
        loads: Loads,
        inputs: Mapping[str, float | str],
        bound: tuple[Constraint, ...],
    ) -> Decision:
        right = "sizes are right"
        if self._balancer is None or len(loads.clusters) < 2 or why_busy(snapshot):
            return Decision(
                wanted=snapshot.planned, reason=right, formula=self._formula, inputs=inputs, bound_by=bound
            )
        moves = self._balancer.moves(snapshot, loads)
        if not moves:
            return Decision(
                wanted=snapshot.planned,
                reason=f"{right}, and no move is worth it",
                formula=self._formula,
                inputs=inputs,
                bound_by=bound,
            )
        self._balancer.note(snapshot, [move.operator for move in moves])
        return Decision(
            wanted=with_moves(snapshot, {move.operator: move.target for move in moves}, loads.operators),
            reason=moves_reason(moves),
            formula=self._formula,
            inputs=inputs,
            bound_by=bound,
        )


def _highest(nodes: Mapping[str, int], work: Mapping[str, float]) -> float:
    """The highest load of a cluster with these nodes."""
    return max((work[name] / count for name, count in nodes.items() if count), default=0.0)
