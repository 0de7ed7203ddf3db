"""What trained forecasters share: the series they are fitted to, and what a method and its model look like.

Loads, methods and models are msgspec structs of plain numbers. So they cross a process boundary and go into a
model file as JSON. To add a method, write its module, which names it in ``METHODS`` (functions of a random seed), and
list method and model in ``AnyMethod`` and ``AnyModel``, the types that a process boundary lets pass.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

import msgspec
import numpy as np

from ebbflow.core.curve import Floats

CYCLE_S = {
    "minute": 3600.0,
    "hour": 86_400.0,
    "weekday": 7 * 86_400.0,
    "day": 31 * 86_400.0,
    "month": 366 * 86_400.0,
}
"""Time features, and after how many seconds each starts again."""


class TrainingLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Mean loads of even steps, oldest first, without gaps.

    >>> series = TrainingLoad.of(np.array([10.0, 20.0, 30.0]), end_s=180.0, step_s=60.0)
    >>> series.values.tolist(), series.ends_s.tolist(), series.until(2).values.tolist(), series.until(2).end_s
    ([10.0, 20.0, 30.0], [60.0, 120.0, 180.0], [10.0, 20.0], 120.0)
    """

    end_s: float
    """End of the last step."""
    step_s: float
    loads: bytes
    """64-bit floats, little-endian. Encoding 43,200 of them as decimal numbers would take 5 ms of the loop's time."""

    @classmethod
    def of(cls, values: Floats, *, end_s: float, step_s: float) -> TrainingLoad:
        """From an array."""
        return cls(end_s=end_s, step_s=step_s, loads=values.astype("<f8").tobytes())

    @property
    def values(self) -> Floats:
        """As an array."""
        return np.frombuffer(self.loads, dtype="<f8")

    @property
    def ends_s(self) -> Floats:
        """End of each step."""
        return np.asarray(self.end_s - self.step_s * np.arange(len(self) - 1, -1, -1), dtype=np.float64)

    def __len__(self) -> int:
        return len(self.loads) // 8

    def until(self, count: int) -> TrainingLoad:
        """The first ``count`` steps."""
        dropped = len(self) - count
        return TrainingLoad(
            end_s=self.end_s - dropped * self.step_s, step_s=self.step_s, loads=self.loads[: 8 * count]
        )


class Model(Protocol):
    """Fitted parameters."""

    @property
    def needs(self) -> int:
        """How many recent values ``ahead`` reads at most."""
        ...

    def ahead(self, recent: Floats, end_s: float, step_s: float, steps: int) -> Floats:
        """The loads of the next steps after ``recent``, whose last value ends at ``end_s``."""
        ...


Fitted = TypeVar("Fitted", bound=Model)
"""The kind of model that a method fits."""


class Method(Protocol[Fitted]):
    """A way to fit a model; its fields are its options."""

    @property
    def least_steps(self) -> int:
        """Shortest series that can be fitted."""
        ...

    def fit(self, series: TrainingLoad) -> Fitted:
        """A model; ``InputError`` if none can be fitted."""
        ...

    def refit(self, series: TrainingLoad, model: Fitted) -> Fitted:
        """A model for a longer series, with the choices of ``model`` (orders, epochs, number of trees)."""
        ...


def at_least(values: Floats, count: int) -> Floats:
    """The values, preceded by copies of the first one if there are fewer than ``count``."""
    missing = count - len(values)
    return values if missing <= 0 else np.concatenate((np.full(missing, values[0]), values))


def time_features(ends_s: Floats, names: tuple[str, ...]) -> Floats:
    """Calendar fields (UTC) of times in seconds since 1970: one row per time, one column per name.

    >>> time_features(np.array([0.0, 90_000.0]), ("day", "weekday", "month", "hour")).tolist()  # a Thursday in January
    [[1.0, 3.0, 1.0, 0.0], [2.0, 4.0, 1.0, 1.0]]
    """
    seconds = np.floor(ends_s).astype(np.int64)
    columns = []
    for name in names:
        if name == "minute":
            field = seconds // 60 % 60
        elif name == "hour":
            field = seconds // 3600 % 24
        elif name == "weekday":
            field = (seconds // 86_400 + 3) % 7
        else:
            dates = seconds.astype("datetime64[s]").astype("datetime64[D]")
            months = dates.astype("datetime64[M]")
            field = (
                (dates - months).astype(np.int64) + 1 if name == "day" else months.astype(np.int64) % 12 + 1
            )
        columns.append(field.astype(np.float64))
    return np.stack(columns, axis=1)
