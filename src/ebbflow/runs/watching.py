"""Wait for a real run to end, and fail as soon as its query fails."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any, Protocol

from ebbflow.core.clock import Clock, wait_until
from ebbflow.errors import TargetError
from ebbflow.targets.spark.driver import as_ebbflow_error

POLL_EVERY_S = 5.0

Failure = Callable[[], Exception | None]
"""Returns the error of a failed query; None while it runs."""


class AttachedLoop(Protocol):
    """The part of the result of ``attach`` that is needed here."""

    @property
    def active(self) -> bool:
        """Whether the loop is running."""


def wait_for_end(
    failure: Failure, attached: AttachedLoop, clock: Clock, until_s: float, ended: threading.Event
) -> None:
    """Wait until a time; raise at once if the query fails or the loop ends."""
    while True:
        active = attached.active  # read first: the loop also ends when the application has ended
        raise_failure(failure)
        if not active:
            raise TargetError("the loop has ended too early; see the log")
        if ended.is_set() or (left_s := until_s - clock.now_s()) <= 0:
            return
        clock.wait(min(POLL_EVERY_S, max(0.1, left_s)), ended)


def raise_failure(failure: Failure) -> None:
    """Raise the error of a failed query as one of Ebbflow's."""
    if (failed := failure()) is not None:
        raise as_ebbflow_error(failed)


def source_start_s(query: Any, clock: Clock, stop: threading.Event, *, within_s: float) -> float:
    """Wait for the first batch of a query, and return when its source started.

    Sources of Ebbflow write that time into their offsets.
    """

    def has_progress() -> bool:
        raise_failure(query.exception)
        return query.lastProgress is not None

    if not wait_until(has_progress, clock, within_s=within_s, every_s=0.1, stop=stop):
        raise TargetError(f"the query did not finish its first batch within {within_s:g} s")
    return int(end_offset(query.lastProgress)["startMs"]) / 1000


def end_offset(progress: Any) -> dict[str, Any]:
    """The end offset of the first source, which Spark reports as text or as values.

    >>> end_offset({"sources": [{"endOffset": '{"row": 7}'}]})
    {'row': 7}
    """
    offset = progress["sources"][0]["endOffset"]
    decoded: dict[str, Any] = json.loads(offset) if isinstance(offset, str) else offset
    return decoded
