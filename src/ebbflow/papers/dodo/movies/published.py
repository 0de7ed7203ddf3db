"""The published results of §5, as numbers: Hadoop on one master and ten core instances, S4 on one master and workers.

All instances are m1.small: one virtual core, 1.7 GB.
"""

from __future__ import annotations

from dataclasses import dataclass

HADOOP_INSTANCES = 11
HADOOP_USD_PER_HOUR = 0.08
"""Of an instance with Elastic MapReduce; every run is billed in whole hours."""
S4_USD_PER_HOUR = 0.065
"""Of an instance with standard Linux, from Table 6: 17.16 $ ÷ 11 instances ÷ 24 h."""


@dataclass(frozen=True, kw_only=True)
class BatchTime:
    """A row of Table 2."""

    days: int
    ratings: int
    seconds: float


TABLE_2 = (
    BatchTime(days=1, ratings=17_280_000, seconds=56 * 60.0),
    BatchTime(days=3, ratings=51_840_000, seconds=177 * 60.0),
    BatchTime(days=6, ratings=103_680_000, seconds=407 * 60.0),
)
"""Elapsed time of the Hadoop jobs; 200 ratings arrive per second."""

REFRESHES_S = {"once a day": 86_400.0, "every 3 h": 10_800.0, "every hour": 3_600.0}
TABLE_3 = {
    ("once a day", 17_280_000): 0.88,
    ("once a day", 51_840_000): 2.64,
    ("once a day", 103_680_000): 6.16,
    ("every 3 h", 17_280_000): 7.04,
    ("every 3 h", 51_840_000): 21.12,
    ("every hour", 17_280_000): 21.12,
}
"""Daily cost of Hadoop in $ by refresh and ratings; what is missing takes longer than the refresh."""


@dataclass(frozen=True, kw_only=True)
class StreamRate:
    """A column of Tables 5 and 6: S4 at one input rate."""

    input_per_s: float
    workers: int
    throughput_per_s: float
    usd_per_day: float | None


TABLE_5 = (
    StreamRate(input_per_s=98.0, workers=10, throughput_per_s=98.0, usd_per_day=17.16),
    StreamRate(input_per_s=192.0, workers=10, throughput_per_s=192.0, usd_per_day=17.16),
    StreamRate(input_per_s=850.0, workers=10, throughput_per_s=276.0, usd_per_day=None),
    StreamRate(input_per_s=850.0, workers=23, throughput_per_s=850.0, usd_per_day=35.88),
)
"""Throughput of HistoryPE on ten workers, and on the 23 that hold 850 events/s; cost with standard Linux (Table 6)."""
HIGHEST_PER_S = 850.0
