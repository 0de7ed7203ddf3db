"""Whether a value fits its metric: percent of a queue, or seconds of memory, cannot be meant."""

from __future__ import annotations

from ebbflow.core.metrics import Metric
from ebbflow.errors import PolicyError, UnknownNameError
from ebbflow.policy.quantities import Quantity
from ebbflow.policy.values import Measure, MeasureKind

CPU = "cpu"
"""CPU of whatever the rule scales: of an operator's instances, or of the nodes."""

EXAMPLES = {
    "rows": "300 tuples",
    "rows/s": "300 tuples/s",
    "s": "30s or 500ms",
    "count": "4",
    "share of 1": "80%",
    "bytes": "64MB",
    "bytes/s": "64MB/s",
}


def metric_of(key: str) -> Metric:
    """The metric a rule names."""
    if key == CPU:
        return Metric.INSTANCE_CPU
    return Metric.of(key)


def check_fit(key: str, measure: Measure, value: Quantity, side: str) -> None:
    """``PolicyError`` unless the value has the unit of the metric, per time where a rate is compared."""
    try:
        unit = metric_of(key).unit.value
    except UnknownNameError as error:
        raise PolicyError(str(error), key="metric") from None
    counted, _, per = unit.partition("/")
    is_rate = measure.kind is MeasureKind.RATE
    if is_rate and per:
        raise PolicyError(f"{key} is a rate already; compare its mean, or its forecast", key="measure")
    if value.kind.value == counted and bool(value.per) == (is_rate or bool(per)):
        return
    example = EXAMPLES[unit]
    if is_rate:
        example = f"{example.split(' or ')[0]}/min"
    what = f"the rate of change of {key}" if is_rate else key
    raise PolicyError(f"{value} does not fit {what}, which counts {unit}; write it like {example}", key=side)
