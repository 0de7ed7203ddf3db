"""Waits for the end of a real run, and not a moment longer than its query lives."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any, Protocol

from ebbflow.core.clock import Clock, wait_until
from ebbflow.errors import TargetError
from ebbflow.targets.spark.driver import as_ebbflow_error

# When a source of ours began: it writes that into its offsets, so the first progress tells.


def source_start_s(query: Any, clock: Clock, stop: threading.Event, *, within_s: float) -> float:
    """Wait for the first batch of a query, and say when its source began."""

    def has_begun() -> bool:
        if (failed := query.exception()) is not None:
            raise as_ebbflow_error(failed)
        return query.lastProgress is not None

    if not wait_until(has_begun, clock, clock.now_s() + within_s, every_s=0.1, stop=stop):
        raise TargetError(f"the query did not finish its first batch within {within_s:g} s")
    return int(end_offset(query.lastProgress)["startMs"]) / 1000


def end_offset(progress: Any) -> dict[str, Any]:
    """How far the source had got; Spark gives it as text or as values.

    >>> end_offset({"sources": [{"endOffset": '{"row": 7}'}]})
    {'row': 7}
    """
    offset = progress["sources"][0]["endOffset"]
    found: dict[str, Any] = json.loads(offset) if isinstance(offset, str) else offset
    return found


LOOK_EVERY_S = 5.0

Failure = Callable[[], Exception | None]
"""What a query has failed of; None while it runs."""


class Scaled(Protocol):
    """As much of what ``attach`` gives."""

    @property
    def active(self) -> bool:
        """Whether anything is being scaled."""


def wait_for_end(
    failure: Failure, attached: Scaled, clock: Clock, until_s: float, ended: threading.Event
) -> None:
    """Wait until a time; what the query failed of is told as soon as it is seen, and not at the end."""
    while True:
        active = attached.active  # asked first: the loop ends, too, when the application has
        raise_failure(failure)
        if not active:
            raise TargetError("the loop has ended before its time; see the log")
        if ended.is_set() or (left_s := until_s - clock.now_s()) <= 0:
            return
        clock.wait(min(LOOK_EVERY_S, max(0.1, left_s)), ended)


def raise_failure(failure: Failure) -> None:
    """Raise what a query has failed of, in our own words."""
    if (failed := failure()) is not None:
        raise as_ebbflow_error(failed)
