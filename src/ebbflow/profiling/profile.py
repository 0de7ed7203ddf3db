"""The profile of an application: what its operators select, what they cost, and how surely that is known.

Three profilers of Elysium's (§3.2) and what Spark needs besides. A profile is a value: the file it is written to
(``profile_file``) is the same thing in TOML, models as numbers, never as code.
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
"""Of the file. A reader refuses a newer one rather than misread it."""


class Estimate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An answer, with how far off such answers were when they could be checked."""

    value: float
    error: float
    """Mean relative error of the profile in cross-validation; 1 where nothing was measured."""
    inside: bool
    """Whether it was asked within the range it was learned in."""


class Spread(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """A quantity that is the same whatever the load, and how much it varied."""

    mean: float
    deviation: float = 0.0
    """Standard deviation of what was seen."""
    samples: int = 0


class Range(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """From the least to the most that was seen of something.

    >>> seen = Range(low=210.0, high=3900.0)
    >>> seen.holds(4000.0), seen.holds(5200.0), str(seen.with_one(5200.0))
    (True, False, '210 to 5200')
    """

    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Whether it lies inside, or no more than a tenth beyond: loads are read with noise, and at a steady one the
        range would else be left at every look."""
        return self.low / BEYOND <= value <= BEYOND * self.high

    def with_one(self, value: float) -> Range:
        """The range once this was seen too."""
        if self.low <= value <= self.high:
            return self
        return Range(low=min(self.low, value), high=max(self.high, value))

    def __str__(self) -> str:
        return f"{self.low:.0f} to {self.high:.0f}"


BEYOND = 1.1
"""So many times the highest that was seen, and no more, is still the range that was seen."""


class Fitted(msgspec.Struct, frozen=True, kw_only=True):
    """A model, where it was learned, and how well it did on data it had not seen.

    Outside of that range a model is only a guess; a net would even stand still there. So from the edge on the
    answer is y(edge) + slope · (x − edge), never below 0.
    """

    model: Model
    low: float
    """The range of x in which it was learned."""
    high: float
    slope: float
    """The model's own where it is straight; else that of the straight line through all samples."""
    error: float
    """Mean over held-out samples of |estimate − measured| / measured (``fitting`` says what of values near 0)."""
    samples: int
    tried: Mapping[str, float] = {}
    """The error of each kind of model that was tried, itself included."""

    def estimate(self, x: float) -> Estimate:
        """The value at x."""
        if self.low <= x <= self.high:
            value, inside = self.model.at(x), True
        else:
            edge = self.low if x < self.low else self.high
            value, inside = self.model.at(edge) + self.slope * (x - edge), False
        return Estimate(value=value if value > 0 else 0.0, error=self.error, inside=inside)

    def in_words(self, x: float, unit: str) -> str:
        """The estimate at x for a person, with a warning outside of the range.

        >>> cpu = Fitted(model=Proportional(per_unit=0.002), low=10.0, high=100.0, slope=0.002,
        ...              error=0.021, samples=80)
        >>> cpu.in_words(50.0, "rows/s")
        '0.100 (mean error 2.1 %)'
        >>> cpu.in_words(400.0, "rows/s")
        '0.800 (a guess: 400 rows/s was asked, and 10 to 100 was seen)'
        """
        found = self.estimate(x)
        if not self.samples:
            return f"{found.value:.3f} (not measured, only assumed)"
        if found.inside:
            return f"{found.value:.3f} (mean error {100 * self.error:.1f} %)"
        return (
            f"{found.value:.3f} (a guess: {x:g} {unit} was asked, and {self.low:g} to {self.high:g} was seen)"
        )


class CpuProfile(Fitted, frozen=True, kw_only=True):
    """CPU of one instance of an operator, in cores (1.0 = one core full), from its input rate in rows/s (OCUP)."""


class NodeProfile(Fitted, frozen=True, kw_only=True):
    """Share of a node's cores in use, from the CPU of the instances on it in cores (OP): the engine's overhead.

    >>> NodeProfile.assumed(cores=4).estimate(2.0).value
    0.5
    """

    cores: int
    """Of the nodes it was learned on."""

    @classmethod
    def assumed(cls, *, cores: int) -> NodeProfile:
        """Where no node's CPU was read: the sum ÷ cores, no overhead at all."""
        per_unit = 1.0 / max(1, cores)
        return cls(
            model=Proportional(per_unit=per_unit), low=0.0, high=0.0, slope=per_unit, error=1.0, samples=0,
            cores=max(1, cores),
        )  # fmt: skip


class StageCosts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One stage of a query, as ``batch_model`` has it."""

    tasks: int
    per_task_s: float
    """o: what a task costs before its first row."""
    per_row_s: float
    """c: task seconds of a source row."""
    skew: float = 1.0
    error: float | None = None
    """Mean of |expected − measured| / expected of the task time of a batch, by what the batches before it let expect;
    None where nobody looked, as in older files."""

    def task_time_s(self, tasks: int, rows: float) -> float:
        """p·o + c·n: what all tasks of a batch take together."""
        return tasks * self.per_task_s + self.per_row_s * rows


class Reconfiguration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a change of parallelism cost, in seconds of its parts (Elysium §5.2: R_state, R_restart, R_queue)."""

    stop_s: Spread
    """From asking until nothing runs: the batch or the queues under way are finished."""
    state_s: Spread
    """State is repartitioned or moved."""
    restart_s: Spread
    """From there until it is started again. On Spark that is when ``start()`` returns; what its first batch takes
    longer than others is ``reload_s`` of the costs, and not in here."""
    drain_s: Spread
    """From there until no more rows wait than did before."""

    @property
    def still_s(self) -> float:
        """Seconds in which nothing runs."""
        return self.stop_s.mean + self.state_s.mean + self.restart_s.mean

    @property
    def total_s(self) -> float:
        """Until all is as before."""
        return self.still_s + self.drain_s.mean


class SparkCosts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What batches, nodes and restarts cost. On an engine without batches the first two are empty."""

    driver_s: float = 0.0
    """d: what a batch costs whatever its size."""
    stages: tuple[StageCosts, ...] = ()
    batch_rows: Range | None = None
    """Rows of the batches from which these two were learned; None where nobody looked, as in older files."""
    lead_time_s: Spread | None = None
    """From asking for a node to its first work; None where none was asked for."""
    state_rows: float | None = None
    """Keys held by stateful operators, as last read."""
    state_bytes: float | None = None
    reload_s: Spread | None = None
    """How much longer the first batch after a (re)start took than such a batch takes: state is loaded in it."""
    reconfiguration: Reconfiguration | None = None

    @property
    def per_row_s(self) -> float:
        """Task seconds that a source row costs in all stages."""
        return sum(stage.per_row_s for stage in self.stages)

    @property
    def restart_s(self) -> float | None:
        """Seconds in which a restart takes nothing in; None where none was seen."""
        return None if self.reconfiguration is None else self.reconfiguration.still_s


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One application.

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
    """Of each stream, by the operators it joins. From the pipeline itself (by its name) to an operator: rows that
    enter the operator per row at the source, where the streams between are not known."""
    cpu: Mapping[str, CpuProfile] = field(default_factory=dict)
    node: NodeProfile = field(default_factory=lambda: NodeProfile.assumed(cores=1))
    costs: SparkCosts | None = None
    target: str = ""
    """Where it was learned: ``spark`` or ``simulator``."""
    learned_at: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    version: int = VERSION

    @property
    def graph(self) -> Pipeline:
        """The operators that it knows, with the streams whose selectivity it knows: as much of the pipeline as can be
        told by who has only the profile.

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
        """Back from TOML; ``InputError`` in one line, with ``where`` it stood, if it cannot be read."""
        from ebbflow.profiling.profile_file import from_text

        return from_text(text, where)

    @classmethod
    def read(cls, path: Path) -> Profile:
        """From a file."""
        from ebbflow.profiling.profile_file import read

        return read(path)
