"""Parsing load expressions and formatting loads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies_for_loads import loads

from ebbflow.core.expression import quote
from ebbflow.errors import InputError, LoadError, UnknownNameError
from ebbflow.workloads import Constant, Day, Load, Noise, Sine, Square, Trace, parse_load


@settings(deadline=None)
@given(loads)
def test_every_load_survives_formatting_and_parsing(load: Load) -> None:
    assert parse_load(str(load)) == load
    assert str(parse_load(str(load))) == str(load)


def error_of(text: str) -> str:
    try:
        parse_load(text)
    except InputError as error:
        return str(error)
    return ""


@given(st.text(min_size=1, max_size=80))
def test_any_text_is_a_load_or_gives_a_one_line_error(text: str) -> None:
    assert len(error_of(text).splitlines()) <= 1


@given(
    st.lists(
        st.sampled_from(["sine", "(", ")", ",", "=", "+", "*", "2", "base", "10m", "'", "constant", "-", " "])
    )
)
def test_any_sequence_of_valid_words_is_a_load_or_gives_a_one_line_error(words: list[str]) -> None:
    assert len(error_of("".join(words)).splitlines()) <= 1


@pytest.mark.parametrize(
    ("text", "load"),
    [
        ("constant(50)", Constant(level_per_s=50)),
        (" constant( rate = 5e1 ) ", Constant(level_per_s=50)),
        ("constant(1e+2)", Constant(level_per_s=100)),
        (
            "sine(base=100, peak=900, period=10m)",
            Sine(base_per_s=100, peak_per_s=900, period_s=600),
        ),
        ("sine(100, 900, 600)", Sine(base_per_s=100, peak_per_s=900, period_s=600)),
        ("sine(100, 900, 10m)", Sine(base_per_s=100, peak_per_s=900, period_s=600)),
        ("day(1, period=1h30m, peak=2)", Day(base_per_s=1, peak_per_s=2, period_s=5400)),
        ("square(1,2,500ms,0.25)", Square(base_per_s=1, peak_per_s=2, period_s=0.5, duty=0.25)),
        ("constant(1) + constant(2)", Constant(level_per_s=1) + Constant(level_per_s=2)),
        ("2*(constant(1)+constant(2))", 2 * (Constant(level_per_s=1) + Constant(level_per_s=2))),
        (
            "noise(constant(1) + constant(2), 0.1, seed=3)",
            Noise(
                load=Constant(level_per_s=1) + Constant(level_per_s=2),
                amount=0.1,
                seed=3,
            ),
        ),
    ],
)
def test_expressions_are_parsed(text: str, load: Load) -> None:
    assert parse_load(text) == load


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "a load cannot be empty"),
        ("   ", "a load cannot be empty"),
        ("50", "column 1: expected a load like constant(50), found '50'"),
        ("constant", "column 9: expected '(' and the arguments of constant, found the end"),
        ("constant()", "column 10: constant is missing the argument rate"),
        ("constant(", "column 10: expected rate of constant, rows per second"),
        ("constant(5", "column 11: expected ',' or the ')' that closes constant(, found the end"),
        ("constant(5))", "column 12: unexpected ')' after the end of the load; there is an extra ')'"),
        ("constant(5) sine", "column 13: unexpected 'sine' after the end of the load"),
        ("constant(5) +", "column 14: expected a load like constant(50), found the end"),
        ("(constant(5)", "column 13: expected ')' to close the '(' in column 1, found the end"),
        ("constant(5, 6)", "column 13: unexpected argument '6'; the arguments of constant are: rate"),
        ("constant(5,)", "column 12: expected another argument after ','"),
        ("constant(-5)", "column 10: rate of constant: -5 is invalid; it must be rows per second"),
        ("constant(nan)", "column 10: rate of constant: nan is invalid; it must be rows per second"),
        ("constant(inf)", "column 10: rate of constant: inf is invalid; it must be rows per second"),
        ("constant(1e999)", "column 10: rate of constant: 1e999 is invalid; it must be rows per second"),
        ("constant(=5)", "column 10: expected rate of constant"),
        ("sine(1, 2)", "column 10: sine is missing the argument period (length of one cycle)"),
        ("sine(1, 2, period=0s)", "column 19: period of sine: 0s is invalid; it must be a duration"),
        ("sine(1, 2, period=soon)", "column 19: period of sine: 'soon' is not a duration"),
        ("sine(1, 2, perod=1m)", "column 12: sine has no argument 'perod'; did you mean 'period'?"),
        ("sine(1, 2, base=1, period=1m)", "column 12: sine has the argument base twice"),
        ("sine(base=1, 2, 1m)", "column 14: '2' needs a name"),
        ("sine(9, 2, 1m)", "column 1: sine has its peak 2 below its base 9"),
        ("stair(1, 2, 1.5, 1m)", "column 13: steps of stair: 1.5 is invalid; it must be a whole number"),
        ("noise(5, 0.1)", "column 7: expected a load like constant(50), found '5'"),
        (
            "noise(constant(5), -1)",
            "column 20: amount of noise: -1 is invalid; it must be a number at least 0",
        ),
        ("x * constant(5)", "column 1: the factor of a load: x is invalid; it must be a number above 0"),
        ("0 * constant(5)", "column 1: the factor of a load: 0 is invalid; it must be a number above 0"),
        ("constant(5) - constant(1)", "column 13: unexpected '-' after the end of the load"),
        ("constant(5) ; rm", "column 13: unexpected character ';'"),
        ("constant('5\n6')", "column 10: rate of constant: 5 6 is invalid; it must be rows per second"),
        ("trace('a.csv", "column 7: the quote ' is not closed"),
        ("(" * 1000, "nested more than 50 levels deep"),
        (
            "trace(a.csv, between=cubic)",
            "between of trace: cubic is invalid; it must be one of hold, draw, line",
        ),
        ("trace(a.csv, repeat=maybe)", "repeat of trace: maybe is invalid; it must be true or false"),
        ("trace(no_such.csv)", "column 1: there is no trace file 'no_such.csv'"),
    ],
)
def test_errors_name_the_column(text: str, problem: str) -> None:
    with pytest.raises(LoadError) as caught:
        parse_load(text)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_shape_suggests_one_that_exists() -> None:
    with pytest.raises(UnknownNameError, match="unknown load shape 'sinus': did you mean 'sine'"):
        parse_load("constant(5) + sinus(1, 2, 3s)")


def test_python_is_never_evaluated() -> None:
    with pytest.raises(InputError):
        parse_load("__import__('os').system('true')")


@pytest.mark.parametrize("name", ["plain-1_a.csv", "two words, and a comma.csv", 'it\'s "x".csv', "1e+5"])
def test_file_names_with_special_characters_survive_formatting(
    name: str, trace_file: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("traces") / name
    file.write_text("0,1\n1,2\n")
    load = Trace(file=str(file), peak_per_s=2000, speed=60, repeat=True, end_s=1.5, between="draw")
    assert parse_load(str(load)) == load
    assert parse_load(f"trace({quote(str(file))})") == Trace(file=str(file))


def test_a_trace_is_formatted_as_it_is_usually_written(trace_file: Callable[[str], str]) -> None:
    file = trace_file("second,events\n0,1\n1,2\n")
    assert str(parse_load(f"trace('{file}', peak=2000, speed=60)")) == f"trace({file}, peak=2000, speed=60)"
