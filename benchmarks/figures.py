"""A measured figure and its bar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A measurement; without a ``bar`` it is only reported."""

    what: str
    value: float
    unit: str
    bar: float | None = None
    at_least: bool = False

    @property
    def ok(self) -> bool:
        if self.bar is None:
            return True
        return self.value >= self.bar if self.at_least else self.value <= self.bar

    def to_json(self) -> dict[str, Any]:
        return {"what": self.what, "value": self.value, "unit": self.unit, "bar": self.bar, "ok": self.ok}


def show(figures: list[Figure]) -> None:
    """Print the figures as a table."""
    table = Table("figure", "measured", "bar", "", box=None, pad_edge=False)
    for figure in figures:
        sign = "≥" if figure.at_least else "≤"
        bar = "" if figure.bar is None else f"{sign} {figure.bar:,g} {figure.unit}"
        verdict = "" if figure.bar is None else ("ok" if figure.ok else "MISSED")
        table.add_row(figure.what, f"{figure.value:,.4g} {figure.unit}", bar, verdict)
    Console(width=120).print(table)
