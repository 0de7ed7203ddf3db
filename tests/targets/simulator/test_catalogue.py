"""The built-in pipelines of the simulator are those that run on Spark."""

from __future__ import annotations

import pytest

from ebbflow.papers.elysium.pipelines import sentiment, top_words
from ebbflow.targets.simulator.catalogue import PIPELINES


@pytest.mark.parametrize(
    ("name", "operators"), [("top-words", top_words.OPERATORS), ("sentiment", sentiment.OPERATORS)]
)
def test_a_simulated_pipeline_has_the_operators_of_the_application(
    name: str, operators: tuple[str, ...]
) -> None:
    costed = PIPELINES[name]
    assert tuple(costed.pipeline.order) == operators
    assert costed.row_cost_s.keys() == set(operators)


def test_sentiment_is_stateless() -> None:
    costed = PIPELINES["sentiment"]
    assert not costed.state_mb
    assert not any(operator.stateful for operator in costed.pipeline.operators)
