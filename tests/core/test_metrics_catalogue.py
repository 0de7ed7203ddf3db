"""Every metric is declared once."""

from __future__ import annotations

import re

import pytest

from ebbflow.core.metrics import Metric, SubjectKind, Unit
from ebbflow.errors import UnknownNameError


def test_keys_are_unique_and_formatted_alike() -> None:
    keys = [metric.key for metric in Metric]
    assert len(set(keys)) == len(keys) == len(Metric.__members__)
    assert all(re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", key) for key in keys)


@pytest.mark.parametrize("metric", Metric, ids=lambda m: m.key)
def test_every_metric_has_unit_subject_and_meaning(metric: Metric) -> None:
    assert isinstance(metric.unit, Unit)
    assert isinstance(metric.about, SubjectKind)
    assert len(metric.meaning.split()) >= 3
    assert not metric.meaning.endswith(".")


def test_meanings_are_not_copies_of_each_other() -> None:
    assert len({metric.meaning for metric in Metric}) == len(Metric)


@pytest.mark.parametrize("metric", Metric, ids=lambda m: m.key)
def test_a_metric_is_found_by_its_key(metric: Metric) -> None:
    assert Metric.of(metric.key) is metric


def test_an_unknown_key_names_the_closest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'freshness'"):
        Metric.of("freshnes")
