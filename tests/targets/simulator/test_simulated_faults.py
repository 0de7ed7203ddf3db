"""Invalid faults are refused on construction."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ebbflow.errors import InputError
from ebbflow.targets.simulator import LateMetrics, MissingMetrics, NodeDies, SlowNode

SPAN = {"from_s": 10.0, "until_s": 20.0}


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        (NodeDies, {"at_s": -1.0}, "a node that dies: at is -1 s; it must be 0 s or more"),
        (NodeDies, {"at_s": math.nan}, "at is nan s"),
        (NodeDies, {"at_s": math.inf}, "at is inf s"),
        (NodeDies, {"at_s": 5.0, "node": -1}, "node is -1; it must be 0 (the oldest node) or more"),
        (SlowNode, {**SPAN, "node": -2}, "node is -2; it must be 0 (the oldest node) or more"),
        (SlowNode, {**SPAN, "factor": 0.0}, "a slow node at 0 times its speed"),
        (SlowNode, {**SPAN, "factor": math.nan}, "a slow node at nan times its speed"),
        (SlowNode, {"from_s": -5.0, "until_s": 20.0}, "a slow node: from is -5 s"),
        (MissingMetrics, {"from_s": -5.0, "until_s": 20.0}, "missing metrics: from is -5 s"),
        (MissingMetrics, {"from_s": 20.0, "until_s": 20.0}, "until 20 s; until must be later than from"),
        (LateMetrics, {"from_s": 20.0, "until_s": math.nan}, "until must be later than from"),
        (LateMetrics, {**SPAN, "delay_s": -30.0}, "late metrics: the delay is -30 s; it must be 0 s or more"),
        (LateMetrics, {**SPAN, "delay_s": math.inf}, "the delay is inf s"),
    ],
)
def test_an_invalid_fault_is_refused(kind: type, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as refused:
        kind(**fields)
    assert words in str(refused.value)


def test_a_fault_may_begin_at_0_and_never_end() -> None:
    NodeDies(at_s=0.0)
    SlowNode(from_s=0.0, until_s=math.inf)
    LateMetrics(from_s=0.0, until_s=1.0, delay_s=0.0)
