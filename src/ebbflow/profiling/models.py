"""Functions of one variable, as parameters that a profile can write to its file. ``fitting`` finds them.

Evaluating one takes a microsecond or two: a strategy does so hundreds of times for one decision.
"""

from __future__ import annotations

import math
from bisect import bisect_right

import msgspec


class Proportional(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    gc=False,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="proportional",
):
    """y = per_unit · x

    >>> Proportional(per_unit=0.002).at(100.0)
    0.2
    """

    per_unit: float

    def at(self, x: float) -> float:
        """The value at x."""
        return self.per_unit * x


class LinearCurve(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    gc=False,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="line",
):
    """y = fixed + per_unit · x

    >>> LinearCurve(fixed=0.1, per_unit=0.002).at(100.0)
    0.30000000000000004
    """

    fixed: float
    per_unit: float

    def at(self, x: float) -> float:
        """The value at x."""
        return self.fixed + self.per_unit * x


class Knots(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="knots"
):
    """Straight lines between points that never fall; constant before the first and after the last.

    >>> curve = Knots(x=(0.0, 10.0, 20.0), y=(0.0, 1.0, 4.0))
    >>> [curve.at(x) for x in (-5.0, 5.0, 15.0, 99.0)]
    [0.0, 0.5, 2.5, 4.0]
    """

    x: tuple[float, ...]
    y: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.x or len(self.x) != len(self.y):
            raise ValueError("knots need as many x as y, and at least one")
        if any(b <= a for a, b in zip(self.x, self.x[1:], strict=False)):
            raise ValueError("the x of knots must rise")

    def at(self, x: float) -> float:
        """The value at x."""
        after = bisect_right(self.x, x)
        if after == 0:
            return self.y[0]
        if after == len(self.x):
            return self.y[-1]
        x0, x1, y0, y1 = self.x[after - 1], self.x[after], self.y[after - 1], self.y[after]
        return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


class NetCurve(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="net"
):
    """Elysium's net (§5.1): one input, one hidden layer of tanh, one output.

        y = y_middle + y_scale · (b + Σ_k v_k · tanh(w_k · (x − x_middle) / x_scale + c_k))

    Elysium's output is tanh too; a linear one can keep rising with the data.

    >>> NetCurve(x_middle=5.0, x_scale=5.0, y_middle=1.0, y_scale=2.0,
    ...     weights=(1.0,), shifts=(0.0,), outputs=(0.5,), output_shift=0.0).at(5.0)
    1.0
    """

    x_middle: float
    x_scale: float
    y_middle: float
    y_scale: float
    weights: tuple[float, ...]
    shifts: tuple[float, ...]
    outputs: tuple[float, ...]
    output_shift: float

    def __post_init__(self) -> None:
        if not len(self.weights) == len(self.shifts) == len(self.outputs):
            raise ValueError("a net needs as many shifts and outputs as weights")
        if not self.x_scale > 0:
            raise ValueError(f"the x_scale of a net must be above 0, not {self.x_scale:g}")

    def at(self, x: float) -> float:
        """The value at x."""
        z = (x - self.x_middle) / self.x_scale
        total = self.output_shift
        for weight, shift, output in zip(self.weights, self.shifts, self.outputs, strict=True):
            total += output * math.tanh(weight * z + shift)
        return self.y_middle + self.y_scale * total


Model = Proportional | LinearCurve | Knots | NetCurve
"""From the simplest to the one with the most freedom."""

CHECKPOINTS = 200
"""Places in its range at which a net is checked for a fall: three tanh bend only a few times."""
DIP = 0.01
"""Share of its largest value by which a net may fall: a net is never quite level."""


def fall(model: Model, low: float, high: float) -> tuple[float, float] | None:
    """Where a model falls between two places: (the highest point, a lower one after it); None if it never falls.

    More rows never cost less, and the search for sizes relies on it.

    >>> fall(Knots(x=(0.0, 1.0, 2.0), y=(0.0, 3.0, 1.0)), 0.0, 2.0)
    (1.0, 2.0)
    >>> fall(LinearCurve(fixed=1.0, per_unit=0.5), 0.0, 2.0)
    """
    if isinstance(model, Proportional | LinearCurve):
        return None if model.per_unit >= 0 or low >= high else (low, high)
    if isinstance(model, Knots):
        places, dip = model.x, 0.0
    else:
        places, dip = tuple(low + (high - low) * k / CHECKPOINTS for k in range(CHECKPOINTS + 1)), DIP
    values = [max(0.0, model.at(x)) for x in places]  # as in estimates
    slack = dip * max(values)
    top = 0
    for at, value in enumerate(values):
        if value > values[top]:
            top = at
        elif value < values[top] - slack:
            return places[top], places[at]
    return None
