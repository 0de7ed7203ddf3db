"""Costs learned in operation: their measured range and error."""

from __future__ import annotations

import pytest
from made_flows import chain

from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading, Windows
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.profile import NodeProfile
from ebbflow.strategies.symbiotic.costs import LearnedCosts
from ebbflow.testing import make_snapshot

PIPELINE = chain("app", 1.0)
LAYOUT = Layout.of(1, a=2, b=1)


def learned(rates: list[float], costs_s: list[float]) -> Estimator:
    """The estimator after updates every 10 s. A row costs ``costs_s`` in ``a`` and nothing in ``b``."""
    learner, windows = LearnedCosts(), Windows()
    for k, (rate, cost_s) in enumerate(zip(rates, costs_s, strict=True)):
        now_s = 10.0 * k
        for name, each_s in (("a", cost_s), ("b", 0.0)):
            instances = LAYOUT.parallelism[name]
            windows.add(
                [
                    Reading(now_s, name, Metric.ROWS_IN, 10.0 * rate),
                    Reading(now_s, name, Metric.INSTANCES, float(instances)),
                    Reading(now_s, name, Metric.INSTANCE_CPU, rate * each_s / instances),
                ]
            )
        learner.learn(make_snapshot(now_s, 1, pipeline=PIPELINE, planned=LAYOUT, windows=windows))
    found = learner.estimator(PIPELINE, NodeProfile.assumed(cores=4))
    assert found is not None
    return found


def test_beyond_the_highest_rate_of_an_instance_it_extrapolates_the_same_line() -> None:
    ask = learned([100.0, 100.0, 300.0, 200.0], [0.002] * 4)
    inside, beyond = ask.instance_cpu("a", 150.0), ask.instance_cpu("a", 151.0)  # 300 rows/s on two
    assert (inside.inside, beyond.inside) == (True, False)
    assert (inside.value, beyond.value) == pytest.approx((0.3, 0.302))


def test_its_error_is_how_far_updates_were_off_the_prediction() -> None:
    assert learned([100.0] * 8, [0.002] * 8).instance_cpu("a", 50.0).error == pytest.approx(0.0, abs=1e-9)
    shaky = learned([100.0] * 21, [0.002, *[0.0018, 0.0022] * 10]).instance_cpu("a", 50.0)
    assert 0.08 < shaky.error < 0.13


def test_an_operator_that_used_no_cpu_is_not_known() -> None:
    assert not learned([100.0] * 4, [0.002] * 4).instance_cpu("b", 10.0).inside
