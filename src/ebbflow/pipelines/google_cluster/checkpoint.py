"""What Spark wrote down of a run that was broken off: read before anything is started."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ebbflow.pipelines.google_cluster.source import FOLDER


@dataclass(frozen=True, kw_only=True)
class Begun:
    """How a run was begun, by the newest batch that was planned."""

    folder: str
    """Fingerprint of the folder it reads."""
    instances: int | None
    """Of the machine operator: Spark keeps the number of state partitions, whatever a later start asks for."""


def begun(checkpoint: Path) -> Begun | None:
    """None where no batch was planned.

    A file of Spark's ``offsets`` is a version, a line of settings, and a line for each source.
    """
    batches = [int(each.name) for each in checkpoint.glob("offsets/*") if each.name.isdecimal()]
    if not batches:
        return None
    lines = (checkpoint / "offsets" / str(max(batches))).read_text().splitlines()
    try:
        settings, offset = json.loads(lines[1])["conf"], json.loads(lines[2])
        instances = settings.get("spark.sql.shuffle.partitions")
        return Begun(
            folder=str(offset.get(FOLDER, "")), instances=None if instances is None else int(instances)
        )
    except (IndexError, KeyError, TypeError, AttributeError, ValueError):
        return Begun(folder="", instances=None)  # of another source, or of another version
