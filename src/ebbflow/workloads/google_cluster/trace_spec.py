"""What trace is to be made, and whether it can be."""

from __future__ import annotations

from dataclasses import dataclass

from ebbflow.core.duration import format_duration
from ebbflow.errors import InputError
from ebbflow.workloads.google_cluster.published import (
    EVENTS,
    FIRST_TASKS,
    LAST_TASKS,
    MACHINES,
    MEAN_RATE_PER_S,
)

MOST_DAYS = 365
"""The source takes a time of more than a year for a mistake."""
MOST_EVENTS_PER_S = 1_000_000
"""Mean of the trace; a minute is made in one go."""
MOST_MACHINES = 1_000_000


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
        if self.machines > MOST_MACHINES:
            raise InputError(f"a trace has {MOST_MACHINES} machines at most, not {self.machines}")
        self._check_length()
        if self.parts is not None and self.parts < 1:
            raise InputError(f"a trace needs at least 1 part, not {self.parts}")
        if self.parts is not None and self.parts > self.minutes:
            raise InputError(
                f"a part has a minute at least, and the trace has {self.minutes}: {self.parts} parts are too many"
            )

    def _check_length(self) -> None:
        most_s = MOST_DAYS * 86_400
        if self.span_s is not None:
            if not self.span_s >= 60:
                raise InputError(f"a trace lasts at least a minute, not {self.span_s:g} s")
            if self.span_s > most_s:
                raise InputError(f"a trace lasts {MOST_DAYS} days at most, not {self.span_s / 86_400:g}")
            if self.events > MOST_EVENTS_PER_S * self.span_s:
                raise InputError(
                    f"{self.events} events in {format_duration(self.span_s)} are more than {MOST_EVENTS_PER_S} a second"
                )
        elif self.events > MEAN_RATE_PER_S * most_s:
            raise InputError(
                f"{self.events} events last more than {MOST_DAYS} days at the published mean rate; ask for "
                f"{int(MEAN_RATE_PER_S * most_s)} at most, or name a span"
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


class TooFewEventsError(InputError):
    """The lasting tasks alone have more events than were asked for."""

    def __init__(self, spec: TraceSpec, needed: int) -> None:
        step = 10 ** max(0, len(str(needed)) - 2)
        self.enough = -(-round(1.2 * needed) // step) * step
        machines = _counted(spec.machines)
        self.told = (
            f"{spec.events} events are too few for {machines}: the tasks that last make {needed} already; "
            f"ask for {self.enough} events"
        )
        fewer = max(1, round(0.8 * spec.machines * spec.events / needed))
        super().__init__(f"{self.told}, or for {_counted(fewer)}" if fewer < spec.machines else self.told)


def _counted(machines: int) -> str:
    return f"{machines} machine{'s' if machines != 1 else ''}"
