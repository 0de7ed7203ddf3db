"""The capacity model of engines without batches: what a row costs, learned online, and how fresh a flow will be.

**Model.** Rows flow from operator to operator. Between two observations the source took in ``rows`` rows, and operator
i was sent ``sent_i``, finished ``done_i`` and used ``cpu_i`` seconds for them. So a source row costs operator i

    w_i = Σ cpu_i / Σ done_i · Σ sent_i / Σ rows          (sums that fade with every observation)

This is independent of the size: what is learned on one node holds on ten. Nodes of S slots, each of which gives κ CPU
seconds per second, and operator i with p_i instances, each of which gets κ_i of a slot at most, can process

    nodes(n) = n · S · κ / Σ_i w_i,      operator_i = p_i · κ_i / w_i

source rows per second. DS2 and Flink measure the true rate of an operator likewise: rows / busy time. κ is 1 until a
saturated interval shows what slots give: 0.9 if instances are unevenly placed, 0.5 if nodes are slow. κ_i is κ until
rows queue before an operator with fewer instances than slots: what it got then is all it can get.

**Outlook.** a(t) rows arrive after now, at a rate that rises for a while and then stays; q rows wait, the oldest for f
seconds. Over a phase of capacity C and length L that starts with D rows done and ends at t,

    D(t) = min( D + C·L,  min over u of q + a(u) + C·(t − u) )

In the second term the queue ran empty at u. The rate never falls, so the minimum is where it equals C. Freshness is t
minus the arrival of row D(t). Its slope is 1 − C / (rate when that row arrived), so within a phase it is largest at an
end, or where the rows that wait now are through.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import msgspec

FADE = 0.9
"""Weight that an interval keeps with each later one: about the last 20 count."""
PAUSE_S = 6.5
"""Assumed pause of a change until one is observed: the middle of Storm's 5 to 8 s (Elysium)."""
LONGEST_PAUSE_S = 60.0
FORGET = 0.01
"""How fast κ returns to 1 while unobserved: with too low a κ there are too many nodes to observe it."""


class FlowInterval(msgspec.Struct, frozen=True, kw_only=True):
    """What happened between two observations."""

    span_s: float
    rows: float
    """Source rows taken in."""
    cpu_s: Mapping[str, float]
    """CPU seconds of all instances of each operator."""
    done: Mapping[str, float]
    """Rows that each operator finished."""
    sent: Mapping[str, float]
    """Rows sent to each operator: those it finished, and those by which its queue grew."""
    instances: Mapping[str, float]
    slots: float
    """Mean of the slots at both ends."""
    changes: int
    """Changes of nodes or instances observed at its end."""
    steady: bool
    """Whether there was no change, and no stop at either end."""
    backlogged: bool
    """Whether rows waited at both ends, so that the flow worked at capacity."""
    waits_for: str = ""
    """The operator before which they wait, if not a source; empty if they wait for the nodes."""


class FlowModel:
    """w_i, κ and the pause of a change.

    >>> model = FlowModel()
    >>> for _ in range(5):  # 1000 rows in 10 s, 2 ms a row in one operator and 3 ms in the other
    ...     model.learn(FlowInterval(span_s=10.0, rows=1000.0, cpu_s={"a": 2.0, "b": 3.0},
    ...                         done={"a": 1000.0, "b": 1000.0}, sent={"a": 1000.0, "b": 1000.0},
    ...                         instances={"a": 4.0, "b": 1.0}, slots=2.0, changes=0,
    ...                         steady=True, backlogged=False))
    >>> round(model.nodes_per_s(slots=2)), {n: round(model.operator_per_s(n, 1)) for n in "ab"}
    (400, {'a': 500, 'b': 333})
    """

    def __init__(self) -> None:
        self._rows = 0.0
        self._cpu_s: dict[str, float] = {}
        self._done: dict[str, float] = {}
        self._sent: dict[str, float] = {}
        self._costs_s: dict[str, float] = {}
        """w_i of the operators with a known cost."""
        self.row_cpu_s = 0.0
        """Σ w_i: CPU seconds of a source row in all operators."""
        self.slot_cpu = 1.0
        """κ: CPU seconds that a slot gives per second."""
        self._instance_cpu: dict[str, float] = {}
        """κ_i of operators that were a limit."""
        self.pause_s = PAUSE_S
        self._lost_s = 0.0
        self._changes = 0

    @property
    def ready(self) -> bool:
        """Whether the cost of rows is known."""
        return self.row_cpu_s > 0

    @property
    def operators(self) -> Collection[str]:
        """Operators with a known cost."""
        return self._costs_s.keys()

    def nodes_per_s(self, slots: float) -> float:
        """Source rows per second that a number of slots can process, whatever the instances."""
        return slots * self.slot_cpu / self.row_cpu_s

    def operator_per_s(self, name: str, instances: float) -> float:
        """Source rows per second that an operator can process, whatever the nodes."""
        return instances * self._instance_cpu.get(name, self.slot_cpu) / self._costs_s[name]

    def slowest(self, instances: Mapping[str, float]) -> tuple[str, float]:
        """(operator, source rows per second) of the operator in ``instances`` that limits the flow, whatever the
        nodes."""
        slowest, slowest_per_s = "", math.inf
        for name, cost_s in self._costs_s.items():
            if name in instances:
                per_s = instances[name] * self._instance_cpu.get(name, self.slot_cpu) / cost_s
                if per_s < slowest_per_s:
                    slowest, slowest_per_s = name, per_s
        return slowest, slowest_per_s

    def learn(self, interval: FlowInterval) -> None:
        """Learn from the interval between two observations."""
        if not interval.steady:
            self._note_loss(interval)
            return
        self._note_pause(interval)
        if interval.rows <= 0:
            return
        self._rows = FADE * self._rows + interval.rows
        for sums, new in (
            (self._cpu_s, interval.cpu_s), (self._done, interval.done), (self._sent, interval.sent),
        ):  # fmt: skip
            for name, value in new.items():
                sums[name] = FADE * sums.get(name, 0.0) + value
        self._costs_s = {
            name: cpu_s / done * sent / self._rows
            for name, cpu_s in self._cpu_s.items()
            if cpu_s > 0 and (done := self._done[name]) > 0 and (sent := self._sent[name]) > 0
        }
        self.row_cpu_s = sum(self._costs_s.values())
        self._learn_strength(interval)

    def _learn_strength(self, interval: FlowInterval) -> None:
        """Learn κ or κ_i, whichever was the limit; κ also if slots gave more than expected."""
        shown = sum(interval.cpu_s.values()) / (interval.span_s * max(interval.slots, 1.0))
        limit = interval.waits_for if interval.backlogged and shown < 0.9 * self.slot_cpu else ""
        if limit and interval.instances[limit] >= interval.slots:
            limit = ""  # several share a slot, so slots are the limit
        for name in self._instance_cpu:
            if name != limit:
                self._instance_cpu[name] += FORGET * (self.slot_cpu - self._instance_cpu[name])
        if limit:
            got = interval.cpu_s[limit] / (interval.span_s * max(interval.instances[limit], 1.0))
            self._instance_cpu[limit] = 0.5 * (self._instance_cpu.get(limit, self.slot_cpu) + got)
        saturated = interval.backlogged and not limit and shown > 0
        if shown > self.slot_cpu or (saturated and not self._some_full(interval)):
            self.slot_cpu = 0.5 * (self.slot_cpu + shown)
        elif self.slot_cpu < 1.0:
            self.slot_cpu += FORGET * (1.0 - self.slot_cpu)

    def _some_full(self, interval: FlowInterval) -> bool:
        """Whether the instances of some operator got all that slots can give them."""
        most = 0.95 * self.slot_cpu * interval.span_s
        return any(cpu_s > most * interval.instances[name] for name, cpu_s in interval.cpu_s.items())

    # -- the pause of a change -------------------------------------------------------------------

    def _note_loss(self, interval: FlowInterval) -> None:
        """Add up the time that the flow did not use, in an interval with a change."""
        self._changes += interval.changes
        if self.ready:
            used_s = interval.rows / self.nodes_per_s(max(interval.slots, 1.0))
            self._lost_s += max(0.0, interval.span_s - used_s)

    def _note_pause(self, interval: FlowInterval) -> None:
        """After the stop: if rows still wait, the lost time was all due to it. Otherwise the flow may have been
        idle."""
        if self._changes and interval.backlogged and self.ready:
            observed_s = min(self._lost_s / self._changes, LONGEST_PAUSE_S)
            self.pause_s = 0.5 * (self.pause_s + observed_s)
        self._changes, self._lost_s = 0, 0.0


# -- outlook -------------------------------------------------------------------------------------------


class FlowState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The state of a flow now."""

    now_s: float
    queue_rows: float
    freshness_s: float
    """Age of the oldest waiting row."""
    rate_per_s: float
    slope_per_s2: float = 0.0
    """How fast the rate rises, never below 0."""
    slope_for_s: float = 0.0
    """For how long the slope is trusted."""

    @property
    def rate_ahead_per_s(self) -> float:
        """The rate at the end of the trusted slope."""
        return self.rate_per_s + self.slope_per_s2 * self.slope_for_s

    def rows_after(self, ahead_s: float) -> float:
        """a: rows that arrive within this many seconds."""
        rising_s = ahead_s if ahead_s < self.slope_for_s else self.slope_for_s
        rows = self.rate_per_s * rising_s + self.slope_per_s2 * rising_s * rising_s / 2
        return rows if rising_s == ahead_s else rows + self.rate_ahead_per_s * (ahead_s - rising_s)

    def seconds_until(self, rows: float) -> float:
        """The inverse of ``rows_after``; inf if this many never arrive."""
        rising_s, slope = self.slope_for_s, self.slope_per_s2
        in_rise = self.rate_per_s * rising_s + slope * rising_s * rising_s / 2
        if rows <= in_rise and slope > 0:
            root = math.sqrt(self.rate_per_s * self.rate_per_s + 2 * slope * rows)
            return 2 * rows / (self.rate_per_s + root) if rows > 0 else 0.0
        if rows <= in_rise:
            return rows / self.rate_per_s if rows > 0 else 0.0
        return rising_s + (rows - in_rise) / self.rate_ahead_per_s if self.rate_ahead_per_s > 0 else math.inf


def simulate_flow(
    state: FlowState, phases: Sequence[tuple[float, float]], *, judge_from_s: float, until_s: float
) -> tuple[float, float]:
    """(worst between two times, final) freshness. ``phases``: (from, capacity in rows per second), the first from now.

    100 rows/s arrive; after a stop of 5 s the capacity is 200 rows/s. 5 s later the queue is empty.

    >>> state = FlowState(now_s=0.0, queue_rows=0.0, freshness_s=0.0, rate_per_s=100.0)
    >>> phases = [(0.0, 0.0), (5.0, 200.0)]
    >>> simulate_flow(state, phases, judge_from_s=0.0, until_s=60.0)
    (5.0, 0.0)
    >>> simulate_flow(state, phases, judge_from_s=7.0, until_s=60.0)
    (3.0, 0.0)
    """
    now_s, waiting, most_per_s = state.now_s, state.queue_rows, state.rate_ahead_per_s
    if waiting < 1e-6 and min([capacity for _, capacity in phases]) >= most_per_s:
        return 0.0, 0.0  # the usual case: every row is processed as it arrives
    done = 0.0
    age_s = 0.0 if waiting < 1e-6 else state.freshness_s
    worst_s = age_s if judge_from_s <= now_s else 0.0
    judge_s, last = judge_from_s - now_s, len(phases) - 1
    for index, (from_s, capacity) in enumerate(phases):
        start_s = max(from_s, now_s) - now_s
        end_s = (until_s if index == last else min(max(phases[index + 1][0], now_s), until_s)) - now_s
        if end_s <= start_s:
            continue
        edges_s = [end_s]
        if done < waiting < done + capacity * (end_s - start_s):
            edges_s.insert(0, start_s + (waiting - done) / capacity)
        if start_s < judge_s < end_s:
            edges_s.append(judge_s)
            edges_s.sort()
        at_s = start_s
        for edge_s in edges_s:
            arrived = state.rows_after(edge_s)
            if capacity >= most_per_s:
                here = waiting + arrived
            else:
                empty_s = _empty_s(state, capacity, at_s, edge_s)
                here = waiting + state.rows_after(empty_s) + capacity * (edge_s - empty_s)
            done = min(done + capacity * (edge_s - at_s), here)
            at_s = edge_s
            if edge_s >= judge_s - 1e-9:
                age_s = _age_s(state, done, edge_s, arrived)
                worst_s = max(worst_s, age_s)
    return worst_s, age_s


def _empty_s(state: FlowState, capacity: float, start_s: float, end_s: float) -> float:
    """u: the last time at which the queue can run empty, with a capacity below the final rate."""
    slope, rate_per_s = state.slope_per_s2, state.rate_per_s
    if slope <= 0 or capacity <= rate_per_s:
        return start_s
    return min(max((capacity - rate_per_s) / slope, start_s), end_s, max(state.slope_for_s, start_s))


def _age_s(state: FlowState, done: float, at_s: float, arrived: float) -> float:
    """Age of the oldest row not done, at a time from now by which this many rows have arrived."""
    waiting = state.queue_rows
    if waiting + arrived - done < 1e-6:
        return 0.0
    if done < waiting:
        return at_s + state.freshness_s * (1 - done / waiting)
    return max(0.0, at_s - state.seconds_until(done - waiting))
