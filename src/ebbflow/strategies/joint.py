"""Joint scaling: operators and nodes as one thing, a step at a time; what Elysium is compared with (§5.2, after SEEP).

    an operator is scaled out  → one more node, whatever the nodes do
    an operator is scaled in   → the nodes stay
    no operator is scaled      → a node more if one is over cpu_max, a node less if the others could take its work

Once every assessment, by the mean CPU of instances and nodes since the last one: an operator over core_max gets one
more instance, one below core_min one less.

On batches an instance is a task. What waits (a lookup) uses no CPU and holds its slot all the same, so an operator is
judged by the larger of its CPU and the share of the time that its tasks ran, where their stage is known. Where slots
are fewer than tasks these take turns, and both are small however much there is to do: so no operator is scaled in while
rows are left behind or the slots are over cpu_max. The nodes are judged by the larger of their CPU and the share of the
time that their slots are taken, for the same reason.
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
from ebbflow.core.ports import Strategy
from ebbflow.core.signals import Signals
from ebbflow.core.snapshot import STALE_AFTER_S, ActionKind, Snapshot
from ebbflow.errors import InputError
from ebbflow.profiling.batch.stage_match import ObservedStage, StageMatch
from ebbflow.strategies.symbiotic.algorithm_one import SLACK, Dimensions, Thresholds

# What batches tell the joint strategy: how long the tasks of an operator ran, and whether rows are left behind.
#
# share of an instance = Σ task time of its stage / (tasks · max(duration, trigger))


class TaskTimes:
    """Shares of the time that the tasks of each operator ran, in the batches of the last while."""

    def __init__(self) -> None:
        self._shares: dict[str, list[tuple[float, float]]] = {}
        self._match = StageMatch()

    def look(self, batches: Iterable[Batch], operators: Collection[str], since_s: float) -> None:
        """Take in what has finished of operators that can be scaled, and forget what ended before ``since_s``."""
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
        """The mean share of an instance; None where no batch told it."""
        shares = [share for _, share in self._shares.get(operator, [])]
        return sum(shares) / len(shares) if shares else None

    def _stages(self, batch: Batch, operators: Collection[str]) -> dict[int, str]:
        """Operators by the place of their stage. Python steps do not tell theirs; the number of tasks mostly does."""
        instances = {
            run.name: run.instances for run in batch.operators if run.instances and run.name in operators
        }
        places = {stage.index: at for at, stage in enumerate(batch.stages)}
        for run in batch.operators:
            if run.name in instances and run.stage in places:
                self._match.tell(batch.query, run.name, places[run.stage])
        ran = [ObservedStage(stage.tasks, stage.task_time_s / max(1, batch.rows)) for stage in batch.stages]
        found = self._match.of(batch.query, ran, instances)
        return {at: name for at, name in found.items() if batch.stages[at].tasks > 0}


def behind(batch: Batch) -> bool:
    """Whether a batch left more at the source than it took, or took so long that more than an interval's wait for the
    next. A source that says late what it has counts some of what has just come as left."""
    return (batch.backlog_rows or 0.0) > max(
        1.0, batch.rows
    ) or 0 < batch.trigger_interval_s < batch.duration_s


FORMULA = "any p_i + 1 → n + 1; any p_i − 1 → n; else n ± 1 by the nodes' CPU"


class Joint(Strategy):
    """One instance and one node at a time. See the module's text for the rule."""

    name = "joint"
    brings_own_guards = True

    def __init__(
        self,
        *,
        thresholds: Annotated[Thresholds | None, Part(Thresholds)] = None,
        most_instances: Annotated[
            Mapping[str, int] | int | None,
            Whole("Most instances of an operator; by default the slots of the most nodes.", at_least=1),
        ] = None,
        assess_s: Annotated[float, Duration("Time between two assessments.", above=0)] = 60.0,
    ) -> None:
        if not assess_s > 0:
            raise InputError(f"an assessment every {assess_s:g} s; it must be above 0")
        self._thresholds = thresholds or Thresholds()
        self._dimensions = Dimensions(most_instances=most_instances)
        self._assess_s = assess_s
        self._every = Every(assess_s, at_once=False)
        self._due = False
        self._signals = Signals()
        self._tasks = TaskTimes()

    def decide(self, snapshot: Snapshot) -> Decision:
        """One step, once in every assessment period."""
        missing = self._signals.look(snapshot)
        self._tasks.look(snapshot.batches, snapshot.planned.parallelism, snapshot.now_s - self._assess_s)
        self._due = bool(self._every.due(snapshot.now_s)) or self._due
        if missing:
            return hold(snapshot, missing, FORMULA)
        if not self._due:
            return hold(snapshot, "waits for its next assessment", FORMULA)
        if any(action.kind is not ActionKind.SHRINK for action in snapshot.under_way):
            return hold(snapshot, "a change is under way; it is assessed when that is done", FORMULA)
        self._due = False
        cores = self._instances(snapshot)
        parallelism, out = self._scaled(snapshot, cores)
        inputs: dict[str, float | str] = {f"{name} core": round(used, 3) for name, used in cores.items()}
        planned = snapshot.planned
        now = planned.main_nodes
        if parallelism != dict(planned.parallelism):
            layout = Layout(nodes=planned.nodes, parallelism=parallelism, placement=planned.placement)
            change = layout.difference(planned)
            why = ", and one more node: an operator was scaled out" if out else ": too little to do"
            return want(snapshot, now + out, f"{change}{why}", FORMULA, inputs, layout=layout)
        return self._nodes(snapshot, inputs)

    def start_over(self, now_s: float) -> None:  # noqa: ARG002
        """The clock was set back: a full period until the next assessment, by what is read in it."""
        self._every, self._due = Every(self._assess_s, at_once=False), False
        self._signals, self._tasks = Signals(), TaskTimes()

    def _instances(self, snapshot: Snapshot) -> dict[str, float]:
        """Share of a core that an instance used, or on batches of the time that it ran if that is more, of each
        operator that was read since the last assessment."""
        since_s, found = snapshot.now_s - self._assess_s, {}
        for name in snapshot.planned.parallelism:
            points = snapshot.windows.of(name, Metric.INSTANCE_CPU).after(since_s)
            cpu = sum(share for _, share in points) / len(points) if points else None
            known = [share for share in (cpu, self._tasks.share(name)) if share is not None]
            if known:
                found[name] = max(known)
        return found

    def _scaled(self, snapshot: Snapshot, cores: dict[str, float]) -> tuple[dict[str, int], bool]:
        """Instances of each operator, and whether any has one more."""
        wanted, out = dict(snapshot.planned.parallelism), False
        may_shrink = not (self._signals.micro_batch and self._busy(snapshot))
        for name, used in cores.items():
            if used > self._thresholds.core_max + SLACK and wanted[name] < self._dimensions.most(
                name, snapshot
            ):
                wanted[name] += 1
                out = True
            elif used < self._thresholds.core_min - SLACK and wanted[name] > 1 and may_shrink:
                wanted[name] -= 1
        return wanted, out

    def _nodes(self, snapshot: Snapshot, inputs: dict[str, float | str]) -> Decision:
        now, cpu_max = snapshot.planned.main_nodes, self._thresholds.cpu_max
        shares = self._shares(snapshot)
        if not shares:
            return hold(snapshot, "no data: the CPU of no node was read", FORMULA, inputs)
        fullest, total = max(shares), sum(shares)
        inputs = {**inputs, "fullest_node": round(fullest, 3), "nodes_cpu": round(total, 3)}
        if fullest > cpu_max + SLACK:
            return want(snapshot, now + 1, f"a node at {fullest:.2f} of its cores", FORMULA, inputs)
        if now > 1 and total / (now - 1) <= cpu_max + SLACK:
            reason = f"{now - 1} nodes would be {total / (now - 1):.2f} busy"
            return want(snapshot, now - 1, reason, FORMULA, inputs)
        return hold(snapshot, "no operator and no node is stressed", FORMULA, inputs)

    def _shares(self, snapshot: Snapshot) -> list[float]:
        """Busy share of each node since the last assessment: of its CPU, or on batches of its slots if that is more."""
        since_s, windows = snapshot.now_s - self._assess_s, snapshot.windows
        found: list[float] = []
        for subject, metric in windows.series():
            points = windows.of(subject, metric).after(since_s) if metric is Metric.NODE_CPU else []
            if points and points[-1][0] >= snapshot.seen_s - STALE_AFTER_S:  # else it left before the look
                found.append(sum(share for _, share in points) / len(points))
        slots = self._slots(snapshot)
        if not found or not slots:
            return found or slots
        return [max(share, slots[0]) for share in found]

    def _busy(self, snapshot: Snapshot) -> bool:
        """Whether batches leave rows behind, or slots little room."""
        full = any(share > self._thresholds.cpu_max + SLACK for share in self._slots(snapshot))
        return full or any(behind(batch) for batch in self._signals.batches.values())

    def _slots(self, snapshot: Snapshot) -> list[float]:
        """Busy share of each node's slots, by its last batches; empty where there are none."""
        busy, nodes = self._signals.busy_slots, snapshot.observed.main_nodes
        if not self._signals.micro_batch or busy is None or not nodes:
            return []
        for query, batch in self._signals.batches.items():
            begun_s = snapshot.queries.get(query)
            if begun_s is not None and snapshot.seen_s - begun_s > batch.trigger_interval_s + SLACK:
                return [1.0] * nodes  # a batch that outlasts its interval has work for every slot
        return [busy / (nodes * max(1, snapshot.slots_per_node))] * nodes
