"""A load: how many rows per second arrive, at every moment from its start."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Floats
from ebbflow.errors import LoadError
from ebbflow.workloads.parameters import FACTOR, Kind, parameters_of, write_number


class Load(ABC):
    """Rows per second over time; time 0 is its start. Before it, and after its end, nothing arrives.

    Loads are values: equal if written equally, and ``str`` writes an expression that
    :func:`~ebbflow.workloads.expression.parse_load` reads back. They add up and can be multiplied:

    >>> from ebbflow.workloads import Constant, Sine
    >>> load = Constant(level_per_s=50) + 2 * Sine(base_per_s=0, peak_per_s=100, period_s=60)
    >>> load.rate_per_s(np.array([0.0, 30.0]))
    array([ 50., 250.])
    >>> str(load)
    'constant(50) + 2 * sine(base=0, peak=100, period=1m)'
    """

    @property
    def duration_s(self) -> float:
        """When it ends; infinite if it does not."""
        return math.inf

    @property
    @abstractmethod
    def span_s(self) -> float:
        """Its natural length: once it has passed, the load has ended, stays level or starts again."""

    @property
    def sample_step_s(self) -> float:
        """How far apart its samples are where it was recorded, in played seconds; 0 where it is known at any time."""
        return 0.0

    @abstractmethod
    def _rate_per_s(self, times_s: Floats) -> Floats:
        """Rate at times that lie within the load."""

    @abstractmethod
    def _rows_between(self, edges_s: Floats) -> Floats:
        """Rows between neighbouring edges, all within the load."""

    def rate_per_s(self, times_s: Floats) -> Floats:
        """Rows per second at each of the times, in any order: finite, never negative."""
        times_s = np.asarray(times_s, dtype=np.float64)
        inside = (times_s >= 0) & (times_s < self.duration_s)
        return np.where(inside, self._rate_per_s(np.where(inside, times_s, 0.0)), 0.0)

    def rows_between(self, edges_s: Floats) -> Floats:
        """Rows that arrive between each edge and the next, edges ascending: ∫ rate dt, not sampled.

        >>> from ebbflow.workloads import Step
        >>> Step(base_per_s=0, peak_per_s=10, at_s=1.5).rows_between(np.array([0.0, 1.0, 2.0, 3.0]))
        array([ 0.,  5., 10.])
        """
        edges_s = np.clip(np.asarray(edges_s, dtype=np.float64), 0.0, self.duration_s)
        return np.maximum(self._rows_between(edges_s), 0.0) if len(edges_s) > 1 else np.zeros(0)

    def __add__(self, other: object) -> Load:
        return Sum(parts=(self, other)) if isinstance(other, Load) else NotImplemented

    def __mul__(self, factor: object) -> Load:
        return Scaled(factor=factor, load=self) if isinstance(factor, int | float) else NotImplemented

    __rmul__ = __mul__


@dataclass(frozen=True, kw_only=True)
class Sum(Load):
    """Several loads at once: rate = Σ rates. A sum of sums is one sum."""

    parts: tuple[Load, ...]

    def __post_init__(self) -> None:
        flat: list[Load] = []
        for part in self.parts:
            flat += part.parts if isinstance(part, Sum) else (part,)
        if len(flat) < 2:
            raise LoadError(f"a sum of {len(flat)} loads is no sum; it takes at least two")
        object.__setattr__(self, "parts", tuple(flat))

    @property
    def duration_s(self) -> float:
        """When the last part ends."""
        return max(part.duration_s for part in self.parts)

    @property
    def span_s(self) -> float:
        """The longest span of its parts."""
        return max(part.span_s for part in self.parts)

    @property
    def sample_step_s(self) -> float:
        """That of its coarsest part."""
        return max(part.sample_step_s for part in self.parts)

    def _rate_per_s(self, times_s: Floats) -> Floats:
        return np.asarray(np.sum([part.rate_per_s(times_s) for part in self.parts], axis=0))

    def _rows_between(self, edges_s: Floats) -> Floats:
        return np.asarray(np.sum([part.rows_between(edges_s) for part in self.parts], axis=0))

    def __str__(self) -> str:
        return " + ".join(str(part) for part in self.parts)


@dataclass(frozen=True, kw_only=True)
class Scaled(Load):
    """A load a number of times: rate = factor · rate."""

    factor: float
    load: Load

    def __post_init__(self) -> None:
        if not FACTOR.fits(self.factor):
            raise LoadError(f"the factor of a load is {write_number(self.factor)}; it must be {FACTOR.must}")

    @property
    def duration_s(self) -> float:
        """As of the load itself."""
        return self.load.duration_s

    @property
    def span_s(self) -> float:
        """As of the load itself."""
        return self.load.span_s

    @property
    def sample_step_s(self) -> float:
        """As of the load itself."""
        return self.load.sample_step_s

    def _rate_per_s(self, times_s: Floats) -> Floats:
        return self.factor * self.load.rate_per_s(times_s)

    def _rows_between(self, edges_s: Floats) -> Floats:
        return self.factor * self.load.rows_between(edges_s)

    def __str__(self) -> str:
        inner = f"({self.load})" if isinstance(self.load, Sum) else str(self.load)
        return f"{write_number(self.factor)} * {inner}"


@dataclass(frozen=True, kw_only=True)
class Shape(Load):
    """A load with a name and arguments: ``name(argument=value, …)``. Base of all that can be written so."""

    shape: ClassVar[str]
    """Its name in an expression."""

    def __post_init__(self) -> None:
        for parameter in parameters_of(type(self)):
            parameter.check(self.shape, getattr(self, parameter.field))
        self._check()

    def _check(self) -> None:
        """Raise ``LoadError`` where arguments that fit alone do not fit together."""

    def __str__(self) -> str:
        parameters = parameters_of(type(self))
        written = []
        for position, parameter in enumerate(parameters):
            value, kind = getattr(self, parameter.field), parameter.argument.kind
            if not parameter.required and value == parameter.default:
                continue
            bare = position == 0 and (len(parameters) == 1 or kind.read is str)
            written.append(("" if bare else f"{parameter.name}=") + kind.write(value))
        return f"{self.shape}({', '.join(written)})"


LOAD = Kind(must="a load, like constant(50)", read=str, fits=lambda v: isinstance(v, Load), write=str)
"""An argument that is itself a load; the parser reads it as an expression."""


def refined(edges_s: Floats, width_s: float) -> tuple[Floats, npt.NDArray[np.intp]]:
    """All edges, and between them all multiples of ``width_s``: for loads that change at those.

    Also the position of each of the old edges in the new ones.

    >>> refined(np.array([0.5, 1.0, 2.5]), 1.0)
    (array([0.5, 1. , 2. , 2.5]), array([0, 1, 3]))
    """
    first, last = math.floor(edges_s[0] / width_s), math.ceil(edges_s[-1] / width_s)
    every = np.unique(np.concatenate((edges_s, width_s * np.arange(first, last + 1))))
    inside = every[(every >= edges_s[0]) & (every <= edges_s[-1])]
    return inside, np.searchsorted(inside, edges_s)
