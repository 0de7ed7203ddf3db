"""Learn the profile of a datastore: step the load until response times diverge, for each size; time every resize.

For one number of nodes (Pascal §3.3, §4.2 and Figure 21):

1. Raise the offered rate by a quarter until the cluster does not sustain it. It does not if it answers less than 97 %
   of the requests, or if the second half of the step takes more than 1.5 times as long as the first and twice as long
   as the fastest step: response times diverge.
2. Halve the distance between the last rate that was sustained and the first that was not, until it is within the
   tolerance. The last sustained rate is repeated. X_max is the mean of its throughputs.
3. Offer even shares of X_max, for the curve of response times.

Then one node is added under a constant load, and it starts again; from the largest size the nodes are removed one by
one. Each change is timed. For further sizes of the data only the changes are timed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from ebbflow.errors import InputError, TargetError
from ebbflow.profiling.datastore.profile import (
    DatastoreProfile,
    LoadStep,
    Performance,
    ResizeTime,
    made_profile,
)

LEAST_ANSWERED = 0.97
MOST_GROWTH = 1.5
MOST_SLOWER = 2.0
RAISE = 1.25
MOST_STEPS = 60
"""Steps after which a search for X_max gives up."""
MOST_RETRIES = 5
RESIZE_LOAD = 0.5
"""Share of X_max that is offered while a node joins or leaves, as in Figures 18 and 19."""

Progress = Callable[[float, str], None]


class StoreUnderLoad(Protocol):
    """A datastore that can be loaded, filled and resized. The simulator and Cassandra implement it."""

    @property
    def cluster(self) -> str:
        """Name of the cluster."""

    @property
    def target(self) -> str:
        """``cassandra`` or ``simulator``."""

    @property
    def replication(self) -> int:
        """The replication factor."""

    @property
    def nodes(self) -> int:
        """Active nodes."""

    @property
    def data_gb(self) -> float:
        """Data of one replica."""

    def offer(self, rate_per_s: float, seconds: float) -> LoadStep:
        """Offer a rate in an open loop for some time. Returns when nothing of it waits any more."""

    def resize(self, nodes: int, rate_per_s: float) -> ResizeTime:
        """Add or remove one node under a constant load. Returns when the change is complete, cleanup included."""

    def fill(self, data_gb: float) -> None:
        """Write or delete rows until the data of one replica has this size."""


@dataclass(frozen=True, kw_only=True)
class DatastoreProfiling:
    """A profiling run. ``hold_s`` is the length of a step, ``first_per_s`` the first offered rate."""

    first_per_s: float
    sizes: range
    hold_s: float = 30.0
    tolerance: float = 0.02
    """Relative distance between the last sustained rate and the first that was not."""
    repeats: int = 2
    """Repetitions of the highest sustained rate."""
    points: int = 8
    """Even shares of X_max for the curve of response times."""
    data_gb: Sequence[float] = ()
    """Further sizes of the data at which changes are timed."""
    wanted_response_s: float | None = None

    def __post_init__(self) -> None:
        if not self.first_per_s > 0:
            raise InputError(f"a first rate of {self.first_per_s:g} requests/s; it must be above 0")
        if not self.hold_s > 0:
            raise InputError(f"steps of {self.hold_s:g} s; they must be above 0s")
        if len(self.sizes) < 1 or self.sizes.step != 1:
            raise InputError("a profile needs at least one number of nodes, and none in between left out")

    def run(
        self,
        store: StoreUnderLoad,
        *,
        learned_at: datetime = datetime(1970, 1, 1, tzinfo=UTC),
        on_progress: Progress = lambda _, __: None,
    ) -> DatastoreProfile:
        """Profile a store that has the smallest number of nodes; it has them again at the end."""
        low, high = self.sizes[0], self.sizes[-1]
        if low < store.replication:
            raise InputError(
                f"{low} nodes are below the replication factor of {store.replication}; begin with {store.replication}"
            )
        if store.nodes != low:
            raise InputError(
                f"the cluster has {store.nodes} nodes; begin with {low}, the fewest to be profiled"
            )
        first_gb = store.data_gb
        rounds = 2 * len(self.sizes) - 1 + 2 * (len(self.sizes) - 1) * len(self.data_gb)
        done = 0

        def progress(text: str) -> None:
            nonlocal done
            on_progress(done / rounds, text)
            done += 1

        performance: list[Performance] = []
        times: list[ResizeTime] = []
        first_per_s = self.first_per_s
        for nodes in self.sizes:
            if nodes > low:
                times.append(store.resize(nodes, RESIZE_LOAD * performance[-1].most_per_s))
            progress(f"stepping the load on {nodes} nodes")
            row = self._performance(store, first_per_s)
            performance.append(row)
            first_per_s = 0.8 * row.most_per_s
        rates = {row.nodes: RESIZE_LOAD * row.most_per_s for row in performance}
        times += self._down(store, rates, progress)
        for data_gb in self.data_gb:
            store.fill(data_gb)
            for nodes in range(low + 1, high + 1):
                progress(f"adding node {nodes} at {data_gb:g} GB")
                times.append(store.resize(nodes, rates[nodes - 1]))
            times += self._down(store, rates, progress)
        return made_profile(
            cluster=store.cluster,
            target=store.target,
            replication=store.replication,
            data_gb=first_gb,
            performance=performance,
            times=times,
            wanted_response_s=self.wanted_response_s,
            learned_at=learned_at,
        )

    def _down(
        self, store: StoreUnderLoad, rates: dict[int, float], progress: Callable[[str], None]
    ) -> list[ResizeTime]:
        found = []
        for nodes in reversed(self.sizes[:-1]):
            progress(f"removing node {nodes + 1}")
            found.append(store.resize(nodes, rates[nodes]))
        return found

    def _performance(self, store: StoreUnderLoad, first_per_s: float) -> Performance:
        """The row of the performance table for the present number of nodes."""
        search = _Search(store, self.hold_s)
        low_per_s, high_per_s = search.bracket(first_per_s)
        low_per_s, high_per_s = search.halve(low_per_s, high_per_s, self.tolerance)
        repeated: list[float] = []
        retries = 0
        while len(repeated) < max(1, self.repeats):
            step = search.offer(low_per_s)
            if search.sustained(step):
                repeated.append(step.throughput_per_s)
                continue
            retries += 1
            if retries > MOST_RETRIES:
                raise TargetError(
                    f"{store.nodes} nodes do not sustain {low_per_s:.0f} requests/s repeatedly; use longer steps"
                )
            high_per_s, low_per_s, repeated = low_per_s, low_per_s * (1 - self.tolerance), []
        most_per_s = statistics.fmean(repeated)
        for k in range(1, self.points + 1):
            search.offer(most_per_s * k / (self.points + 1))
        spread = statistics.pstdev(repeated) if len(repeated) > 1 else 0.0
        return Performance(
            nodes=store.nodes,
            most_per_s=most_per_s,
            error=max((high_per_s - low_per_s) / 2, spread) / most_per_s,
            steps=tuple(
                sorted(
                    (step for step in search.steps if search.sustained(step)), key=lambda s: s.offered_per_s
                )
            ),
        )


class _Search:
    """The steps offered to one number of nodes so far."""

    def __init__(self, store: StoreUnderLoad, hold_s: float) -> None:
        self._store, self._hold_s = store, hold_s
        self.steps: list[LoadStep] = []

    def offer(self, rate_per_s: float) -> LoadStep:
        """Offer a rate for one step."""
        if len(self.steps) >= MOST_STEPS:
            raise TargetError(
                f"no highest throughput of {self._store.nodes} nodes after {MOST_STEPS} steps up to "
                f"{rate_per_s:.0f} requests/s; begin at a rate nearer to it"
            )
        step = self._store.offer(rate_per_s, self._hold_s)
        self.steps.append(step)
        return step

    def sustained(self, step: LoadStep) -> bool:
        """Whether the cluster kept up with a step."""
        fastest_s = min(each.response_mean_s for each in self.steps)
        diverges = step.response_growth > MOST_GROWTH and step.response_mean_s > MOST_SLOWER * fastest_s
        return step.throughput_per_s >= LEAST_ANSWERED * step.offered_per_s and not diverges

    def bracket(self, rate_per_s: float) -> tuple[float, float]:
        """A rate that is sustained and a higher one that is not."""
        while not self.sustained(self.offer(rate_per_s)):
            rate_per_s /= 2
        low_per_s = rate_per_s
        while self.sustained(self.offer(RAISE * low_per_s)):
            low_per_s *= RAISE
        return low_per_s, RAISE * low_per_s

    def halve(self, low_per_s: float, high_per_s: float, tolerance: float) -> tuple[float, float]:
        """Narrow the bracket down to a relative tolerance."""
        while high_per_s - low_per_s > tolerance * low_per_s:
            middle_per_s = (low_per_s + high_per_s) / 2
            if self.sustained(self.offer(middle_per_s)):
                low_per_s = middle_per_s
            else:
                high_per_s = middle_per_s
        return low_per_s, high_per_s
