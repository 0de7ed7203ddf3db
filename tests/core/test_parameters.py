"""Parameters: kinds of values read back what they write, and expressions give one clear line when invalid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow.core.expression import Call, parse_call, split_list
from ebbflow.core.parameters import Duration, Flag, Number, Part, Whole, arguments, declared, read_arguments
from ebbflow.errors import InputError


@given(st.floats(allow_nan=False, allow_infinity=False, width=64))
def test_a_number_reads_back_as_written(value: float) -> None:
    assert Number("").parse(Number("").write(value)) == value


@given(st.floats(min_value=0, max_value=1e9))
def test_a_duration_reads_back_as_written(value: float) -> None:
    kind = Duration("")
    assert kind.parse(kind.write(value)) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("text", ["", "nan", "inf", "1e999", "one", "0x1", "1_0", "１"])
def test_text_that_is_not_a_number_is_invalid(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        Number("").parse(text)


@pytest.mark.parametrize(
    ("kind", "value"), [(Number(""), True), (Whole(""), 2.0), (Flag(""), 1), (Flag(""), "true")]
)
def test_a_value_of_another_type_is_invalid(kind: Any, value: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        kind.accept(value)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True),
        st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1)
        .map(str.strip)
        .filter(lambda text: text and not {"'", '"'} & set(text)),
        max_size=4,
    )
)
def test_a_call_reads_back_as_written(values: dict[str, str]) -> None:
    call = Call(name="mine", arguments=values)
    assert parse_call("strategy", str(call)) == call


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mine(a=1", "column 9: expected ',' or the ')' that closes mine(, found the end"),
        ("mine a", "column 6: expected '(' and the arguments of mine, found 'a'"),
        ("mine(a=1) b", "column 11: unexpected 'b' after the end of the strategy; remove it"),
        ("", "expected a name, or a name with arguments like name(key=value)"),
        ("mine(1)", "'1' needs a name; write it like mine(name=1)"),
        ("mine(a=)", "column 8: expected a value, like mine(a=…), found ')'"),
        ("mine(a=1,)", "column 10: expected another argument after ','"),
        ("mine(a=1, a=2)", "mine has the argument a twice"),
        ("mine(b=1)", "strategy mine has no parameter 'b'. It has: alpha, wait"),
        ("mine(alfa=1)", "did you mean 'alpha'?"),
        ("mine(alpha=9)", "strategy mine, alpha: 9 is invalid; it must be a number at most 3"),
        ("mine(wait=soon)", "strategy mine, wait: 'soon' is not a duration"),
    ],
)
def test_an_invalid_expression_is_one_clear_line(text: str, words: str) -> None:
    def mine(*, alpha: Annotated[float, Number("", at_most=3)] = 1.0, wait_s: float = 0.0) -> None: ...

    mine.__annotations__["wait_s"] = Annotated[float, Duration("")]
    with pytest.raises(InputError) as error:
        read_arguments("strategy mine", mine, parse_call("strategy", text).arguments)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_list_is_split_at_commas_outside_brackets_and_quotes() -> None:
    assert split_list("a(x=1, y='p,q'),b , c(z=\"(,\")") == ["a(x=1, y='p,q')", "b", 'c(z="(,")']


@dataclass(frozen=True)
class Limit:
    high: Annotated[float, Number("")] = 0.8
    low: Annotated[float, Number("")] = 0.2


def test_fields_of_a_nested_struct_are_set_like_arguments() -> None:
    def mine(
        *, limit: Annotated[Limit | None, Part(Limit)] = None, on: Annotated[bool, Flag("")] = True
    ) -> None: ...

    mine.__annotations__ = {"limit": Annotated[Limit | None, Part(Limit)], "on": Annotated[bool, Flag("")]}
    assert set(declared(mine)) == {"high", "low", "on"}
    assert arguments(mine, {"high": 0.9, "on": False}) == {"limit": Limit(high=0.9), "on": False}
    assert arguments(mine, {}) == {}


def test_an_annotation_that_cannot_be_read_drops_no_parameter_silently() -> None:
    def mine(*, alpha: float = 1.0, beta: float = 2.0, other: object = None) -> None: ...

    mine.__annotations__ |= {"alpha": Annotated[float, Number("")], "beta": "Annotated[float]"}
    with pytest.raises(TypeError, match="mine: the annotation of beta cannot be read: Annotated"):
        declared(mine)
    mine.__annotations__ |= {"beta": float, "other": "OnlyForTypeChecking"}
    assert list(declared(mine)) == ["alpha"]


def test_two_parameters_of_one_key_are_refused_because_one_could_never_be_set() -> None:
    class Thresholds:
        def __init__(
            self, *, upper: Annotated[float, Number("")] = 0.8, upper_s: Annotated[float, Duration("")] = 30.0
        ) -> None: ...

    with pytest.raises(TypeError, match="declares the parameter upper twice"):
        declared(Thresholds)
