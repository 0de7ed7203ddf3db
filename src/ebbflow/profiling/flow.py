"""What a row costs on an engine without batches: the capacity model of a flow, learned online.

Rows flow from operator to operator. Between two looks the source took in ``rows`` rows; operator i was sent
``sent_i``, finished ``done_i`` and used ``cpu_i`` seconds for them. So a source row costs it

    w_i = Σ cpu_i / Σ done_i · Σ sent_i / Σ rows          (sums that fade with every look)

which contains no size: what was learned on one node holds on ten. Nodes of S slots, each giving κ CPU seconds
a second, and operator i with p_i instances, each getting κ_i of a slot at most, can take in

    nodes(n) = n · S · κ / Σ_i w_i,      operator_i = p_i · κ_i / w_i

source rows per second: the true rate of an operator, as DS2 and Flink measure it, is rows / busy time. κ is 1
until a saturated stretch shows what slots give: 0.9 where instances lie unevenly, 0.5 where nodes are slow.
κ_i is κ until rows wait before an operator with fewer instances than there are slots: what it got is all it can get.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import msgspec

FADE = 0.9
"""Weight that a stretch keeps when the next one comes: about the last 20 count."""
PAUSE_S = 6.5
"""Assumed stop of the flow by a change until one was seen: the middle of Storm's 5 to 8 s (Elysium)."""
LONGEST_PAUSE_S = 60.0
FORGET = 0.01
"""How fast κ goes back to 1 while nothing shows it: who thinks nodes are slow takes more, and never sees."""


class FlowInterval(msgspec.Struct, frozen=True, kw_only=True):
    """What happened between two looks."""

    span_s: float
    rows: float
    """Source rows taken in."""
    cpu_s: Mapping[str, float]
    """CPU seconds of all instances of each operator."""
    done: Mapping[str, float]
    """Rows that each operator finished."""
    sent: Mapping[str, float]
    """Rows that came to each operator: those it finished, and those by which its queue grew."""
    instances: Mapping[str, float]
    slots: float
    """Slots at work, the mean of both ends."""
    changes: int
    """How many changes of nodes or instances were seen at its end."""
    steady: bool
    """Whether nothing was rebuilt in it: no change, no stop seen at either end."""
    backlogged: bool
    """Whether rows waited at both ends, so that all that could be done was done."""
    waits_for: str = ""
    """The operator, not a source, before which they wait; empty where it is the nodes that they wait for."""


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
        """w_i of the operators whose cost is known."""
        self.row_cpu_s = 0.0
        """Σ w_i: CPU seconds of one source row in all operators."""
        self.slot_cpu = 1.0
        """κ: CPU seconds that a slot gives in a second."""
        self._instance_cpu: dict[str, float] = {}
        """κ_i, where an operator has shown it."""
        self.pause_s = PAUSE_S
        self._lost_s = 0.0
        self._changes = 0

    @property
    def ready(self) -> bool:
        """Whether rows with a cost have been seen."""
        return self.row_cpu_s > 0

    @property
    def operators(self) -> Collection[str]:
        """Those whose cost is known."""
        return self._costs_s.keys()

    def nodes_per_s(self, slots: float) -> float:
        """Source rows a second that a number of slots can take in, whatever the instances."""
        return slots * self.slot_cpu / self.row_cpu_s

    def operator_per_s(self, name: str, instances: float) -> float:
        """Source rows a second that an operator can take in, whatever the nodes."""
        return instances * self._instance_cpu.get(name, self.slot_cpu) / self._costs_s[name]

    def slowest(self, instances: Mapping[str, float]) -> tuple[str, float]:
        """(operator, source rows a second) of the one that limits the flow whatever the nodes, of those with so many
        instances."""
        slowest, slowest_per_s = "", math.inf
        for name, cost_s in self._costs_s.items():
            if name in instances:
                per_s = instances[name] * self._instance_cpu.get(name, self.slot_cpu) / cost_s
                if per_s < slowest_per_s:
                    slowest, slowest_per_s = name, per_s
        return slowest, slowest_per_s

    def learn(self, stretch: FlowInterval) -> None:
        """Take in what happened between two looks."""
        if not stretch.steady:
            self._note_loss(stretch)
            return
        self._note_pause(stretch)
        if stretch.rows <= 0:
            return
        self._rows = FADE * self._rows + stretch.rows
        for sums, new in (
            (self._cpu_s, stretch.cpu_s), (self._done, stretch.done), (self._sent, stretch.sent),
        ):  # fmt: skip
            for name, value in new.items():
                sums[name] = FADE * sums.get(name, 0.0) + value
        self._costs_s = {
            name: cpu_s / done * sent / self._rows
            for name, cpu_s in self._cpu_s.items()
            if cpu_s > 0 and (done := self._done[name]) > 0 and (sent := self._sent[name]) > 0
        }
        self.row_cpu_s = sum(self._costs_s.values())
        self._learn_strength(stretch)

    def _learn_strength(self, stretch: FlowInterval) -> None:
        """κ or κ_i, whichever was the limit; κ also where slots gave more than was thought possible."""
        shown = sum(stretch.cpu_s.values()) / (stretch.span_s * max(stretch.slots, 1.0))
        limit = stretch.waits_for if stretch.backlogged and shown < 0.9 * self.slot_cpu else ""
        if limit and stretch.instances[limit] >= stretch.slots:
            limit = ""  # there is more than one of them for a slot, so slots are what they lack
        for name in self._instance_cpu:
            if name != limit:
                self._instance_cpu[name] += FORGET * (self.slot_cpu - self._instance_cpu[name])
        if limit:
            got = stretch.cpu_s[limit] / (stretch.span_s * max(stretch.instances[limit], 1.0))
            self._instance_cpu[limit] = 0.5 * (self._instance_cpu.get(limit, self.slot_cpu) + got)
        saturated = stretch.backlogged and not limit and shown > 0
        if shown > self.slot_cpu or (saturated and not self._some_full(stretch)):
            self.slot_cpu = 0.5 * (self.slot_cpu + shown)
        elif self.slot_cpu < 1.0:
            self.slot_cpu += FORGET * (1.0 - self.slot_cpu)

    def _some_full(self, stretch: FlowInterval) -> bool:
        """Whether the instances of some operator had all that slots can give them."""
        most = 0.95 * self.slot_cpu * stretch.span_s
        return any(cpu_s > most * stretch.instances[name] for name, cpu_s in stretch.cpu_s.items())

    # -- the pause of a change -------------------------------------------------------------------

    def _note_loss(self, stretch: FlowInterval) -> None:
        """Time that the flow did not use, in a stretch in which something was rebuilt."""
        self._changes += stretch.changes
        if self.ready:
            used_s = stretch.rows / self.nodes_per_s(max(stretch.slots, 1.0))
            self._lost_s += max(0.0, stretch.span_s - used_s)

    def _note_pause(self, stretch: FlowInterval) -> None:
        """After the stop: if rows still wait, all of the lost time was the stop's. Else it may have idled."""
        if self._changes and stretch.backlogged and self.ready:
            seen_s = min(self._lost_s / self._changes, LONGEST_PAUSE_S)
            self.pause_s = 0.5 * (self.pause_s + seen_s)
        self._changes, self._lost_s = 0, 0.0


# How fresh a flow will be: arrivals and capacity played forward, exactly and without steps.
#
# a(t) rows arrive after now, at a rate that rises for a while and then stays; q rows wait, the oldest for f
# seconds. Over a phase of capacity C that starts with D rows done and ends at t,
#
#     D(t) = min( D + C·L,  min over u of q + a(u) + C·(t − u) )
#
# The second term is where the queue ran empty at u. The rate never falls, so the minimum is where it equals C.
# Freshness is t − arrival of row D(t). Its slope is 1 − C / (rate when that row arrived), so within a phase
# it is largest at an end, or where the rows that wait today are through.


class FlowState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is known of a flow now."""

    now_s: float
    queue_rows: float
    freshness_s: float
    """Age of the oldest row that waits."""
    rate_per_s: float
    slope_per_s2: float = 0.0
    """How fast the rate rises, never below 0."""
    slope_for_s: float = 0.0
    """How far into the future the slope is trusted."""

    @property
    def rate_ahead_per_s(self) -> float:
        """The rate at the end of the trusted slope."""
        return self.rate_per_s + self.slope_per_s2 * self.slope_for_s

    def rows_after(self, ahead_s: float) -> float:
        """a: rows that arrive within the next seconds."""
        rising_s = ahead_s if ahead_s < self.slope_for_s else self.slope_for_s
        rows = self.rate_per_s * rising_s + self.slope_per_s2 * rising_s * rising_s / 2
        return rows if rising_s == ahead_s else rows + self.rate_ahead_per_s * (ahead_s - rising_s)

    def seconds_until(self, rows: float) -> float:
        """The inverse of ``rows_after``; endless where so many never come."""
        rising_s, slope = self.slope_for_s, self.slope_per_s2
        in_rise = self.rate_per_s * rising_s + slope * rising_s * rising_s / 2
        if rows <= in_rise and slope > 0:
            root = math.sqrt(self.rate_per_s * self.rate_per_s + 2 * slope * rows)
            return 2 * rows / (self.rate_per_s + root) if rows > 0 else 0.0
        if rows <= in_rise:
            return rows / self.rate_per_s if rows > 0 else 0.0
        return rising_s + (rows - in_rise) / self.rate_ahead_per_s if self.rate_ahead_per_s > 0 else math.inf


def play_flow(
    state: FlowState, phases: Sequence[tuple[float, float]], *, judge_from_s: float, until_s: float
) -> tuple[float, float]:
    """(worst between two times, at the end) of freshness; ``phases`` are (from, rows per second), the first from now.

    100 rows/s arrive, a stop of 5 s, then 200 rows/s are done: 10 s later the queue is gone.

    >>> state = FlowState(now_s=0.0, queue_rows=0.0, freshness_s=0.0, rate_per_s=100.0)
    >>> phases = [(0.0, 0.0), (5.0, 200.0)]
    >>> play_flow(state, phases, judge_from_s=0.0, until_s=60.0)
    (5.0, 0.0)
    >>> play_flow(state, phases, judge_from_s=7.0, until_s=60.0)
    (3.0, 0.0)
    """
    now_s, waiting, most_per_s = state.now_s, state.queue_rows, state.rate_ahead_per_s
    if waiting < 1e-6 and min([capacity for _, capacity in phases]) >= most_per_s:
        return 0.0, 0.0  # mostly so: every row is done as it comes
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
    """u: where the queue would run empty last, in a stretch of a capacity that is less than what comes in the end."""
    slope, rate_per_s = state.slope_per_s2, state.rate_per_s
    if slope <= 0 or capacity <= rate_per_s:
        return start_s
    return min(max((capacity - rate_per_s) / slope, start_s), end_s, max(state.slope_for_s, start_s))


def _age_s(state: FlowState, done: float, at_s: float, arrived: float) -> float:
    """Age, at a time from now by which so many rows arrive, of the oldest row that is not done."""
    waiting = state.queue_rows
    if waiting + arrived - done < 1e-6:
        return 0.0
    if done < waiting:
        return at_s + state.freshness_s * (1 - done / waiting)
    return max(0.0, at_s - state.seconds_until(done - waiting))
