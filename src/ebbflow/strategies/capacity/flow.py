"""What the capacity strategy learns of a pipeline without batches."""

from __future__ import annotations

from ebbflow.core.decision import Decision
from ebbflow.core.metrics import Metric
from ebbflow.core.snapshot import ActionKind, Snapshot
from ebbflow.profiling.flow import FlowInterval, FlowModel, FlowState
from ebbflow.strategies.capacity.sizing import FlowSizing, Rates, settle_s

WORTH = 1.0
"""How many times as long as it stops the flow a change should last: few early changes rather than many."""
HOLD = 2.0
"""How many times as long as it stops the flow a shrink must have been right."""
BACKLOG_S = 2.0
"""A queue of more than this many seconds of arrivals is a backlog: the flow has all the work it can do."""

_INSTANCES, _QUEUE = Metric.INSTANCES, Metric.OPERATOR_QUEUE
_CPU, _ROWS_IN = Metric.INSTANCE_CPU, Metric.ROWS_IN
"""Names for the hot loop: each attribute lookup on an enum costs."""


class LearnedFlow:
    """The costs, arrival rate and queue of a pipeline whose operators report readings."""

    in_batches = False

    def __init__(self, *, rate_window_s: float) -> None:
        self.model = FlowModel()
        self._rates = Rates(window_s=rate_window_s)
        self._observed_s: float | None = None
        self._instances: dict[str, int] = {}
        self._queues: dict[str, float] = {}
        self._queue_rows = self._freshness_s = 0.0
        self._nodes = 0
        self._calm = self._backlogged = False
        self._stopped = False

    @property
    def hold_s(self) -> float:
        """A shrink stops the flow, so it must have been right for long enough to be worth it."""
        return HOLD * self.model.pause_s

    @property
    def ready(self) -> bool:
        """Whether the cost of rows is known."""
        return self.model.ready

    def doubled(self, snapshot: Snapshot) -> Decision | None:  # noqa: ARG002
        """None: a flow has no batches that could take too long."""
        return None

    def why_no_scale_in(self) -> str:
        """Why no node may be released now; empty if nodes may."""
        return (
            "the flow is stopped for a change; no node is released until it resumes" if self._stopped else ""
        )

    def learn(self, snapshot: Snapshot) -> None:
        """Learn from the readings since the last observation."""
        windows, name = snapshot.windows, snapshot.pipeline.name
        rates = windows.of(name, Metric.ARRIVAL_RATE)
        read_s, before_s = rates.last_time_s, self._observed_s
        self._stopped = any(action.kind is ActionKind.RESTART for action in snapshot.under_way)
        if read_s is None or (before_s is not None and read_s <= before_s):
            return
        if before_s is not None:  # the first observation has no interval to count rows over
            for time_s, rate in rates.after(before_s):
                self._rates.add(time_s, rate)
        self._queue_rows = windows.of(name, Metric.QUEUE_LENGTH).last or 0.0
        self._freshness_s = windows.of(name, Metric.FRESHNESS).last or 0.0
        backlogged = self._queue_rows > BACKLOG_S * max(self._rates.level, 1.0)
        nodes = snapshot.observed.main_nodes
        instances, queues = self._layout(snapshot)
        # A change that shows now may stop the flow only after this observation.
        same = nodes == self._nodes and instances == self._instances
        calm = not self._stopped and (same or before_s is None)
        if before_s is not None and instances:
            cpu_s, done = self._work(snapshot, before_s, instances)
            sent = {name: done[name] + queues[name] - self._queues.get(name, 0.0) for name in done}
            sources = [name for name in snapshot.pipeline.sources if name in done]
            rows = sum(done[name] for name in sources) / max(len(sources), 1)
            behind = {}
            if backlogged and self._backlogged:
                behind = {n: queues[n] / max(sent[n], 1.0) * rows for n in done if n not in sources}
            waits_for = max(behind, key=lambda name: behind[name], default="")
            self.model.learn(
                FlowInterval(
                    span_s=read_s - before_s,
                    rows=rows,
                    cpu_s=cpu_s,
                    done=done,
                    sent=sent,
                    instances=instances,
                    slots=0.5 * (nodes + self._nodes) * max(1, snapshot.slots_per_node),
                    changes=0 if same else 1,
                    steady=calm and self._calm,
                    backlogged=backlogged and self._backlogged,
                    waits_for=waits_for if behind.get(waits_for, 0.0) > self._queue_rows / 2 else "",
                )
            )
        self._observed_s, self._nodes, self._instances, self._queues = read_s, nodes, instances, queues
        self._calm, self._backlogged = calm, backlogged

    @staticmethod
    def _layout(snapshot: Snapshot) -> tuple[dict[str, int], dict[str, float]]:
        """(instances, queued rows) of each operator with readings."""
        instances, queues = {}, {}
        of = snapshot.windows.of
        for name in snapshot.pipeline.order:
            counted = of(name, _INSTANCES).last
            if counted is not None:
                instances[name] = round(counted)
                queues[name] = of(name, _QUEUE).last or 0.0
        return instances, queues

    @staticmethod
    def _work(
        snapshot: Snapshot, since_s: float, instances: dict[str, int]
    ) -> tuple[dict[str, float], dict[str, float]]:
        """(CPU seconds, rows finished) of each operator since the last observation."""
        cpu_s, done = {}, {}
        of = snapshot.windows.of
        for name, count in instances.items():
            used, before_s = 0.0, since_s
            for time_s, share in of(name, _CPU).after(since_s):
                used += share * (time_s - before_s)
                before_s = time_s
            cpu_s[name] = used * count
            finished = 0.0
            for _, rows in of(name, _ROWS_IN).after(since_s):
                finished += rows
            done[name] = finished
        return cpu_s, done

    def sizing(self, snapshot: Snapshot, *, budget: float, busy_limit: float, shrinking: bool) -> FlowSizing:
        """Predictions for each number of nodes, at the rate as it is (shrinking) or as it will have risen (growing)."""
        ahead_s = snapshot.lead_time_s + settle_s(0.0, snapshot.slo) + WORTH * self.model.pause_s
        state = FlowState(
            now_s=snapshot.now_s,
            queue_rows=self._queue_rows,
            freshness_s=self._freshness_s,
            rate_per_s=self._rates.level,
            slope_per_s2=0.0 if shrinking else self._rates.rise_per_s(ahead_s),
            slope_for_s=ahead_s,
        )
        return FlowSizing(self.model, state, self._instances, snapshot, budget=budget, busy_limit=busy_limit)
