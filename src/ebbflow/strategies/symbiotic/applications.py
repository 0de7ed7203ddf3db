"""The applications that share the nodes: in a snapshot they are one pipeline, whose operators name their query."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Sequence

from msgspec.structs import replace

from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.snapshot import Snapshot
from ebbflow.forecasting.minutes import MinuteLoads


class Split:
    """Snapshots by application. The pipeline seldom changes, so that its parts are kept."""

    def __init__(self) -> None:
        self._pipeline: Pipeline | None = None
        self.parts: Sequence[Pipeline] = ()

    def look(self, snapshot: Snapshot) -> list[Snapshot]:
        """What is seen of each application."""
        if snapshot.pipeline is not self._pipeline:
            self._pipeline, self.parts = snapshot.pipeline, snapshot.pipeline.applications()
        if len(self.parts) == 1:
            return [snapshot]
        return [replace(snapshot, pipeline=part) for part in self.parts]


class Arrivals:
    """What arrives at an application: the load to size for now, and the load of every minute so far.

    >>> arrivals = Arrivals()
    >>> for time_s, rate in ((10.0, 900.0), (20.0, 100.0), (30.0, 100.0)):
    ...     arrivals.add(time_s, rate)
    >>> arrivals.level_per_s
    100.0
    """

    def __init__(self) -> None:
        self.last: deque[float] = deque(maxlen=3)
        """Rates that were read, the newest last."""
        self.minutes = MinuteLoads()
        self._seen_s: float | None = None

    @property
    def known(self) -> bool:
        """Whether a rate was read."""
        return bool(self.last)

    @property
    def idle(self) -> bool:
        """Whether rates were read, and all of the last ones were 0."""
        return self.known and not any(self.last)

    @property
    def level_per_s(self) -> float:
        """The higher of the last rate and the median of the last three: a rise is believed at once, a fall once it
        was read twice. A reading can still have counted rows of before a jump and after it; whoever acts on a change
        in the last one waits for the next."""
        return max(self.last[-1], statistics.median(self.last))

    def look(self, snapshot: Snapshot) -> None:
        """Take in the rates read since the last look. The very first has no span to count rows over."""
        window = snapshot.windows.of(snapshot.pipeline.name, Metric.ARRIVAL_RATE)
        if window.last_time_s is None:
            return
        if self._seen_s is not None:
            for time_s, rate in window.after(self._seen_s):
                self.add(time_s, rate)
        self._seen_s = window.last_time_s

    def add(self, time_s: float, rate_per_s: float) -> None:
        """A rate that was read."""
        self.last.append(rate_per_s)
        self.minutes.add(time_s, rate_per_s)
