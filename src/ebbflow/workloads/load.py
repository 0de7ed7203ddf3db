"""A load: how many rows per second arrive at every moment from its start."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Floats
from ebbflow.core.expression import quote
from ebbflow.core.parameters import Kind, Number, Whole, convert, declared
from ebbflow.errors import InputError, LoadError

MAX_ROWS_PER_S = 1e12
"""A higher rate is a typing error, and sums of such rates could overflow a float."""
FACTOR = Number("Factor of a load.", above=0, at_most=1e9)


def seed_kind(meaning: str) -> Whole:
    """The kind of a random seed."""
    return Whole(meaning, at_least=0, at_most=2**63 - 1)


class Rate(Number):
    """Rows per second. The key of a field ends before ``_per_s``."""

    suffix = "_per_s"

    def __init__(self, meaning: str, *, key: str = "") -> None:
        super().__init__(meaning, at_least=0, at_most=MAX_ROWS_PER_S, unit="rows/s")
        self.key = key

    @property
    def must(self) -> str:
        """What a value must be."""
        return f"rows per second, {super().must}"


class Load(ABC):
    """Rows per second over time, from time 0. Nothing arrives before the start or after the end.

    Loads are values: they compare equal if their text is equal, and ``str`` gives an expression that
    :func:`~ebbflow.workloads.expression.parse_load` parses. They can be added and multiplied:

    >>> from ebbflow.workloads import Constant, Sine
    >>> load = Constant(level_per_s=50) + 2 * Sine(base_per_s=0, peak_per_s=100, period_s=60)
    >>> load.rate_per_s(np.array([0.0, 30.0]))
    array([ 50., 250.])
    >>> str(load)
    'constant(50) + 2 * sine(base=0, peak=100, period=1m)'
    """

    @property
    def duration_s(self) -> float:
        """When the load ends; infinite if it never does."""
        return math.inf

    @property
    @abstractmethod
    def span_s(self) -> float:
        """The natural length: after it the load has ended, stays level or repeats."""

    @property
    def sample_step_s(self) -> float:
        """The sampling interval of a recorded load, in replayed seconds; 0 for a formula."""
        return 0.0

    @abstractmethod
    def _rate_per_s(self, times_s: Floats) -> Floats:
        """The rate at times within the load."""

    @abstractmethod
    def _rows_between(self, edges_s: Floats) -> Floats:
        """The rows between neighbouring edges, all within the load."""

    def rate_per_s(self, times_s: Floats) -> Floats:
        """Rows per second at each time, in any order: finite and never negative."""
        times_s = np.asarray(times_s, dtype=np.float64)
        inside = (times_s >= 0) & (times_s < self.duration_s)
        return np.where(inside, self._rate_per_s(np.where(inside, times_s, 0.0)), 0.0)

    def rows_between(self, edges_s: Floats) -> Floats:
        """Rows that arrive between consecutive ascending edges: the exact ∫ rate dt, not a sampled one.

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
    """Several loads at once: rate = Σ rates. Nested sums are flattened."""

    parts: tuple[Load, ...]

    def __post_init__(self) -> None:
        flat: list[Load] = []
        for part in self.parts:
            flat += part.parts if isinstance(part, Sum) else (part,)
        if len(flat) < 2:
            raise LoadError(f"a sum of loads needs at least two parts; it has {len(flat)}")
        object.__setattr__(self, "parts", tuple(flat))

    @property
    def duration_s(self) -> float:
        """When the last part ends."""
        return max(part.duration_s for part in self.parts)

    @property
    def span_s(self) -> float:
        """The longest span of the parts."""
        return max(part.span_s for part in self.parts)

    @property
    def sample_step_s(self) -> float:
        """The step of the coarsest part."""
        return max(part.sample_step_s for part in self.parts)

    def _rate_per_s(self, times_s: Floats) -> Floats:
        return np.asarray(np.sum([part.rate_per_s(times_s) for part in self.parts], axis=0))

    def _rows_between(self, edges_s: Floats) -> Floats:
        return np.asarray(np.sum([part.rows_between(edges_s) for part in self.parts], axis=0))

    def __str__(self) -> str:
        return " + ".join(str(part) for part in self.parts)


class Derived(Load):
    """A load made of another one with the same duration and span."""

    load: Load

    @property
    def duration_s(self) -> float:
        """When the other load ends."""
        return self.load.duration_s

    @property
    def span_s(self) -> float:
        """The span of the other load."""
        return self.load.span_s

    @property
    def sample_step_s(self) -> float:
        """The sampling interval of the other load."""
        return self.load.sample_step_s


@dataclass(frozen=True, kw_only=True)
class Scaled(Derived):
    """A load multiplied by a number: rate = factor · rate."""

    factor: float
    load: Load

    def __post_init__(self) -> None:
        _check("the factor of a load", FACTOR, self.factor)

    def _rate_per_s(self, times_s: Floats) -> Floats:
        return self.factor * self.load.rate_per_s(times_s)

    def _rows_between(self, edges_s: Floats) -> Floats:
        return self.factor * self.load.rows_between(edges_s)

    def __str__(self) -> str:
        inner = f"({self.load})" if isinstance(self.load, Sum) else str(self.load)
        return f"{FACTOR.write(self.factor)} * {inner}"


@dataclass(frozen=True, kw_only=True)
class Shape(Load):
    """A load with a name and arguments, ``name(argument=value, …)``: the base of all loads in the catalogue."""

    shape: ClassVar[str]
    """The name in an expression."""

    def __post_init__(self) -> None:
        for key, parameter in declared(type(self)).items():
            value = getattr(self, parameter.argument)
            if value is not None or parameter.default is not None or parameter.required:
                _check(f"{key} of {self.shape}", parameter.kind, value)
        self._check()

    def _check(self) -> None:
        """Raise ``LoadError`` if arguments contradict each other."""

    def __str__(self) -> str:
        parameters = declared(type(self))
        written = []
        for position, (key, parameter) in enumerate(parameters.items()):
            value, kind = getattr(self, parameter.argument), parameter.kind
            if not parameter.required and value == parameter.default:
                continue
            bare = position == 0 and (len(parameters) == 1 or not isinstance(kind, Number))
            text = str(value) if isinstance(kind, LoadKind) else quote(kind.write(value))
            written.append(text if bare else f"{key}={text}")
        return f"{self.shape}({', '.join(written)})"


class LoadKind(Kind):
    """An argument that is itself a load; the parser reads it as an expression."""

    type_name = "load"
    must = "a load, like constant(50)"

    def accept(self, value: Any) -> Load:
        """The load."""
        if not isinstance(value, Load):
            raise ValueError(value)
        return value


def _check(label: str, kind: Kind, value: object) -> None:
    try:
        convert(label, kind, value, from_text=False)
    except InputError as error:
        raise LoadError(str(error)) from None


def refined(edges_s: Floats, width_s: float) -> tuple[Floats, npt.NDArray[np.intp]]:
    """The edges plus all multiples of ``width_s`` between them, for loads that change at those multiples.

    Returns the refined edges and the position of each original edge among them.

    >>> refined(np.array([0.5, 1.0, 2.5]), 1.0)
    (array([0.5, 1. , 2. , 2.5]), array([0, 1, 3]))
    """
    first, last = math.floor(edges_s[0] / width_s), math.ceil(edges_s[-1] / width_s)
    every = np.unique(np.concatenate((edges_s, width_s * np.arange(first, last + 1))))
    inside = every[(every >= edges_s[0]) & (every <= edges_s[-1])]
    return inside, np.searchsorted(inside, edges_s)
