"""Arguments of ``attach`` that are wrong, and sessions that cannot be scaled: one clear line."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from attach_parts import session

from ebbflow import attach, operator
from ebbflow.errors import InputError, PipelineError


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"dry_run": "no"}, "attach(dry_run=…): 'no' is invalid; it must be true or false"),
        ({"on_cycle": 5}, "attach(on_cycle=…): 5 is invalid; it must be a function"),
        ({"queries": 3}, "attach(queries=…): 3 is invalid"),
        ({"options": 3}, "attach(options=…): 3 is invalid"),
        ({"config": 3}, "attach(config=…): 3 is invalid"),
        ({"store": "no/such/folder/run.sqlite"}, "attach(store=…): there is no folder"),
        ({"executors": (1, 10**30)}, "1:1e+30 is too large; the most is 999,999 nodes"),
        ({"agents": "tcp://h:1"}, "tcp://h:1 can be reached from other machines, which needs keys"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_a_wrong_argument_is_one_line(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        attach(session(), **arguments)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_session_is_a_wrong_argument() -> None:
    with pytest.raises(InputError, match="is no Spark session; pass one, like SparkSession"):
        attach(None)  # type: ignore[arg-type]


class RemoteSession:
    """Looks like a session of Spark Connect."""

    __module__ = "pyspark.sql.connect.session"

    @property
    def sparkContext(self) -> Any:  # noqa: N802
        raise AttributeError("[JVM_ATTRIBUTE_NOT_SUPPORTED]")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (RemoteSession(), "a Spark Connect session has no driver in this process"),
        (SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None)), "this Spark session has stopped"),
    ],
    ids=["connect", "stopped"],
)
def test_a_session_that_cannot_be_scaled_is_one_warning(
    given: Any, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        attached = attach(given)
    (record,) = caplog.records
    assert record.getMessage().startswith(f"not scaling: {why}")
    assert record.exc_info is None
    assert not attached.active
    assert attached.reason.startswith(why)
    assert repr(attached).startswith(f"<Attached: not scaling, {why}")


@pytest.mark.parametrize("parallelism", ["8", 1.5, True, 0])
def test_the_parallelism_of_an_operator_is_a_whole_number(parallelism: Any) -> None:
    with pytest.raises(PipelineError, match="is invalid; use a whole number, 1 or more"):
        operator("count", parallelism=parallelism)
