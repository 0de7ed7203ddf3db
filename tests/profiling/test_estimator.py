"""The four questions, against hand-computed answers and the simulator's own scheduler."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow.core.pipeline import Operator, Pipeline, Stream
from ebbflow.core.placement import even
from ebbflow.errors import InputError
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.models import Knots, LinearCurve, NetCurve, Proportional
from ebbflow.profiling.profile import CpuProfile, Fitted, NodeProfile, Profile, Spread

PIPELINE = Pipeline(
    name="p",
    operators=tuple(Operator(name=name) for name in "abc"),
    streams=(
        Stream(source="a", target="b", selectivity=2.0),
        Stream(source="a", target="c", selectivity=0.5),
        Stream(source="b", target="c", selectivity=0.1),
    ),
)


def proportional(per_row_s: float, high: float = 1000.0) -> CpuProfile:
    return CpuProfile(
        model=Proportional(per_unit=per_row_s), low=0.0, high=high, slope=per_row_s, error=0.02, samples=50
    )


def profile(cores: int = 2) -> Profile:
    per_core = 1.1 / cores
    return Profile(
        pipeline="p",
        selectivity={("a", "b"): Spread(mean=3.0, deviation=0.1, samples=10)},
        cpu={"a": proportional(0.001), "b": proportional(0.002), "c": proportional(0.004)},
        node=NodeProfile(
            model=LinearCurve(fixed=0.1, per_unit=per_core), low=0.0, high=float(cores), slope=per_core, error=0.03,
            samples=50, cores=cores,
        ),
    )  # fmt: skip


def test_input_rates_follow_learned_selectivities_else_those_of_the_pipeline() -> None:
    rates = Estimator(PIPELINE, profile()).input_rates({"a": 100.0})
    assert rates == {"a": 100.0, "b": 300.0, "c": 80.0}  # 100 · 0.5 + 300 · 0.1


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (lambda ask: ask.input_rates({"reeder": 3.0}), "unknown source 'reeder'; there are: a, p"),
        (lambda ask: ask.input_rates({"p": math.nan}), "nan rows/s into p; a rate is a number of 0 or more"),
        (lambda ask: ask.instance_cpu("a", -1.0), "-1 rows/s into a; a rate is a number of 0 or more"),
        (
            lambda ask: ask.node_cpu(even([2, 4], 3), {}, {}),
            "the placement has 2 rows, but p has 3 operators; each needs a row with its instances on every node",
        ),
    ],
)
def test_invalid_questions_are_refused(asked: Callable[[Estimator], object], said: str) -> None:
    with pytest.raises(InputError) as error:
        asked(Estimator(PIPELINE, profile()))
    assert str(error.value) == said


def test_a_load_may_be_given_by_the_name_of_the_pipeline() -> None:
    spark = Pipeline(name="app", operators=(Operator(name="x"), Operator(name="y")))
    learned = Profile(pipeline="app", selectivity={("app", "y"): Spread(mean=17.0)})
    assert Estimator(spark, learned).input_rates({"app": 10.0}) == {"x": 10.0, "y": 170.0}


def test_the_cpu_of_an_instance_is_by_its_own_rate_and_marked_outside_the_observed_range() -> None:
    ask = Estimator(PIPELINE, profile())
    assert ask.instance_cpu("b", 150.0).value == pytest.approx(0.3)
    assert ask.instance_cpu("b", 150.0).inside
    assert not ask.instance_cpu("b", 1500.0).inside
    assert ask.instance_cpu("b", 1500.0).value == pytest.approx(3.0)
    unknown = ask.instance_cpu("unknown", 1.0)
    assert (unknown.value, unknown.inside) == (0.0, False)


def test_the_cpu_of_a_node_is_that_of_its_instances_and_the_overhead_of_the_engine() -> None:
    ask = Estimator(PIPELINE, profile())
    parallelism = {"a": 1, "b": 2, "c": 1}
    rates = ask.input_rates({"a": 100.0})
    nodes = ask.node_cpu(even([1, 2, 1], 2), rates, parallelism)  # a, b | b, c
    assert [n.value for n in nodes] == pytest.approx([0.1 + 0.55 * (0.1 + 0.3), 0.1 + 0.55 * (0.3 + 0.32)])
    assert all(n.inside for n in nodes)


@given(
    parallelism=st.lists(st.integers(1, 9), min_size=3, max_size=3), nodes=st.integers(1, 7),
    load=st.floats(1, 1000),
)  # fmt: skip
def test_nodes_together_have_the_cpu_of_all_instances(
    parallelism: list[int], nodes: int, load: float
) -> None:
    plain = Profile(pipeline="p", cpu=profile().cpu, node=NodeProfile.assumed(cores=4))
    ask = Estimator(PIPELINE, plain)
    sizes = dict(zip("abc", parallelism, strict=True))
    rates = ask.input_rates({"a": load})
    used = sum(n.value for n in ask.node_cpu(even(parallelism, nodes), rates, sizes)) * 4
    assert used == pytest.approx(
        sum(sizes[o] * ask.instance_cpu(o, rates[o] / sizes[o]).value for o in "abc")
    )


@pytest.mark.parametrize(
    "model",
    [
        Proportional(per_unit=0.01),
        LinearCurve(fixed=0.1, per_unit=0.01),
        Knots(x=(10.0, 100.0), y=(0.2, 1.1)),
        NetCurve(x_middle=55.0, x_scale=45.0, y_middle=0.6, y_scale=0.5, weights=(1.0,), shifts=(0.0,),
            outputs=(1.0,), output_shift=0.0),
    ],
)  # fmt: skip
def test_beyond_the_observed_range_every_model_continues_in_a_straight_line(model: object) -> None:
    curve = Fitted(model=model, low=10.0, high=100.0, slope=0.01, error=0.1, samples=9)  # type: ignore[arg-type]
    edge = curve.estimate(100.0)
    assert edge.inside
    assert curve.estimate(300.0).value == pytest.approx(edge.value + 2.0)
    assert not curve.estimate(300.0).inside
    assert curve.estimate(0.0).value >= 0.0


def test_a_thousand_nodes_are_estimated_in_milliseconds() -> None:
    names = [f"o{n}" for n in range(100)]
    cpu = {name: proportional(0.001) for name in names}
    ask = Estimator(
        Pipeline.chain("p", *names), Profile(pipeline="p", cpu=cpu, node=NodeProfile.assumed(cores=4))
    )
    rates, parallelism = dict.fromkeys(names, 500.0), dict.fromkeys(names, 40)
    placement = even([40] * 100, 1000)
    began = time.process_time()
    assert len(ask.node_cpu(placement, rates, parallelism)) == 1000
    assert time.process_time() - began < 0.1
