"""What the Rules seed says of the trace (Figure 5.13, §5.3.1, §5.3.6) and of its own runs (Figures 5.22 and 5.26)."""

from __future__ import annotations

EVENTS = 144_328_173
PARTS = 500
DAYS = 29.0
MACHINES = 12_500
RATES_PER_S = {50: 31.6, 75: 62.8, 90: 116.1, 95: 179.5}
"""Percentile of the event rate → events a second."""
MEAN_RATE_PER_S = EVENTS / (DAYS * 86_400)
FIRST_TASKS, LAST_TASKS = 130_000, 40_000
"""Running tasks: "well above 100000" at first, "roughly 40000" at the end. The real first part has 132,982."""

STATIC_MINUTES = {1: 129.69, 2: 71.06, 4: 40.35, 8: 26.15, 16: 25.00}
"""Instances of the machine operator → minutes for the whole trace."""
STATIC_RATES_PER_S = {
    1: (18_405, 19_219, 19_955, 20_433),
    2: (33_779, 34_609, 35_010, 35_475),
    4: (59_118, 63_941, 71_445, 71_579),
    8: (89_329, 99_253, 115_291, 123_022),
    16: (96_985, 104_094, 104_575, 106_080),
}
"""Instances → throughput at the median, the 75th, 90th and 95th percentile."""
