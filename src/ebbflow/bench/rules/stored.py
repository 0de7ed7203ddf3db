"""The last run of the cases on a real Spark cluster that was kept: half an hour that not everyone has.

``ebbflow bench rules --target spark --json > src/ebbflow/bench/rules/on_spark.json`` makes the file anew.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files

from ebbflow.bench.rules.cases import Change


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What was measured of a case, and on which day."""

    case: str
    measured_on: str
    changes: tuple[Change, ...]
    queue_slope_per_s: float | None
    ok: bool
    expected: tuple[Change, ...]


def stored_on_spark() -> dict[str, Stored]:
    """By the names of the cases.

    >>> [change.after for change in stored_on_spark()["extra-capacity"].changes]
    [3]
    """
    text = files("ebbflow.bench.rules").joinpath("on_spark.json").read_text(encoding="utf-8")
    return {
        row["case"]: Stored(
            case=row["case"],
            measured_on=row["measured_on"],
            changes=tuple(Change.from_json(change) for change in row["measured"]["changes"]),
            queue_slope_per_s=row["measured"].get("queue_slope_per_s"),
            ok=row["ok"],
            expected=tuple(Change.from_json(change) for change in row["expected"]["changes"]),
        )
        for row in json.loads(text)
    }
