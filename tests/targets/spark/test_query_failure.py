"""Errors of failed queries, and Ctrl-C while a query runs."""

from __future__ import annotations

import os
import signal

import pytest

from ebbflow.errors import InputError, TargetError
from ebbflow.papers.rules.google_cluster.query import run_to_the_end
from ebbflow.targets.spark.driver import as_ebbflow_error
from ebbflow.targets.spark.launch.session import held_interrupts

FROM_SPARK = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure:
Task 0 in stage 1.0 failed 1 times: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
EOFError: Compressed file ended before the end-of-stream marker was reached

During handling of the above exception, another exception occurred:

  File "part.py", line 90, in read_part
ebbflow.errors.InputError: cannot read /trace/part-3.csv.gz: Compressed file ended before the marker

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:1)
"""


class Query:
    """The parts of a streaming query that ``run_to_the_end`` uses."""

    def __init__(self, *, polls: int = 0, error: Exception | None = None, on_poll=lambda: None) -> None:
        self.polls, self.error, self.on_poll, self.stopped = polls, error, on_poll, False
        self.recentProgress = [{"numInputRows": 1}, {"numInputRows": 0}]

    @property
    def isActive(self) -> bool:  # noqa: N802
        self.polls -= 1
        self.on_poll()
        return self.polls >= 0

    def awaitTermination(self) -> None:  # noqa: N802
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        self.stopped = True


def test_an_ebbflow_error_is_found_in_sparks_message_and_names_the_file() -> None:
    with pytest.raises(InputError, match=r"^cannot read /trace/part-3\.csv\.gz: Compressed"):
        run_to_the_end(Query(error=Exception(FROM_SPARK)))


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("x\nebbflow.errors.DurationError: 'long' is not a duration", InputError, "'long' is not a duration"),
        ("x\nebbflow.errors.StoreError: full", TargetError, "full"),
        ("x\nebbflow.errors.NoSuchError: odd", TargetError, "odd"),
        ("ebbflow.errors.InputError: a\nebbflow.errors.InputError: b", InputError, "b"),
        ("Out of memory\n\tat java", TargetError, "the query failed: Out of memory"),
        ("", TargetError, "the query failed: Exception"),
    ],
)
def test_the_last_ebbflow_error_counts_or_else_sparks_first_line(text, kind, words) -> None:
    found = as_ebbflow_error(Exception(text))
    assert type(found) is kind
    assert str(found) == words


def test_run_to_the_end_waits_for_the_query() -> None:
    assert run_to_the_end(Query(polls=2)) == [{"numInputRows": 1}]


def test_ctrl_c_stops_the_query_between_two_polls_and_not_within_one() -> None:
    polled: list[bool] = []

    def interrupted_during_the_call() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        polled.append(True)

    before = signal.getsignal(signal.SIGINT)
    query = Query(polls=50, on_poll=interrupted_during_the_call)
    with pytest.raises(KeyboardInterrupt):
        run_to_the_end(query)
    assert polled == [True], "the poll was not interrupted, and was the last"
    assert query.stopped
    assert signal.getsignal(signal.SIGINT) is before


def test_a_held_interrupt_is_reported() -> None:
    with held_interrupts() as interrupted:
        assert not interrupted()
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupted()
