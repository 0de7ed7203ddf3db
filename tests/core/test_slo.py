"""Parsing and formatting of an SLO."""

from __future__ import annotations

import pytest

from ebbflow.core.slo import Slo
from ebbflow.errors import InputError, SloError


@pytest.mark.parametrize(
    ("text", "freshness_s", "quantile"),
    [
        ("freshness p95 <= 30s", 30.0, 0.95),
        ("freshness p99.9 <= 1m30s", 90.0, 0.999),
        ("freshness max <= 500ms", 0.5, 1.0),
        ("freshness <= 10s", 10.0, 1.0),
        ("FRESHNESS P50≤2h", 7200.0, 0.5),
    ],
)
def test_an_slo_is_parsed_with_its_quantile(text: str, freshness_s: float, quantile: float) -> None:
    slo = Slo.parse(text)
    assert slo.freshness_s == pytest.approx(freshness_s)
    assert slo.quantile == pytest.approx(quantile)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "be quick",
        "freshness below 30",
        "freshness p95 < 30s",
        "freshness p95 <= 30",
        "freshness p95 <= soon",
        "latency p95 <= 30s",
        "freshness p95 <= 0s",
        "freshness p0 <= 30s",
        "freshness p995 <= 30s",
    ],
)
def test_an_invalid_slo_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(SloError) as caught:
        Slo.parse(text)
    assert isinstance(caught.value, InputError)
    assert "\n" not in str(caught.value)
    assert any(hint in str(caught.value) for hint in ("write it like", "must be"))


@pytest.mark.parametrize("text", ["freshness p95 <= 30s", "freshness max <= 1m", "freshness p99.9 <= 2.5s"])
def test_a_formatted_slo_parses_to_itself(text: str) -> None:
    assert str(Slo.parse(text)) == text
    assert Slo.parse(str(Slo.parse(text))) == Slo.parse(text)


@pytest.mark.parametrize("seconds", [12.5, 90.5, 30.25, 0.0005])
def test_a_formatted_slo_never_states_another_limit(seconds: float) -> None:
    assert Slo.parse(str(Slo(freshness_s=seconds))).freshness_s == pytest.approx(seconds)
