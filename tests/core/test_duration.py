"""Parsing and formatting of durations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow.core.duration import format_duration, parse_duration_s
from ebbflow.errors import DurationError, InputError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("30s", 30.0),
        ("5m", 300.0),
        ("1h", 3600.0),
        ("2d", 172800.0),
        ("1h30m", 5400.0),
        ("1h 30m", 5400.0),
        (" 1.5h ", 5400.0),
        ("0s", 0.0),
    ],
)
def test_a_duration_is_parsed_to_seconds(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "30", "s", "5 parsecs", "-5s", "1h30", "1e3s", "30s!", "five seconds"])
def test_an_invalid_duration_says_how_to_write_one(text: str) -> None:
    with pytest.raises(DurationError, match="write it like 500ms, 30s, 5m") as caught:
        parse_duration_s(text)
    assert isinstance(caught.value, InputError)
    assert "\n" not in str(caught.value)


@given(st.floats(min_value=0.001, max_value=1e7))
def test_a_formatted_duration_parses_to_nearly_the_same(seconds: float) -> None:
    again = parse_duration_s(format_duration(seconds))
    assert again == pytest.approx(seconds, rel=0.06, abs=0.0006)


def test_a_negative_duration_keeps_its_sign_when_written() -> None:
    assert format_duration(-90.0) == "-1m30s"
