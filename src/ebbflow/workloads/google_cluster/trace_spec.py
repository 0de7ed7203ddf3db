"""What trace is to be made, and whether it can be."""

from __future__ import annotations

from dataclasses import dataclass

from ebbflow.errors import InputError
from ebbflow.workloads.google_cluster.published import (
    EVENTS,
    FIRST_TASKS,
    LAST_TASKS,
    MACHINES,
    MEAN_RATE_PER_S,
)


@dataclass(frozen=True, kw_only=True)
class TraceSpec:
    """What is made. Without a span it is as long as so many events are at the published mean rate."""

    events: int = EVENTS
    seed: int = 0
    machines: int = MACHINES
    span_s: float | None = None
    parts: int | None = None
    first_tasks: int | None = None
    """That run at the start; without it as many a machine as were published."""
    last_tasks: int | None = None
    """Of these, that still run at the end."""

    def __post_init__(self) -> None:
        for name in ("events", "machines"):
            if getattr(self, name) < 1:
                raise InputError(f"a trace needs at least 1 of {name}, not {getattr(self, name)}")
        if self.seed < 0:
            raise InputError(f"a seed is a whole number of 0 or more, not {self.seed}")
        if not 0 <= self.tasks_last <= self.tasks_first:
            raise InputError(
                f"{self.tasks_first} tasks at first and {self.tasks_last} at last: they do not fall"
            )
        if self.span_s is not None and not self.span_s >= 60:
            raise InputError(f"a trace lasts at least a minute, not {self.span_s:g} s")
        if self.parts is not None and self.parts < 1:
            raise InputError(f"a trace needs at least 1 part, not {self.parts}")
        if self.parts is not None and self.parts > self.minutes:
            raise InputError(
                f"a part has a minute at least, and the trace has {self.minutes}: {self.parts} parts are too many"
            )

    @property
    def tasks_first(self) -> int:
        """That run at the start."""
        return round(self.machines * FIRST_TASKS / MACHINES) if self.first_tasks is None else self.first_tasks

    @property
    def tasks_last(self) -> int:
        """That run from the start to the end."""
        return round(self.machines * LAST_TASKS / MACHINES) if self.last_tasks is None else self.last_tasks

    @property
    def minutes(self) -> int:
        """How long it is; what runs at the start is in the file too, but takes no time."""
        initial = self.machines * 16 if self.first_tasks is None else round(1.6 * self.first_tasks)
        span_s = self.span_s or (self.events - min(initial, self.events // 2)) / MEAN_RATE_PER_S
        return max(2, round(span_s / 60))


def too_few(spec: TraceSpec, needed: int) -> InputError:
    """What is said of events that are fewer than the lasting tasks have."""
    step = 10 ** max(0, len(str(needed)) - 2)
    enough = -(-round(1.2 * needed) // step) * step
    fewer = max(1, round(0.8 * spec.machines * spec.events / needed))
    return InputError(
        f"{spec.events} events are too few for {spec.machines} machines: the tasks that last make {needed} already; "
        f"ask for {enough} events, or for {fewer} machines"
    )
