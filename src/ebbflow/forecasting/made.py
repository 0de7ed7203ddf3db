"""Forecasts kept until their step has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.forecasting.grid import GRID, LONGEST
from ebbflow.forecasting.state import State, Stateful

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Tables = TypeVar("Tables", bound="DataclassInstance")
"""A dataclass of arrays, each with one row per horizon of the grid."""
ROWS = np.arange(len(GRID))


@dataclass(frozen=True, kw_only=True, eq=False)
class Due(Generic[Tables]):
    """What was forecast for one step."""

    valid: Floats
    """For each horizon of the grid: 1 if a forecast for this step was made, else 0."""
    tables: Tables
    """The rows that were kept with it."""


class Made(Stateful, Generic[Tables]):
    """Keeps tables made at the last steps and returns the rows for a step. ``shapes``: of a row of each table.

    >>> @dataclass(frozen=True, kw_only=True)
    ... class Kept:
    ...     load: Floats
    ...     limits: Floats
    >>> made = Made(Kept, load=(), limits=(2,))
    >>> made.keep(7, Kept(load=np.full(len(GRID), 5.0), limits=np.ones((len(GRID), 2))))
    >>> due = made.due(9)  # only the forecast two steps ahead was made for step 9
    >>> due.valid.tolist(), due.tables.load[1], due.tables.limits[1].tolist()
    ([0.0, 1.0, 0.0, 0.0, 0.0, 0.0], np.float64(5.0), [1.0, 1.0])
    """

    def __init__(self, kind: type[Tables], **shapes: tuple[int, ...]) -> None:
        self._kind = kind
        self._at = np.full(LONGEST + 1, np.iinfo(np.int64).min)
        self._tables = [np.zeros((LONGEST + 1, len(GRID), *shapes[each.name])) for each in fields(kind)]

    def keep(self, index: int, tables: Tables) -> None:
        """Keep what was made at a step."""
        slot = index % len(self._at)
        self._at[slot] = index
        for kept, each in zip(self._tables, fields(self._kind), strict=True):
            kept[slot] = getattr(tables, each.name)

    def due(self, index: int) -> Due[Tables]:
        """What was made for this step."""
        made = index - GRID
        slots = made % len(self._at)
        rows = {
            each.name: kept[slots, ROWS] for kept, each in zip(self._tables, fields(self._kind), strict=True)
        }
        return Due(valid=(self._at[slots] == made).astype(np.float64), tables=self._kind(**rows))

    def state(self) -> State:
        """The tables; their kind is not learned."""
        return {name: value for name, value in super().state().items() if name != "_kind"}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        super().restore({**state, "_kind": self._kind})
