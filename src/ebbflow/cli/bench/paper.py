"""Shared by the benchmarks of papers that run on the simulator and on Spark: the checks of their options."""

from __future__ import annotations

from pathlib import Path

from ebbflow.cli.comparison import check_workers
from ebbflow.cli.output import refuse
from ebbflow.errors import InputError, UnknownNameError
from ebbflow.papers import SIMULATOR, TARGETS


def check_paper_options(
    target: str, *, seeds: int | None, studies: bool | None, workers: int | None, trace: Path | None
) -> list[str]:
    """Check the options that such benchmarks share. Returns the targets named."""
    check_workers(workers)
    targets = [name.strip() for name in target.split(",")]
    for name in targets:
        if name not in TARGETS:
            raise UnknownNameError("target", name, TARGETS)
    if SIMULATOR not in targets:
        refuse(
            {"seeds": seeds, "no-studies" if studies is False else "studies": studies, "workers": workers},
            "is for --target simulator; on Spark each row runs once",
        )
    if seeds is not None and seeds < 1:
        raise InputError(f"--seeds {seeds} leaves nothing to compare; the minimum is 1")
    if trace is not None and not trace.is_file():
        raise InputError(
            f"there is no trace file {trace}; give one with tweets per second, or leave --trace out"
        )
    return targets
