"""The profile of an application: selectivities and costs of its operators, with their errors.

It has the results of Elysium's three profilers (§3.2), and the costs of batches, nodes and restarts. Its file
(``profile_file``) is TOML, with models as numbers, never as code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ebbflow.core.pipeline import Operator, Pipeline, Stream
from ebbflow.profiling.models import Model, Proportional

SIMULATOR, SPARK = "simulator", "spark"
"""Where a profile was learned."""
VERSION = 1
"""Version of the file format. Newer files are rejected."""


class Estimate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An estimated value and its error."""

    value: float
    error: float
    """Mean relative error of the profile in cross-validation; 1 if nothing was measured."""
    inside: bool
    """Whether the input lies in the range that was learned from."""


class Spread(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """Mean and standard deviation of a quantity that does not depend on the load."""

    mean: float
    deviation: float = 0.0
    samples: int = 0


class Range(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """The observed range of a quantity.

    >>> observed = Range(low=210.0, high=3900.0)
    >>> observed.holds(4000.0), observed.holds(5200.0), str(observed.with_one(5200.0))
    (True, False, '210 to 5200')
    """

    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Whether a value lies inside, or at most a tenth beyond: otherwise noise would leave the range at a steady
        load."""
        return self.low / BEYOND <= value <= BEYOND * self.high

    def with_one(self, value: float) -> Range:
        """The range extended to a value."""
        if self.low <= value <= self.high:
            return self
        return Range(low=min(self.low, value), high=max(self.high, value))

    def __str__(self) -> str:
        return f"{self.low:.0f} to {self.high:.0f}"


BEYOND = 1.1
"""A range includes values up to this many times beyond its ends."""


class Fitted(msgspec.Struct, frozen=True, kw_only=True):
    """A fitted model, the range it was learned in, and its error on unseen data.

    Outside that range a model is a guess, and a net even flat. So beyond an edge the estimate is
    y(edge) + slope · (x − edge), and at least 0.
    """

    model: Model
    low: float
    """Lower end of the range of x."""
    high: float
    slope: float
    """The slope of a straight model; else that of the straight line through all samples."""
    error: float
    """Mean of |estimate − measured| / measured over held-out samples (see ``fitting`` for values near 0)."""
    samples: int
    tried: Mapping[str, float] = {}
    """The error of each kind of model that was tried."""

    def estimate(self, x: float) -> Estimate:
        """The value at x."""
        if self.low <= x <= self.high:
            value, inside = self.model.at(x), True
        else:
            edge = self.low if x < self.low else self.high
            value, inside = self.model.at(edge) + self.slope * (x - edge), False
        return Estimate(value=value if value > 0 else 0.0, error=self.error, inside=inside)


class CpuProfile(Fitted, frozen=True, kw_only=True):
    """CPU of one instance of an operator in cores (1.0 is one full core), by its input rate in rows/s (OCUP)."""


class NodeProfile(Fitted, frozen=True, kw_only=True):
    """Share of a node's cores in use, by the CPU of its instances in cores (OP): the overhead of the engine.

    >>> NodeProfile.assumed(cores=4).estimate(2.0).value
    0.5
    """

    cores: int
    """Cores of the nodes it was learned on."""

    @classmethod
    def assumed(cls, *, cores: int) -> NodeProfile:
        """Without readings of the CPU of nodes: the sum ÷ cores, without overhead."""
        per_unit = 1.0 / max(1, cores)
        return cls(
            model=Proportional(per_unit=per_unit), low=0.0, high=0.0, slope=per_unit, error=1.0, samples=0,
            cores=max(1, cores),
        )  # fmt: skip


class StageCosts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Costs of one stage of a query (see ``batch.model``)."""

    tasks: int
    per_task_s: float
    """o: seconds of a task before its first row."""
    per_row_s: float
    """c: task seconds of a source row."""
    skew: float = 1.0
    error: float | None = None
    """Mean of |expected − measured| / expected of the task time of a
    batch, predicted from those before; None if unknown, as in older files."""

    def task_time_s(self, tasks: int, rows: float) -> float:
        """p·o + c·n: total time of the tasks of a batch."""
        return tasks * self.per_task_s + self.per_row_s * rows


class Reconfiguration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cost of a change of parallelism: the seconds of its parts (Elysium §5.2: R_state, R_restart, R_queue)."""

    stop_s: Spread
    """From the request until nothing runs: the running batch or the queues are finished."""
    state_s: Spread
    """Repartitioning or moving state."""
    restart_s: Spread
    """From there until it has started again. On Spark that is when ``start()`` returns; the extra
    time of its first batch is not included, but in ``SparkCosts.reload_s``."""
    drain_s: Spread
    """From there until the queue is back to normal."""

    @property
    def still_s(self) -> float:
        """Seconds during which nothing runs."""
        return self.stop_s.mean + self.state_s.mean + self.restart_s.mean


class SparkCosts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Costs of batches, nodes and restarts. Without batches, the first two are empty."""

    driver_s: float = 0.0
    """d: seconds of a batch whatever its size."""
    stages: tuple[StageCosts, ...] = ()
    batch_rows: Range | None = None
    """Range of the batch sizes that these two were learned from; None if unknown, as in older files."""
    lead_time_s: Spread | None = None
    """From requesting a node to its first work; None if none was requested."""
    state_rows: float | None = None
    """Keys in the state of operators, as last read."""
    state_bytes: float | None = None
    reload_s: Spread | None = None
    """How much longer the first batch after a restart takes: it loads state."""
    reconfiguration: Reconfiguration | None = None

    @property
    def per_row_s(self) -> float:
        """Task seconds that a source row costs in all stages."""
        return sum(stage.per_row_s for stage in self.stages)

    @property
    def restart_s(self) -> float | None:
        """Seconds during which a restart stops processing; None if none was observed."""
        return None if self.reconfiguration is None else self.reconfiguration.still_s


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The profile of one application.

    >>> cpu = CpuProfile(model=Proportional(per_unit=0.002), low=10.0, high=400.0, slope=0.002, error=0.01, samples=90)
    >>> profile = Profile(pipeline="words", cpu={"split": cpu}, node=NodeProfile.assumed(cores=4),
    ...                   selectivity={("read", "split"): Spread(mean=17.9, deviation=0.5, samples=90)})
    >>> profile.cpu["split"].estimate(100.0).value
    0.2
    >>> Profile.from_text(profile.to_text()) == profile
    True
    """

    pipeline: str
    selectivity: Mapping[tuple[str, str], Spread] = field(default_factory=dict)
    """Selectivity of each stream, by the operators it joins. From the pipeline (by name) to an operator: rows into the
    operator per row at the source, if the streams between are unknown."""
    cpu: Mapping[str, CpuProfile] = field(default_factory=dict)
    node: NodeProfile = field(default_factory=lambda: NodeProfile.assumed(cores=1))
    costs: SparkCosts | None = None
    target: str = ""
    """Where it was learned: ``spark`` or ``simulator``."""
    learned_at: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    version: int = VERSION

    @property
    def graph(self) -> Pipeline:
        """The pipeline as far as the profile knows it: its operators, and the streams with a known selectivity.

        >>> profile = Profile(pipeline="p", selectivity={("p", "a"): Spread(mean=1.0), ("a", "b"): Spread(mean=3.0)})
        >>> profile.graph.order, profile.graph.sources, profile.graph.streams[0].selectivity
        (('a', 'b'), ('a',), 3.0)
        """
        streams = [(a, b, spread) for (a, b), spread in self.selectivity.items() if a != self.pipeline]
        ends = [end for a, b, _ in streams for end in (a, b)]
        entered = [b for a, b in self.selectivity if a == self.pipeline]
        return Pipeline(
            name=self.pipeline,
            operators=tuple(Operator(name=name) for name in dict.fromkeys((*ends, *entered, *self.cpu))),
            streams=tuple(Stream(source=a, target=b, selectivity=s.mean) for a, b, s in streams),
        )

    def to_text(self) -> str:
        """As TOML."""
        from ebbflow.profiling.profile_file import to_text

        return to_text(self)

    @classmethod
    def from_text(cls, text: str, where: str = "the profile") -> Profile:
        """Read from TOML; an error names ``where`` it came from."""
        from ebbflow.profiling.profile_file import from_text

        return from_text(text, where)

    @classmethod
    def read(cls, path: Path) -> Profile:
        """From a file."""
        from ebbflow.profiling.profile_file import read

        return read(path)
