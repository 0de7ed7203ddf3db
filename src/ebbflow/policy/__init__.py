"""Scaling policies: rules that read like English. ``from ebbflow.policy import *`` gives all words of the language.

===============  ==========================================================================================
``model``        a policy as frozen values; ``values``: its scalars
``language``     policies written in Python, and printed as English
``files``        policies as TOML or YAML, and the JSON Schema of both
``checks``       policies that are well-formed but cannot work: rules that never fire, or that conflict
``evaluation``   which rules fire: conditions follow the readings at a constant cost per reading
===============  ==========================================================================================
"""

from __future__ import annotations

from ebbflow.policy.language.builder import all_of, any_of, bounds, metric, rule
from ebbflow.policy.language.words import (
    above,
    absolute,
    all_operators,
    below,
    bytes_,
    cluster,
    count,
    gigabytes,
    hours,
    kilobytes,
    megabytes,
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
