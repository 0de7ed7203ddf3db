"""Response times as a histogram: small, exact in number, 2 % wide, and histograms of several processes add up."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import msgspec

_WIDTH = math.log(1.02)
_SMALLEST_S = 1e-5


class Responses:
    """Counts response times.

    >>> times = Responses()
    >>> for ms in range(1, 101):
    ...     times.add(ms / 1000)
    >>> times.count, round(times.mean_s, 4), round(times.quantile_s(0.95), 3)
    (100, 0.0505, 0.096)
    """

    def __init__(
        self, buckets: Mapping[int, int] | None = None, total_s: float = 0.0, squares: float = 0.0
    ) -> None:
        self._buckets = Counter(buckets or {})
        self._total_s = total_s
        self._squares = squares

    def add(self, seconds: float) -> None:
        """Count one response."""
        self._buckets[math.ceil(math.log(max(seconds, _SMALLEST_S) / _SMALLEST_S) / _WIDTH)] += 1
        self._total_s += seconds
        self._squares += seconds * seconds

    def merge(self, other: Responses) -> None:
        """Add those of another process."""
        self._buckets.update(other._buckets)
        self._total_s += other._total_s
        self._squares += other._squares

    @property
    def count(self) -> int:
        """Responses."""
        return self._buckets.total()

    @property
    def mean_s(self) -> float:
        """Mean; 0 without responses."""
        return self._total_s / self.count if self.count else 0.0

    @property
    def deviation_s(self) -> float:
        """Standard deviation."""
        return math.sqrt(max(0.0, self._squares / self.count - self.mean_s**2)) if self.count else 0.0

    def quantile_s(self, share: float) -> float:
        """The time within which a share of the responses came; 0 without responses."""
        left = share * self.count
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 1e-9:
                return _SMALLEST_S * math.exp(bucket * _WIDTH)
        return 0.0

    def to_message(self) -> ResponsesMessage:
        """For another process."""
        return ResponsesMessage(buckets=dict(self._buckets), total_s=self._total_s, squares=self._squares)

    @classmethod
    def of_message(cls, message: ResponsesMessage) -> Responses:
        """From another process."""
        return cls(message.buckets, message.total_s, message.squares)


class ResponsesMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A histogram on its way between processes."""

    buckets: dict[int, int]
    total_s: float
    squares: float
