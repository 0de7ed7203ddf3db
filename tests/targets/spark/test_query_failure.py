"""What is told of a query that failed, and Ctrl-C while one runs."""

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
    """As much of a streaming query as is waited for."""

    def __init__(self, *, looks: int = 0, error: Exception | None = None, on_look=lambda: None) -> None:
        self.looks, self.error, self.on_look, self.stopped = looks, error, on_look, False
        self.recentProgress = [{"numInputRows": 1}, {"numInputRows": 0}]

    @property
    def isActive(self) -> bool:  # noqa: N802
        self.looks -= 1
        self.on_look()
        return self.looks >= 0

    def awaitTermination(self) -> None:  # noqa: N802
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        self.stopped = True


def test_an_error_of_ours_is_found_in_sparks_text_and_names_the_file() -> None:
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
def test_the_last_error_of_ours_counts_and_else_sparks_first_line(text, kind, words) -> None:
    found = as_ebbflow_error(Exception(text))
    assert type(found) is kind
    assert str(found) == words


def test_a_query_is_waited_for_to_its_end() -> None:
    assert run_to_the_end(Query(looks=2)) == [{"numInputRows": 1}]


def test_ctrl_c_stops_the_query_between_two_looks_and_nothing_is_raised_within_one() -> None:
    asked: list[bool] = []

    def interrupted_while_it_talks() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        asked.append(True)

    before = signal.getsignal(signal.SIGINT)
    query = Query(looks=50, on_look=interrupted_while_it_talks)
    with pytest.raises(KeyboardInterrupt):
        run_to_the_end(query)
    assert asked == [True], "the look was not broken off, and was the last"
    assert query.stopped
    assert signal.getsignal(signal.SIGINT) is before


def test_interrupts_are_noted_while_they_are_held() -> None:
    with held_interrupts() as interrupted:
        assert not interrupted()
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupted()
