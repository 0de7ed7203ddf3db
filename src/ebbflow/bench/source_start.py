"""When a source of ours began: it writes that into its offsets, so the first progress tells."""

from __future__ import annotations

import json
import threading
from typing import Any

from ebbflow.core.clock import Clock
from ebbflow.errors import TargetError


def source_start_s(query: Any, clock: Clock, stop: threading.Event, *, within_s: float) -> float:
    """Wait for the first batch of a query, and say when its source began."""
    deadline_s = clock.now_s() + within_s
    while clock.now_s() < deadline_s and not stop.is_set():
        failed = query.exception()
        if failed is not None:
            raise TargetError(f"the query failed to start: {str(failed).splitlines()[0]}")
        if query.lastProgress is not None:
            return int(end_offset(query.lastProgress)["startMs"]) / 1000
        clock.wait(0.1, stop)
    raise TargetError(f"the query did not finish its first batch within {within_s:g} s")


def end_offset(progress: Any) -> dict[str, Any]:
    """How far the source had got; Spark gives it as text or as values.

    >>> end_offset({"sources": [{"endOffset": '{"row": 7}'}]})
    {'row': 7}
    """
    offset = progress["sources"][0]["endOffset"]
    found: dict[str, Any] = json.loads(offset) if isinstance(offset, str) else offset
    return found
