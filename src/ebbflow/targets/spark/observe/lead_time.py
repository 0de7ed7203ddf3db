"""Pending executor requests, and the lead time measured from them: from request to first finished task.

The first finished task counts, not the registration: in between, an executor loads classes and starts Python.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ebbflow.core.clock import Clock
from ebbflow.targets.spark.driver import ExecutorInfo

LONGEST_WARM_UP_S = 15.0
"""An executor without work counts as ready this long after it registered."""


@dataclass(frozen=True, kw_only=True)
class _Request:
    wall_s: float
    monotonic_s: float


@dataclass(kw_only=True)
class _Registered:
    """An executor that has registered and finished no task."""

    request: _Request
    since_s: float
    """Monotonic time of the first poll that showed it."""


@dataclass(frozen=True, kw_only=True)
class LeadTime:
    """How long an executor took from its request to its first finished task."""

    executor: str
    lead_time_s: float


class ExecutorRequests:
    """Requests for executors: which are pending, and how long each took to be met."""

    def __init__(self, clock: Clock, default_lead_time_s: float) -> None:
        self._clock = clock
        self._default_lead_time_s = default_lead_time_s
        self._estimate_s: float | None = None
        self._pending: deque[_Request] = deque()
        """A request for each missing executor, oldest first."""
        self._without_work: dict[str, _Registered] = {}
        self._known: set[str] = set()

    @property
    def lead_time_s(self) -> float:
        """From request to first work: a decaying mean of the measured lead times, the default before the first."""
        return self._default_lead_time_s if self._estimate_s is None else self._estimate_s

    @property
    def pending_since_s(self) -> list[float]:
        """Wall time at which each executor that has not registered yet was requested, oldest first."""
        return [request.wall_s for request in self._pending]

    @property
    def pending_ages_s(self) -> list[float]:
        """How long ago each of them was requested."""
        now_s = self._clock.monotonic_s()
        return [now_s - request.monotonic_s for request in self._pending]

    def add(self, count: int) -> None:
        """``count`` more executors were requested."""
        request = _Request(wall_s=self._clock.now_s(), monotonic_s=self._clock.monotonic_s())
        self._pending.extend([request] * count)

    def withdraw_newest(self, count: int) -> None:
        """The newest ``count`` requests were withdrawn."""
        for _ in range(min(count, len(self._pending))):
            self._pending.pop()

    def withdraw_oldest(self, count: int) -> None:
        """The oldest ``count`` requests were withdrawn."""
        for _ in range(min(count, len(self._pending))):
            self._pending.popleft()

    def update(self, executors: list[ExecutorInfo]) -> list[LeadTime]:
        """Match live executors with requests; returns the lead times of those that finished their first task."""
        measured: list[LeadTime] = []
        now_s = self._clock.monotonic_s()
        for executor in executors:
            if executor.id not in self._known:
                self._known.add(executor.id)
                if self._pending:
                    self._without_work[executor.id] = _Registered(
                        request=self._pending.popleft(), since_s=now_s
                    )
            if executor.id in self._without_work and executor.completed_tasks > 0:
                registered = self._without_work.pop(executor.id)
                ready_s = min(now_s, registered.since_s + LONGEST_WARM_UP_S)
                lead_s = ready_s - registered.request.monotonic_s
                measured.append(LeadTime(executor=executor.id, lead_time_s=lead_s))
                old = self._estimate_s
                self._estimate_s = lead_s if old is None else 0.7 * old + 0.3 * lead_s
        live = {executor.id for executor in executors}
        self._known &= live
        for lost in [i for i in self._without_work if i not in live]:
            del self._without_work[lost]
        return measured
