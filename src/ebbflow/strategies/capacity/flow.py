"""What the capacity strategy learns of a pipeline without batches, and how it sizes it."""

from __future__ import annotations

from collections.abc import Mapping

from ebbflow.core.decision import Constraint
from ebbflow.core.metrics import Metric
from ebbflow.core.snapshot import ActionKind, Snapshot
from ebbflow.profiling.flow import FlowInterval, FlowModel, FlowState
from ebbflow.strategies.capacity.sizing import FlowSizing, Rates, Size, settle_s

WORTH = 1.0
"""A change is made for so many times as long as it stops the flow: few and early ones, rather than many."""
HOLD = 2.0
"""Shrinking must have been right for so many times as long as it stops the flow."""
BACKLOG_S = 2.0
"""More than so many seconds of arrivals in the queue are a backlog: the flow has all the work it can do."""

_INSTANCES, _QUEUE = Metric.INSTANCES, Metric.OPERATOR_QUEUE
_CPU, _ROWS_IN = Metric.INSTANCE_CPU, Metric.ROWS_IN
"""Asked of each operator at every look, so they are not looked up each time."""


class LearnedFlow:
    """A pipeline whose operators were read: costs, rate, queue, and the sizing made of them."""

    def __init__(self, *, rate_window_s: float) -> None:
        self.model = FlowModel()
        self._rate_window_s = rate_window_s
        self._rates = Rates(window_s=rate_window_s)
        self._seen_s: float | None = None
        self._instances: dict[str, int] = {}
        self._queues: dict[str, float] = {}
        self._queue_rows = self._freshness_s = 0.0
        self._nodes = 0
        self._calm = self._backlogged = False
        self._stopped = False

    @property
    def hold_s(self) -> float:
        """Leaving stops the flow, so it must be right for long enough to be worth it."""
        return HOLD * self.model.pause_s

    @property
    def ready(self) -> bool:
        """Whether rows with a cost have been seen."""
        return self.model.ready

    @property
    def unlearned(self) -> Mapping[str, float | None]:
        """None: a flow is learned as one, and has no batches to wait for."""
        return {}

    def held_up(self) -> str:
        """Why nothing may leave now; empty where it may."""
        return "the flow stands still for a change; nothing leaves until it goes on" if self._stopped else ""

    def start_over(self, now_s: float) -> None:
        """The clock was set back: the next look is a first one. What was learned of costs stays."""
        level, self._rates = self._rates.level, Rates(window_s=self._rate_window_s)
        self._rates.add(now_s, level)
        self._seen_s = None

    def learn(self, snapshot: Snapshot) -> None:
        """Take in what was read since the last look."""
        windows, name = snapshot.windows, snapshot.pipeline.name
        rates = windows.of(name, Metric.ARRIVAL_RATE)
        looked_s = rates.last_time_s
        stops = [action for action in snapshot.under_way if action.kind is ActionKind.RESTART]
        self._stopped = bool(stops)
        if looked_s is None or (self._seen_s is not None and looked_s <= self._seen_s):
            return
        if self._seen_s is not None:  # the first look has no span to count rows over
            for time_s, rate in rates.after(self._seen_s):
                self._rates.add(time_s, rate)
        self._queue_rows = windows.of(name, Metric.QUEUE_LENGTH).last or 0.0
        self._freshness_s = windows.of(name, Metric.FRESHNESS).last or 0.0
        backlogged = self._queue_rows > BACKLOG_S * max(self._rates.level, 1.0)
        nodes = snapshot.observed.main_nodes
        instances, queues = self._layout(snapshot)
        # A change that is seen now may stop the flow only after this look.
        same = nodes == self._nodes and instances == self._instances
        calm = not self._stopped and (same or self._seen_s is None)
        if self._seen_s is not None and instances:
            cpu_s, done = self._work(snapshot, self._seen_s, instances)
            sent = {name: done[name] + queues[name] - self._queues.get(name, 0.0) for name in done}
            sources = [name for name in snapshot.pipeline.sources if name in done]
            rows = sum(done[name] for name in sources) / max(len(sources), 1)
            behind = {}
            if backlogged and self._backlogged:
                behind = {n: queues[n] / max(sent[n], 1.0) * rows for n in done if n not in sources}
            waits_for = max(behind, key=lambda name: behind[name], default="")
            self.model.learn(
                FlowInterval(
                    span_s=looked_s - self._seen_s,
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
        self._seen_s, self._nodes, self._instances, self._queues = looked_s, nodes, instances, queues
        self._calm, self._backlogged = calm, backlogged

    @staticmethod
    def _layout(snapshot: Snapshot) -> tuple[dict[str, int], dict[str, float]]:
        """(instances, rows that wait) of each operator that was read."""
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
        """(CPU seconds, rows finished) of each operator since the last look."""
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
        """What sizes would bring, at the rate to grow for (rising on) or the one to shrink for (as it is)."""
        rate = self._rates.level
        ahead_s = snapshot.lead_time_s + settle_s(0.0, snapshot.slo) + WORTH * self.model.pause_s
        state = FlowState(
            now_s=snapshot.now_s,
            queue_rows=self._queue_rows,
            freshness_s=self._freshness_s,
            rate_per_s=rate,
            slope_per_s2=0.0 if shrinking else self._rates.rise_per_s(ahead_s),
            slope_for_s=ahead_s,
        )
        return FlowSizing(self.model, state, self._instances, snapshot, budget=budget, busy_limit=busy_limit)

    # -- saying why ----------------------------------------------------------------------------

    def bottleneck(self, sizing: FlowSizing, size: Size) -> Constraint | None:
        """What keeps more nodes from helping."""
        snapshot = sizing.snapshot
        name, per_s = sizing.limit
        slots = size.nodes * max(1, snapshot.slots_per_node)
        if per_s <= self.model.nodes_per_s(slots):
            count = {**self._instances, **sizing.raised}[name]
            which = f"one instance of {name} is" if count == 1 else f"{count} instances of {name} are"
            return Constraint(
                name="instances",
                why=f"{which} the limit, at {per_s:.0f} rows/s: more nodes cannot help; "
                "a cheaper step would, or one that can be split",
            )
        if size.nodes >= snapshot.limits.max_nodes:
            return Constraint(name="limit", why=f"{size.nodes} nodes are all the limits allow")
        return None

    def inputs(self, sizing: FlowSizing, size: Size) -> dict[str, float]:
        """The numbers behind a decision."""
        state, model = sizing.state, self.model
        return {
            "slope_per_s2": state.slope_per_s2,
            "queue_rows": state.queue_rows,
            "freshness_s": state.freshness_s,
            "ahead_s": state.slope_for_s,
            "row_cpu_ms": 1000 * model.row_cpu_s,
            "slot_cpu": model.slot_cpu,
            "capacity_per_s": sizing.capacity_per_s(size.nodes),
            "pause_s": model.pause_s,
            "reserve_s": size.reserve_s,
        }
