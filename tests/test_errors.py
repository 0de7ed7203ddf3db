"""The exception tree: invalid input is separate from failures of targets and stores."""

from __future__ import annotations

import inspect

import pytest

from ebbflow import errors
from ebbflow.errors import EbbflowError, InputError, StoreError, TargetError, UnknownNameError

CLASSES = [c for _, c in inspect.getmembers(errors, inspect.isclass) if c.__module__ == errors.__name__]
ERRORS = [c for c in CLASSES if not issubclass(c, Warning)]


@pytest.mark.parametrize("error", ERRORS, ids=lambda c: c.__name__)
def test_every_error_is_in_the_tree_and_in_its_drawing(error: type[Exception]) -> None:
    assert issubclass(error, EbbflowError)
    assert error.__name__ in (errors.__doc__ or "")
    assert error.__doc__


@pytest.mark.parametrize("name", ["Duration", "Load", "Slo", "Limits", "Pipeline", "UnknownName"])
def test_invalid_input_is_an_input_error_and_a_value_error(name: str) -> None:
    error = getattr(errors, f"{name}Error")
    assert issubclass(error, InputError)
    assert issubclass(error, ValueError)


def test_target_and_store_errors_are_not_input_errors() -> None:
    assert not issubclass(TargetError, InputError)
    assert not issubclass(StoreError, InputError)
    assert issubclass(errors.UnreachableError, TargetError)


def test_an_unknown_name_lists_all_names_even_if_none_is_similar() -> None:
    assert str(UnknownNameError("strategy", "xyz", ["b", "a"])) == "unknown strategy 'xyz'; there are: a, b"
