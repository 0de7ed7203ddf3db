"""A pipeline is a directed acyclic graph, and says so when it is not."""

from __future__ import annotations

import pytest

from ebbflow.core.pipeline import Operator, Pipeline, Stream
from ebbflow.errors import InputError, PipelineError


def graph(*streams: tuple[str, str, float]) -> Pipeline:
    names = dict.fromkeys(end for source, target, _ in streams for end in (source, target))
    return Pipeline(
        name="p",
        operators=tuple(Operator(name=n) for n in names),
        streams=tuple(Stream(source=s, target=t, selectivity=x) for s, t, x in streams),
    )


def test_operators_are_ordered_upstream_first() -> None:
    order = graph(("b", "d", 1.0), ("a", "b", 1.0), ("a", "c", 1.0), ("c", "d", 1.0)).order
    assert order[0] == "a"
    assert order[-1] == "d"


def test_sources_have_no_incoming_stream() -> None:
    assert set(graph(("a", "c", 1.0), ("b", "c", 1.0)).sources) == {"a", "b"}


def test_two_operators_of_one_name_are_refused() -> None:
    with pytest.raises(PipelineError, match="two operators named 'split'"):
        Pipeline.chain("p", "split", "split")


def test_a_stream_to_an_unknown_operator_is_refused_with_the_known_names() -> None:
    with pytest.raises(PipelineError, match=r"names 'cuont', which is not one of split, count") as caught:
        Pipeline(
            name="p",
            operators=(Operator(name="split"), Operator(name="count")),
            streams=(Stream(source="split", target="cuont"),),
        )
    assert isinstance(caught.value, InputError)


@pytest.mark.parametrize("circle", [[("a", "a", 1.0)], [("a", "b", 1.0), ("b", "c", 1.0), ("c", "a", 1.0)]])
def test_a_cycle_is_refused_and_shown(circle: list[tuple[str, str, float]]) -> None:
    with pytest.raises(PipelineError, match=r"has a cycle: .*→"):
        graph(*circle)


def test_rates_follow_the_selectivities_and_add_up_where_streams_meet() -> None:
    diamond = graph(("a", "b", 2.0), ("a", "c", 0.5), ("b", "d", 1.0), ("c", "d", 10.0))
    assert diamond.input_rates({"a": 100.0}) == {"a": 100.0, "b": 200.0, "c": 50.0, "d": 700.0}


def test_an_unknown_rate_counts_as_zero() -> None:
    assert Pipeline.chain("p", "a", "b").input_rates({}) == {"a": 0.0, "b": 0.0}
