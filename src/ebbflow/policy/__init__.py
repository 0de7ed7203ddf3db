"""Scaling policies that read like English: ``from ebbflow.policy import *``.

==============  ============================================================================================
``words``       the words: operators, units, factors, limits, thresholds
``builder``     their grammar: an editor completes what may follow, and mypy rejects what may not
``model``       a policy as plain frozen values; ``conditions`` of rules; ``quantities``, ``values``: its small ones
``english``     a policy as sentences
``files``       a policy as TOML or YAML, both ways; ``schema``: what editors know of it
``calendar``    when bounds hold
``checks``      rules that never fire; ``fights`` of rules, ``bounds_checks``: limits that contradict
``measures``    means, percentiles and trends at a constant cost per reading
``evaluation``  triggers and rules that follow the readings; ``router`` brings them there
``needs``       which series a policy needs: what a collector subscribes to
==============  ============================================================================================
"""

from __future__ import annotations

from ebbflow.policy.language.builder import bounds, rule
from ebbflow.policy.language.words import (
    above,
    absolute,
    all_of,
    all_operators,
    any_of,
    below,
    bytes_,
    cluster,
    count,
    gigabytes,
    hours,
    kilobytes,
    megabytes,
    metric,
    milliseconds,
    minutes,
    nodes,
    operator,
    per_minute,
    per_second,
    percent,
    relative,
    rows,
    seconds,
    times_original,
    tuples,
)
from ebbflow.policy.model import Policy

__all__ = [
    "Policy",
    "above",
    "absolute",
    "all_of",
    "all_operators",
    "any_of",
    "below",
    "bounds",
    "bytes_",
    "cluster",
    "count",
    "gigabytes",
    "hours",
    "kilobytes",
    "megabytes",
    "metric",
    "milliseconds",
    "minutes",
    "nodes",
    "operator",
    "per_minute",
    "per_second",
    "percent",
    "relative",
    "rows",
    "rule",
    "seconds",
    "times_original",
    "tuples",
]
