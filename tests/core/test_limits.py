"""Minimum and maximum number of nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow.core.limits import Limits
from ebbflow.errors import InputError, LimitsError


def test_a_range_is_parsed_as_minimum_and_maximum() -> None:
    assert Limits.parse(" 1 : 20 ") == Limits(min_nodes=1, max_nodes=20)
    assert str(Limits.parse("3:3")) == "3:3"


def test_a_reversed_range_gets_a_hint() -> None:
    with pytest.raises(LimitsError, match=r"did you mean 2:5\?"):
        Limits.parse("5:2")


def test_a_cluster_may_never_be_empty() -> None:
    with pytest.raises(LimitsError, match="the minimum is 1"):
        Limits.parse("0:5")


@pytest.mark.parametrize("text", ["", "5", "1-20", "a:b", "-1:5", "1:2:3", "1.5:3"])
def test_an_invalid_range_says_how_to_write_one(text: str) -> None:
    with pytest.raises(LimitsError, match="write it like 1:20") as caught:
        Limits.parse(text)
    assert isinstance(caught.value, InputError)


def test_a_range_that_is_too_large_is_refused() -> None:
    with pytest.raises(LimitsError, match="'1:1000000' is too large; the most is 999,999 nodes"):
        Limits.parse("1:1000000")


@given(low=st.integers(1, 500), more=st.integers(0, 500), nodes=st.integers(-1000, 2000))
def test_clamping_gives_the_nearest_allowed_size(low: int, more: int, nodes: int) -> None:
    limits = Limits(min_nodes=low, max_nodes=low + more)
    allowed = limits.clamp(nodes)
    assert low <= allowed <= low + more
    assert abs(allowed - nodes) == min(abs(n - nodes) for n in range(low, low + more + 1))
