"""Joint scaling: operators and nodes as one dimension, one step at a time. Elysium's baseline (§5.2, after SEEP).

    an operator is scaled out  → one more node, however busy the nodes are
    an operator is scaled in   → the nodes stay
    no operator is scaled      → one more node if one is over cpu_max, one less if the others can take its work

Once per assessment period, by the mean CPU of instances and nodes since the last one: an operator over core_max gets
one more instance, one below core_min one less.

On batches an instance is a task. A task that waits, for a lookup say, uses no CPU but holds its slot. So an operator is
judged by its CPU or by the share of the time that its tasks run, whichever is larger:

    share of an instance = Σ task time of its stage / (tasks · max(duration, trigger))

With fewer slots than tasks these take turns, and both are small however much there is to do. So no operator is scaled
in while a backlog remains or the slots are over cpu_max. For the same reason the nodes are judged by their CPU or by
the busy share of their slots, whichever is larger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Annotated

from ebbflow.core.batches import Batch
from ebbflow.core.decision import Decision, hold, want
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.parameters import Duration, Part, Whole
from ebbflow.core.periods import Every
from ebbflow.core.plural import counted
from ebbflow.core.ports import Strategy
from ebbflow.core.signals import Signals
from ebbflow.core.snapshot import STALE_AFTER_S, ActionKind, Snapshot
from ebbflow.errors import InputError
from ebbflow.profiling.batch.stage_match import ObservedStage, StageMatch
from ebbflow.strategies.symbiotic.algorithm_one import SLACK, Dimensions, UsageThresholds

FORMULA = "any p_i + 1 → n + 1; any p_i − 1 → n; else n ± 1 by the nodes' CPU"


class Joint(Strategy):
    """One instance and one node at a time. The module docstring has the rule."""

    name = "joint"
    brings_own_guards = True

    def __init__(
        self,
        *,
        thresholds: Annotated[UsageThresholds | None, Part(UsageThresholds)] = None,
        most_instances: Annotated[
            Mapping[str, int] | int | None,
            Whole(
                "Most instances of an operator.",
                unset="the slots of the most nodes",
                unit="instances",
                at_least=1,
            ),
        ] = None,
        assess_s: Annotated[float, Duration("Time between two assessments.", above=0)] = 60.0,
    ) -> None:
        if not assess_s > 0:
            raise InputError(f"an assessment period of {assess_s:g} s; it must be above 0")
        self._thresholds = thresholds or UsageThresholds()
        self._dimensions = Dimensions(most_instances=most_instances)
        self._assess_s = assess_s
        self._every = Every(assess_s, at_once=False)
        self._due = False
        self._signals = Signals()
        self._tasks = _TaskTimes()

    def decide(self, snapshot: Snapshot) -> Decision:
        """One step, once per assessment period."""
        missing = self._signals.update(snapshot)
        self._tasks.update(snapshot.batches, snapshot.planned.parallelism, snapshot.now_s - self._assess_s)
        self._due = bool(self._every.due(snapshot.now_s)) or self._due
        if missing:
            return hold(snapshot, missing, FORMULA)
        if not self._due:
            return hold(snapshot, "waiting for the next assessment", FORMULA)
        if any(action.kind is not ActionKind.SHRINK for action in snapshot.under_way):
            return hold(snapshot, "a change is under way; assessing when it is done", FORMULA)
        self._due = False
        cores = self._instance_shares(snapshot)
        parallelism, out = self._scale_operators(snapshot, cores)
        inputs: dict[str, float | str] = {f"{name} core": round(used, 3) for name, used in cores.items()}
        planned = snapshot.planned
        if parallelism != dict(planned.parallelism):
            layout = Layout(nodes=planned.nodes, parallelism=parallelism, placement=planned.placement)
            change = layout.difference(planned)
            reason = f"{change}, and one more node: an operator scaled out" if out else f"{change}: underused"
            return want(snapshot, planned.main_nodes + out, reason, FORMULA, inputs, layout=layout)
        return self._scale_nodes(snapshot, inputs)

    # -- operators -----------------------------------------------------------------------------

    def _instance_shares(self, snapshot: Snapshot) -> dict[str, float]:
        """Share of a core that an instance of each operator used since the last assessment; on batches the share of the
        time that it ran, if that is larger."""
        since_s, found = snapshot.now_s - self._assess_s, {}
        for name in snapshot.planned.parallelism:
            points = snapshot.windows.of(name, Metric.INSTANCE_CPU).after(since_s)
            cpu = sum(share for _, share in points) / len(points) if points else None
            known = [share for share in (cpu, self._tasks.share(name)) if share is not None]
            if known:
                found[name] = max(known)
        return found

    def _scale_operators(self, snapshot: Snapshot, cores: dict[str, float]) -> tuple[dict[str, int], bool]:
        """Instances of each operator, and whether any operator is scaled out."""
        wanted, out = dict(snapshot.planned.parallelism), False
        may_shrink = not (self._signals.micro_batch and self._overloaded(snapshot))
        for name, used in cores.items():
            most = self._dimensions.most(name, snapshot)
            if used > self._thresholds.core_max + SLACK and wanted[name] < most:
                wanted[name] += 1
                out = True
            elif used < self._thresholds.core_min - SLACK and wanted[name] > 1 and may_shrink:
                wanted[name] -= 1
        return wanted, out

    def _overloaded(self, snapshot: Snapshot) -> bool:
        """Whether batches leave a backlog, or the slots are over cpu_max."""
        full = any(share > self._thresholds.cpu_max + SLACK for share in self._slot_shares(snapshot))
        return full or any(_falls_behind(batch) for batch in self._signals.batches.values())

    # -- nodes ---------------------------------------------------------------------------------

    def _scale_nodes(self, snapshot: Snapshot, inputs: dict[str, float | str]) -> Decision:
        nodes, cpu_max = snapshot.planned.main_nodes, self._thresholds.cpu_max
        shares = self._node_shares(snapshot)
        if not shares:
            return hold(snapshot, "no data: the CPU of no node is known", FORMULA, inputs)
        fullest, total = max(shares), sum(shares)
        inputs = {**inputs, "fullest_node": round(fullest, 3), "nodes_cpu": round(total, 3)}
        if fullest > cpu_max + SLACK:
            reason = f"the fullest node at {fullest:.0%} of its cores"
            return want(snapshot, nodes + 1, reason, FORMULA, inputs)
        if nodes > 1 and total / (nodes - 1) <= cpu_max + SLACK:
            reason = f"{counted(nodes - 1, 'node')} would be {total / (nodes - 1):.0%} busy"
            return want(snapshot, nodes - 1, reason, FORMULA, inputs)
        return hold(snapshot, "no operator and no node is stressed", FORMULA, inputs)

    def _node_shares(self, snapshot: Snapshot) -> list[float]:
        """Busy share of each node since the last assessment: of its cores, or on batches of its slots, if larger."""
        since_s, windows = snapshot.now_s - self._assess_s, snapshot.windows
        found: list[float] = []
        for subject, metric in windows.series():
            points = windows.of(subject, metric).after(since_s) if metric is Metric.NODE_CPU else []
            if points and points[-1][0] >= snapshot.observed_s - STALE_AFTER_S:  # else the node has left
                found.append(sum(share for _, share in points) / len(points))
        slots = self._slot_shares(snapshot)
        if not found or not slots:
            return found or slots
        return [max(share, slots[0]) for share in found]

    def _slot_shares(self, snapshot: Snapshot) -> list[float]:
        """Busy share of each node's slots, by the last batches; empty if there are none."""
        busy, nodes = self._signals.busy_slots, snapshot.observed.main_nodes
        if not self._signals.micro_batch or busy is None or not nodes:
            return []
        for query, batch in self._signals.batches.items():
            since_s = snapshot.queries.get(query)
            if since_s is not None and snapshot.observed_s - since_s > batch.trigger_interval_s + SLACK:
                return [1.0] * nodes  # a batch that outlasts its interval has work for every slot
        return [busy / (nodes * max(1, snapshot.slots_per_node))] * nodes


class _TaskTimes:
    """Shares of the time that the tasks of each operator ran, in recent batches."""

    def __init__(self) -> None:
        self._shares: dict[str, list[tuple[float, float]]] = {}
        self._match = StageMatch()

    def update(self, batches: Iterable[Batch], operators: Collection[str], since_s: float) -> None:
        """Add finished batches, for these operators, and forget those that ended before ``since_s``."""
        for batch in batches:
            if not batch.steady:  # first tasks on a new node load classes and start Python
                continue
            span_s = max(batch.duration_s, batch.trigger_interval_s, 1e-3)
            for at, name in self._stages(batch, operators).items():
                stage = batch.stages[at]
                share = stage.task_time_s / stage.tasks / span_s
                self._shares.setdefault(name, []).append((batch.ended_s, share))
        for name, shares in self._shares.items():
            self._shares[name] = [each for each in shares if each[0] > since_s]

    def share(self, operator: str) -> float | None:
        """The mean share of an instance; None if no batch has it."""
        shares = [share for _, share in self._shares.get(operator, [])]
        return sum(shares) / len(shares) if shares else None

    def _stages(self, batch: Batch, operators: Collection[str]) -> dict[int, str]:
        """Operators by the position of their stage. Python steps do not report it; the number of tasks mostly does."""
        instances = {
            run.name: run.instances for run in batch.operators if run.instances and run.name in operators
        }
        positions = {stage.index: at for at, stage in enumerate(batch.stages)}
        for run in batch.operators:
            if run.name in instances and run.stage in positions:
                self._match.note(batch.query, run.name, positions[run.stage])
        observed = [
            ObservedStage(stage.tasks, stage.task_time_s / max(1, batch.rows)) for stage in batch.stages
        ]
        found = self._match.of(batch.query, observed, instances)
        return {at: name for at, name in found.items() if batch.stages[at].tasks > 0}


def _falls_behind(batch: Batch) -> bool:
    """Whether a batch left more rows at the source than it took, or outlasted its interval.

    A source that reports late counts some rows that have just arrived as left.
    """
    backlog = (batch.backlog_rows or 0.0) > max(1.0, batch.rows)
    return backlog or 0 < batch.trigger_interval_s < batch.duration_s
