"""Pending executor requests, and the lead time measured from them: from request to first finished task.

The first finished task counts, not the registration: in between, an executor loads classes and starts Python.
"""

from __future__ import annotations

from collections import deque

from ebbflow.targets.spark.driver import ExecutorInfo

LONGEST_WARM_UP_S = 15.0
"""An executor without work counts as ready this long after it registered."""


class ExecutorRequests:
    """Requests for executors: which are pending, and how long each took to be met."""

    def __init__(self, default_lead_time_s: float) -> None:
        self._default_lead_time_s = default_lead_time_s
        self._estimate_s: float | None = None
        self._pending: deque[float] = deque()
        """When each missing executor was requested, oldest first."""
        self._without_work: dict[str, float] = {}
        """Executors that have registered but finished no task, and when they were requested."""
        self._known: set[str] = set()

    @property
    def lead_time_s(self) -> float:
        """From request to first work: a decaying mean of the measured lead times, the default before the first."""
        return self._default_lead_time_s if self._estimate_s is None else self._estimate_s

    @property
    def pending_since_s(self) -> list[float]:
        """When each executor that has not registered yet was requested, oldest first."""
        return list(self._pending)

    def add(self, now_s: float, count: int) -> None:
        """``count`` more executors were requested."""
        self._pending.extend([now_s] * count)

    def withdraw_newest(self, count: int) -> None:
        """The newest ``count`` requests were withdrawn."""
        for _ in range(min(count, len(self._pending))):
            self._pending.pop()

    def withdraw_oldest(self, count: int) -> None:
        """The oldest ``count`` requests were withdrawn."""
        for _ in range(min(count, len(self._pending))):
            self._pending.popleft()

    def update(self, now_s: float, executors: list[ExecutorInfo]) -> list[tuple[str, float]]:
        """Match live executors with requests; returns (executor, lead time) of those that finished their first task."""
        measured = []
        for executor in executors:
            if executor.id not in self._known:
                self._known.add(executor.id)
                if self._pending:
                    self._without_work[executor.id] = self._pending.popleft()
            if executor.id in self._without_work and executor.completed_tasks > 0:
                ready_s = min(now_s, executor.add_time / 1000 + LONGEST_WARM_UP_S)
                lead_s = max(0.0, ready_s - self._without_work.pop(executor.id))
                measured.append((executor.id, lead_s))
                old = self._estimate_s
                self._estimate_s = lead_s if old is None else 0.7 * old + 0.3 * lead_s
        live = {executor.id for executor in executors}
        self._known &= live
        for lost in [i for i in self._without_work if i not in live]:
            del self._without_work[lost]
        return measured
