"""The small values of a policy: how far, up to where, of what, how often. Each is written as one word or number.

============  =====================================================  ================
value         written                                                in Python
============  =====================================================  ================
``Span``      ``30s``, ``1m30s``                                     ``seconds(30)``
``Quantity``  ``300 tuples``, ``80%``, ``64MB``, ``5 tuples/s``      ``tuples(300)``
``Step``      ``1``, ``x2``, ``25%``                                 ``absolute(1)``
``Limit``     ``8``, ``x2`` (of the original size)                   ``nodes(8)``
``Measure``   ``mean over 1m``, ``p95 over 5m``                      ``mean_over(…)``
``Often``     ``4 of 5``                                             ``in_at_least(…)``
``Clock``     ``08:30``                                              the same
============  =====================================================  ================

What is written is read back to the same value: ``parse(value.plain()) == value``.
"""

from __future__ import annotations

import math
import re
from enum import StrEnum
from typing import Any, ClassVar

import msgspec

from ebbflow.errors import PolicyError
from ebbflow.policy.quantities import SPAN, Span, number_text, plain_text, real, shown

LARGEST_SIZE = 1_000_000_000
"""Steps, limits and sizes past a billion are slips."""
MOST_TIMES = MOST_PERCENT = 1000
MOST_READINGS = 100_000

_PLAIN = r"-?\d+(?:\.\d+)?"
# for schemas: numbers within their ends
_ZERO = r"0+(\.0+)?"
_TO_1000 = r"0*(1000(\.0+)?|\d{1,3}(\.\d+)?)"
_TO_BILLION = r"0*(1000000000(\.0+)?|\d{1,9}(\.\d+)?)"
_SIZE = r"0*(1000000000|[1-9]\d{0,8})"


class Step(msgspec.Struct, frozen=True):
    """How far one action goes: ``1`` adds or takes one, ``x2`` multiplies or divides, ``25%`` of the size.

    Percent steps are rounded towards 0 but are at least 1, as on AWS; a division is rounded up, so that no
    more goes than was asked for; every step is at least 1.

    >>> [Step.parse(s).from_size(5, out=True) for s in (1, "x2", "25%", "40%")]
    [6, 10, 6, 7]
    >>> [Step.parse(s).from_size(5, out=False) for s in (1, "x2", "25%", "40%")]
    [4, 3, 4, 3]
    """

    kind: str
    amount: float
    SCHEMA: ClassVar[dict[str, Any]] = {
        "anyOf": [
            {"type": "integer", "minimum": 1, "maximum": LARGEST_SIZE},
            {
                "type": "string",
                # x1 and x0.5 do not change anything in the direction of the rule
                "pattern": rf"^(?!\s*x\s*0*(0(\.\d+)?|1(\.0*)?)\s*$)(?!\s*{_ZERO}\s*%)\s*"
                rf"(x\s*{_TO_1000}|{_TO_1000}\s*%|{_SIZE})\s*$",
            },
        ],
        "examples": [1, "x2", "25%"],
    }

    def __post_init__(self) -> None:
        if self.kind == "absolute" and not (
            1 <= self.amount <= LARGEST_SIZE and self.amount == int(self.amount)
        ):
            most = ", at most a billion" if self.amount > 1 else ""
            raise PolicyError(f"a step of {self.amount:g}; it must be a whole number from 1 on{most}")
        if self.kind == "relative" and not 1 < self.amount <= MOST_TIMES:
            nothing = " changes nothing" if self.amount <= 1 else ""
            raise PolicyError(
                f"a factor of {self.amount:g}{nothing}; it must be above 1 and at most {MOST_TIMES}, like x2"
            )
        if self.kind == "percent" and not 0 < self.amount <= MOST_PERCENT:
            raise PolicyError(
                f"a step of {self.amount:g}%; it must be above 0% and at most {MOST_PERCENT}%, like 25%"
            )

    @classmethod
    def parse(cls, written: object) -> Step:
        """Read ``1``, ``x2`` or ``25%``."""
        if isinstance(written, int) and not isinstance(written, bool):
            return cls("absolute", real(written))
        match = (
            re.fullmatch(rf"\s*(x)?\s*({_PLAIN})\s*(%)?\s*", written) if isinstance(written, str) else None
        )
        absolute = match is not None and not (match[1] or match[3])
        if match is None or (match[1] and match[3]) or (absolute and "." in match[2]):
            raise PolicyError(f"{shown(written)} is not a step; write 1, x2 or 25%")
        kind = "relative" if match[1] else "percent" if match[3] else "absolute"
        return cls(kind, float(match[2]))

    def from_size(self, size: int, *, out: bool) -> int:
        """The size after one step, before any limit."""
        if self.kind == "absolute":
            change = int(self.amount)
        elif self.kind == "percent":
            change = max(1, math.floor(size * self.amount / 100 + 1e-9))
        elif out:
            change = max(1, math.ceil(size * self.amount - 1e-9) - size)
        else:
            change = max(1, size - math.ceil(size / self.amount - 1e-9))
        return size + change if out else size - change

    def plain(self) -> str | int:
        """As written in a file."""
        if self.kind == "absolute":
            return int(self.amount)
        return f"x{plain_text(self.amount)}" if self.kind == "relative" else f"{plain_text(self.amount)}%"

    def __str__(self) -> str:
        return str(self.plain())


class Limit(msgspec.Struct, frozen=True):
    """The largest or smallest size: ``8``, or ``x2`` for twice the original one."""

    amount: float
    relative: bool = False
    SCHEMA: ClassVar[dict[str, Any]] = {
        "anyOf": [
            {"type": "integer", "minimum": 1, "maximum": LARGEST_SIZE},
            {
                "type": "string",
                "pattern": rf"^(?!\s*x\s*{_ZERO}\s*$)\s*(x\s*{_TO_BILLION}|{_SIZE})\s*$",
            },
        ],
        "examples": [8, "x2"],
    }

    def __post_init__(self) -> None:
        if not 0 < self.amount <= LARGEST_SIZE:
            raise PolicyError(
                f"a limit of {self.amount:g}; it must be above 0 and at most a billion, like 8 or x2"
            )
        if not self.relative and (self.amount < 1 or self.amount != int(self.amount)):
            raise PolicyError(f"a limit of {self.amount:g}; it must be a whole number from 1 on")

    @classmethod
    def parse(cls, written: object) -> Limit:
        """Read ``8`` or ``x2``."""
        if isinstance(written, int) and not isinstance(written, bool):
            return cls(real(written))
        match = re.fullmatch(rf"\s*(x)?\s*({_PLAIN})\s*", written) if isinstance(written, str) else None
        if match is None or not (match[1] or "." not in match[2]):
            raise PolicyError(f"{shown(written)} is not a limit; write 8, or x2 for twice the original size")
        return cls(float(match[2]), bool(match[1]))

    def size(self, original: int, *, most: bool) -> int:
        """In instances, at least 1."""
        if not self.relative:
            return int(self.amount)
        exact = self.amount * original
        return max(1, math.floor(exact + 1e-9) if most else math.ceil(exact - 1e-9))

    def plain(self) -> str | int:
        """As written in a file."""
        return f"x{plain_text(self.amount)}" if self.relative else int(self.amount)

    def __str__(self) -> str:
        return str(self.plain())


class MeasureKind(StrEnum):
    """What is compared: the readings themselves, or something made of the last ones."""

    EACH = "each reading"
    MEAN = "mean"
    PERCENTILE = "percentile"
    RATE = "rate of change"
    FORECAST = "forecast"


class Measure(msgspec.Struct, frozen=True):
    """What of a metric is compared with the threshold.

    >>> [Measure.parse(t).kind.value for t in ("mean over 1m", "p95 over 5m", "forecast 2m ahead")]
    ['mean', 'percentile', 'forecast']
    """

    kind: MeasureKind = MeasureKind.EACH
    span: Span | None = None
    percentile: float = 0.0
    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": "string",
        "pattern": rf"^\s*(each\s+reading|(mean|p(?!{_ZERO}\s)0*\d{{1,2}}(\.\d+)?|rate\s+of\s+change)\s+over\s+"
        rf"{SPAN}|forecast\s+{SPAN.replace('$', 'ahead')}\s+ahead\s*)$",
        "examples": ["mean over 1m", "p95 over 5m", "rate of change over 1m", "forecast 5m ahead"],
    }

    def __post_init__(self) -> None:
        if self.kind is MeasureKind.PERCENTILE and not 0 < self.percentile < 100:
            raise PolicyError(f"a percentile of {self.percentile:g}; it must be above 0 and below 100")

    @classmethod
    def parse(cls, written: object) -> Measure:
        """Read ``mean over 1m``."""
        text = " ".join(written.split()) if isinstance(written, str) else ""
        if text == MeasureKind.EACH.value:
            return cls()
        match = re.fullmatch(r"(mean|rate of change|p\d+(?:\.\d+)?) over (.+)|forecast (.+) ahead", text)
        if match is None:
            raise PolicyError(
                f"{shown(written)} is no measure; write mean over 1m, p95 over 5m, rate of change over 1m "
                "or forecast 5m ahead"
            )
        if match[3]:
            return cls(MeasureKind.FORECAST, Span.parse(match[3]))
        if match[1][0] == "p":
            return cls(MeasureKind.PERCENTILE, Span.parse(match[2]), float(match[1][1:]))
        return cls(MeasureKind(match[1]), Span.parse(match[2]))

    def plain(self) -> str:
        """As written in a file."""
        if self.kind is MeasureKind.EACH:
            return self.kind.value
        if self.kind is MeasureKind.FORECAST:
            return f"forecast {self.span} ahead"
        what = f"p{number_text(self.percentile)}" if self.kind is MeasureKind.PERCENTILE else self.kind.value
        return f"{what} over {self.span}"

    __str__ = plain


class Often(msgspec.Struct, frozen=True):
    """In how many of the last readings: ``4 of 5``."""

    times: int
    of: int
    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": "string",
        "pattern": r"^\s*0*[1-9]\d{0,5}\s+of\s+0*[1-9]\d{0,5}\s*$",
        "examples": ["4 of 5"],
    }

    def __post_init__(self) -> None:
        if not 1 <= self.times <= self.of <= MOST_READINGS:
            right = (
                f"at most {self.of} of {self.of}"
                if self.times > self.of
                else f"some of at most {MOST_READINGS}"
            )
            right = "at least 1 of them" if self.times < 1 else right
            raise PolicyError(f"{self.times} of {self.of} readings; write {right}")

    @classmethod
    def parse(cls, written: object) -> Often:
        """Read ``4 of 5``."""
        match = (
            re.fullmatch(r"\s*0*(\d{1,6})\s+of\s+0*(\d{1,6})\s*", written)
            if isinstance(written, str)
            else None
        )
        if match is None:
            raise PolicyError(f"{shown(written)} does not say how often; write it like 4 of 5")
        return cls(int(match[1]), int(match[2]))

    def plain(self) -> str:
        """As written in a file."""
        return f"{self.times} of {self.of}"

    __str__ = plain
