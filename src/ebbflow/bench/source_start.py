"""When a source of ours began: it writes that into its offsets, so the first progress tells."""

from __future__ import annotations

import json
import threading
from typing import Any

from ebbflow.core.clock import Clock, wait_until
from ebbflow.errors import TargetError
from ebbflow.targets.spark.failure import failure_of


def source_start_s(query: Any, clock: Clock, stop: threading.Event, *, within_s: float) -> float:
    """Wait for the first batch of a query, and say when its source began."""

    def has_begun() -> bool:
        if (failed := query.exception()) is not None:
            raise failure_of(failed)
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
