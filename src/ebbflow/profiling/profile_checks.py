"""What the numbers and names in the file of a profile may be: each key, and what would be right in its place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ebbflow.profiling.models import Knots, Model, fall

Rule = tuple[Callable[[float], bool], str]

_ANY: Rule = (lambda _: True, "a number")
_FROM_0: Rule = (lambda value: value >= 0, "a number of 0 or more")
_ABOVE_0: Rule = (lambda value: value > 0, "a number above 0")
_FROM_1: Rule = (lambda value: value >= 1, "a number of 1 or more")

LARGEST = 1e15
"""Larger ones are no rate, count or time, and their squares would be infinite."""
RULES: dict[str, Rule] = {
    **dict.fromkeys(("cores", "tasks", "skew"), _FROM_1),
    "x_scale": _ABOVE_0,
    **dict.fromkeys(
        ("fixed", "x_middle", "y_middle", "y_scale", "weights", "shifts", "outputs", "output_shift"), _ANY
    ),
}
"""By key; a number under any other key counts, lasts or costs something, and is 0 or more."""


def wrong_number(plain: Any, path: str = "") -> str | None:
    """The first number that cannot be meant, with its key and what would be right; None where all can.

    >>> wrong_number({"cpu": {"split": {"low": 1.0, "slope": float("nan")}}})
    'cpu.split.slope is nan; write a number of 0 or more'
    >>> wrong_number({"costs": {"stages": [{"tasks": 4}, {"tasks": 0}]}})
    'costs.stages[1].tasks is 0; write a number of 1 or more'
    >>> wrong_number({"slope": 1e300})
    'slope is 1e+300; write a number of 0 or more, and no more than 1e+15'
    """
    for key, value, rule in _numbers(plain, path, _FROM_0):
        fits, right = rule
        if math.isfinite(value) and abs(value) > LARGEST:
            return f"{key} is {value:g}; write {right}, and no more than {LARGEST:g}"
        if not math.isfinite(value) or not fits(value):
            return f"{key} is {value:g}; write {right}"
    return None


def wrong_fall(model: Model, key: str, low: float, high: float) -> str | None:
    """Where a model says that more costs less, with its key and what would be right; None where it does not.

    >>> wrong_fall(Knots(x=(0.0, 1.0, 2.0), y=(0.0, 3.0, 1.0)), "cpu.split.model", 0.0, 2.0)
    'cpu.split.model.y[2] is 1 and one before it is 3; write values of y that never fall'
    """
    found = fall(model, low, high)
    if found is None:
        return None
    before, behind = (model.at(x) for x in found)
    if isinstance(model, Knots):
        at = model.x.index(found[1])
        return (
            f"{key}.y[{at}] is {behind:g} and one before it is {before:g}; write values of y that never fall"
        )
    return (
        f"{key} falls from {before:g} at {found[0]:g} to {behind:g} at {found[1]:g}; write one that never falls "
        f"between low and high"
    )


def _numbers(plain: Any, path: str, rule: Rule) -> Iterator[tuple[str, float, Rule]]:
    if isinstance(plain, Mapping):
        for key, value in plain.items():
            yield from _numbers(value, f"{path}.{key}" if path else key, RULES.get(key, _FROM_0))
    elif isinstance(plain, list | tuple):
        for number, value in enumerate(plain):
            yield from _numbers(value, f"{path}[{number}]", rule)
    elif isinstance(plain, float):
        yield path, plain, rule
    elif isinstance(plain, int) and not isinstance(plain, bool):
        yield path, float(plain) if abs(plain) < 10**300 else math.inf, rule
