"""The nodes of a cluster: they come late, are told to leave, slow down and die."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Container, Sequence

import numpy as np

from ebbflow.core.curve import Curve, count_over_time
from ebbflow.core.ports import USUAL_LEAD_TIME_S
from ebbflow.targets.simulator.faults import Fault, NodeDies, SlowNode
from ebbflow.targets.simulator.nodes import Census, Node, NodeKind, Strength


class NodePool:
    """The nodes of one cluster. ``advance`` lets time pass; ``set_nodes`` asks for more or lets some go."""

    def __init__(
        self, kind: NodeKind, initial: int, rng: np.random.Generator, faults: Sequence[Fault] = (),
        *, step_s: float = 0.0,
    ) -> None:  # fmt: skip
        """``step_s``: where nodes work whole steps, how long one is: a dead node is paid to the end of its last."""
        self.kind = kind
        self.version = 0
        """Changes whenever a plan made for the future may no longer hold."""
        self._step_s = step_s
        self._rng = rng
        self._history: list[Node] = []
        self._alive: list[Node] = []
        """Asked for and not gone."""
        self._unsettled_faults = sorted(
            (f for f in faults if isinstance(f, NodeDies | SlowNode)),
            key=lambda f: f.at_s if isinstance(f, NodeDies) else f.from_s,
        )
        self._leads_unseen: list[Node] = []
        self._lead_estimate_s: float | None = None
        self._came: list[Node] = []
        """Nodes that were asked for and came, until someone asks how long they took."""
        self._strength: Strength | None = None
        self._census: Census | None = None
        self.some_leave = False
        """Whether a node was told to leave, or died, and is not accounted for."""
        self._last_change_s = 0.0
        """When the last change known so far takes effect."""
        self._past_changes_s: list[float] = []
        """When nodes that are gone came and went, ascending."""
        for _ in range(initial):
            self._add(0.0, 0.0)

    # -- what is there -------------------------------------------------------------------------

    def strength(self, time_s: float) -> Strength:
        """Who works at a time, and until when that is known to stay so."""
        known = self._strength
        if known is not None and known.from_s <= time_s < known.until_s:
            return known
        working = tuple(n for n in self._alive if n.join_s <= time_s < n.stop_s)
        changes_s = [math.inf]
        for node in self._alive:
            slow = (node.slow.from_s, node.slow.until_s) if node.slow else ()
            changes_s += [t for t in (node.join_s, node.stop_s, *slow) if t > time_s]
        speeds = [node.speed_at(time_s) for node in working]
        even = len(set(speeds)) == 1
        self._strength = Strength(
            from_s=time_s,
            until_s=min(changes_s),
            nodes=working,
            slots=len(working) * self.kind.slots,
            speed=speeds[0] if even else None,
            speeds=() if even else tuple([speed for speed in speeds for _ in range(self.kind.slots)]),
        )
        return self._strength

    def census(self, time_s: float) -> Census:
        """The nodes at a time, counted."""
        known = self._census
        if known is not None and known.from_s <= time_s < known.until_s:
            return known
        coming = self.coming(time_s)
        changes_s = [t for n in self._alive for t in (n.join_s, n.stop_s, n.gone_s) if t > time_s]
        self._census = Census(
            from_s=time_s,
            until_s=min(changes_s, default=math.inf),
            there=len(self.working(time_s)),
            coming=len(coming),
            asked_s=max((n.asked_s for n in coming), default=0.0),
            leaving=len([n for n in self.leaving if n.gone_s > time_s]),
            requested=self.requested,
            held=len([n for n in self._alive if n.gone_s > time_s]),
        )
        return self._census

    @property
    def alive(self) -> Sequence[Node]:
        """Nodes asked for and not gone, oldest first."""
        return self._alive

    def working(self, time_s: float) -> list[Node]:
        """Nodes that are there and stay."""
        return [n for n in self._alive if n.join_s <= time_s and n.stays_after(time_s)]

    def coming(self, time_s: float) -> list[Node]:
        """Nodes asked for that have not come."""
        return [n for n in self._alive if n.join_s > time_s]

    @property
    def leaving(self) -> list[Node]:
        """Nodes told to leave that are not gone."""
        return [n for n in self._alive if n.stop_s < math.inf]

    @property
    def requested(self) -> int:
        """Nodes asked for and not taken back."""
        return len([n for n in self._alive if n.stop_s == math.inf])

    @property
    def lead_time_s(self) -> float:
        """A fading mean of the lead times seen so far; the usual one before."""
        return USUAL_LEAD_TIME_S if self._lead_estimate_s is None else self._lead_estimate_s

    def changed_between(self, start_s: float, end_s: float) -> bool:
        """Whether a node came to work or stopped working in (start, end]; a request taken back did neither."""
        if start_s >= self._last_change_s:
            return False
        past_s = self._past_changes_s
        after = bisect_right(past_s, start_s)
        if after < len(past_s) and past_s[after] <= end_s:
            return True
        return any(start_s < n.join_s <= end_s or start_s < n.stop_s <= end_s for n in self._alive)

    # -- what happens --------------------------------------------------------------------------

    def advance(self, until_s: float) -> None:
        """Let faults happen and lead times be seen, up to a time."""
        while self._unsettled_faults:
            fault = self._unsettled_faults[0]
            at_s = fault.at_s if isinstance(fault, NodeDies) else fault.from_s
            if at_s > until_s:
                break
            self._unsettled_faults.pop(0)
            there = self.working(at_s)
            if there:
                self._strike(there[fault.node % len(there)], fault)
        joined = [n for n in self._leads_unseen if n.join_s <= until_s]
        if joined:
            self._leads_unseen = [n for n in self._leads_unseen if n.join_s > until_s]
        for node in joined:
            lead_s, old = node.lead_time_s, self._lead_estimate_s
            self._lead_estimate_s = lead_s if old is None else 0.7 * old + 0.3 * lead_s
        self._came += joined

    def take_came(self) -> list[Node]:
        """Nodes that came since this was last asked."""
        came, self._came = self._came, []
        return came

    def set_nodes(self, now_s: float, wanted: int, *, busy: bool) -> int:
        """Ask for a number of nodes; returns how many are requested now.

        Fewer: requests are taken back first, the newest before the older; then the youngest nodes go, at
        once if nothing runs on them (``busy`` is false).
        """
        staying = [n for n in self._alive if n.stop_s == math.inf]
        before = len(staying)
        for leaver in self._can_stay(now_s)[: max(0, wanted - before)]:
            leaver.stop_s = math.inf
            staying.append(leaver)
        for _ in range(wanted - len(staying)):
            self._ask(now_s)
        surplus = sorted(staying, key=lambda n: (n.join_s > now_s, n.asked_s, n.number), reverse=True)
        leavers = surplus[: max(0, len(staying) - wanted)]
        for node in leavers:
            drains = busy and node.join_s <= now_s
            node.stop_s = now_s + self.kind.drain_s if drains else now_s
            self.some_leave = True
            self._last_change_s = max(self._last_change_s, node.stop_s)
        self._gone([node for node in leavers if not (busy and node.join_s <= now_s)], now_s)
        self._leads_unseen = [n for n in self._leads_unseen if n.stop_s == math.inf or n.join_s <= now_s]
        if wanted != before:
            self._changed()
        return self.requested

    def _can_stay(self, now_s: float) -> list[Node]:
        """Nodes told to leave that still take tasks: the order can be taken back."""
        return [n for n in self.leaving if not n.died and n.stop_s > now_s]

    def let_go(self, time_s: float, *, between_batches: bool, busy: Container[Node] = ()) -> None:
        """Leaving nodes go: all of them between batches, within one those that take no more tasks; but none
        of the ``busy``, that is those with work on them."""
        if not self.some_leave:
            return
        leavers = [
            n
            for n in self.leaving
            if n not in busy and (n.stop_s <= time_s or (between_batches and not n.died))
        ]
        for node in leavers:
            node.stop_s = min(node.stop_s, time_s)
        self._gone(leavers, time_s)
        self.some_leave = bool(self.leaving)

    def held(self) -> Curve:
        """Nodes paid for, over time."""
        return count_over_time((n.asked_s, n.gone_s) for n in self._history)

    def at_work(self) -> Curve:
        """Nodes that were there and could work, over time."""
        return count_over_time((n.join_s, n.gone_s) for n in self._history if n.join_s < n.gone_s)

    def _ask(self, now_s: float) -> None:
        """For one more node, which comes after a lead time."""
        lead_s, noise = self.kind.lead_time_s, self.kind.lead_noise
        if noise:
            lead_s *= math.exp(noise * self._rng.standard_normal())
        self._leads_unseen.append(self._add(now_s, now_s + lead_s))

    def _add(self, asked_s: float, join_s: float) -> Node:
        number = len(self._history)
        self._last_change_s = max(self._last_change_s, join_s)
        speed = self.kind.speeds[number % len(self.kind.speeds)]
        node = Node(number=number, asked_s=asked_s, join_s=join_s, speed=speed)
        self._history.append(node)
        self._alive.append(node)
        self._changed()
        return node

    def _strike(self, node: Node, fault: NodeDies | SlowNode) -> None:
        if isinstance(fault, SlowNode):
            node.slow = fault
        else:
            node.died = self.some_leave = True
            node.stop_s = fault.at_s
            self._last_change_s = max(self._last_change_s, fault.at_s)
            step_s = self._step_s
            node.gone_s = math.ceil(fault.at_s / step_s) * step_s if step_s else fault.at_s
            # it stays in sight until the stage that it was in is accounted for
            self._ask(fault.at_s)
        self._changed()

    def _gone(self, nodes: Sequence[Node], time_s: float) -> None:
        """Some leave, together: each for itself would look through all the others."""
        if not nodes:
            return
        for node in nodes:
            node.gone_s = min(node.gone_s, time_s)
            if node.join_s < node.stop_s:
                self._past_changes_s += (node.join_s, node.stop_s)
        self._past_changes_s.sort()  # all but the last of it is in order, which costs it next to nothing
        gone = set(nodes)
        self._alive = [node for node in self._alive if node not in gone]
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._strength = self._census = None
