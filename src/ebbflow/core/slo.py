"""Service level objectives."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ebbflow.core.duration import format_duration, parse_duration_s
from ebbflow.errors import DurationError, SloError

_FORM = re.compile(
    r"^\s*freshness\s*(?:p(\d{1,2}(?:\.\d+)?|100)|max)?\s*(?:<=|≤)\s*(\S.*?)\s*$", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class Slo:
    """``quantile`` of the rows are processed within ``freshness_s`` of their arrival.

    >>> Slo.parse("freshness p95 <= 30s")
    Slo(freshness_s=30.0, quantile=0.95)
    >>> str(Slo.parse("freshness <= 1m")), Slo.parse("freshness p100 <= 1m") == Slo.parse("freshness max <= 1m")
    ('freshness max <= 1m', True)
    >>> Slo.parse("be quick")
    Traceback (most recent call last):
    ...
    ebbflow.errors.SloError: 'be quick' is not an SLO; write it like 'freshness p95 <= 30s'
    """

    freshness_s: float
    quantile: float = 1.0

    def __post_init__(self) -> None:
        if not self.freshness_s > 0:
            raise SloError(f"an SLO of {self.freshness_s:g} s leaves no time; it must be above 0s")
        if not 0 < self.quantile <= 1:
            raise SloError(
                f"an SLO for p{self.quantile * 100:g} of the rows; it must be above p0, at most all"
            )

    @classmethod
    def parse(cls, text: str) -> Slo:
        """Read ``freshness pNN <= DURATION`` (without pNN: every row)."""
        match = _FORM.match(text)
        if match is None:
            raise SloError(f"'{text}' is not an SLO; write it like 'freshness p95 <= 30s'")
        percentile, limit = match.groups()
        try:
            freshness_s = parse_duration_s(limit)
        except DurationError as error:
            raise SloError(f"in the SLO '{text}': {error}") from None
        return cls(freshness_s=freshness_s, quantile=float(percentile) / 100 if percentile else 1.0)

    def __str__(self) -> str:
        which = "max" if self.quantile == 1.0 else f"p{self.quantile * 100:g}"
        limit = format_duration(self.freshness_s)
        if parse_duration_s(limit) != self.freshness_s:  # rounded for people, it would be another limit
            limit = f"{self.freshness_s:g}s"
        return f"freshness {which} <= {limit}"


DEFAULT_SLO = Slo(freshness_s=30.0, quantile=0.95)
"""The objective of a run for which none is set."""
