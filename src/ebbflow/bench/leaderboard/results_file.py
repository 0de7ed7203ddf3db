"""The results of a sweep as Parquet: one row per run, typed, with all it takes to repeat it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

from ebbflow.bench.leaderboard.sweep import Scene, Sweep
from ebbflow.bench.score import Scores
from ebbflow.bench.spec import Spec
from ebbflow.errors import InputError

FILE_NAME = "results.parquet"


def check_results_path(path: Path) -> Path:
    """The file that results go to: the path itself, or one in it if it is a folder. It must be writable."""
    file = path / FILE_NAME if path.is_dir() else path
    if not file.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {file.parent}")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise InputError(f"cannot write {path}: permission denied")
    return file


def write_results(file: Path, sweep: Sweep, scenes: Sequence[Scene], spec: Spec) -> None:
    """Write one row per run; one that failed has its error and no scores."""
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.Table.from_pylist(_rows(sweep, scenes, spec), schema=_schema())
    parquet.write_table(table, file)


def _schema() -> Any:
    import pyarrow as pa

    types = {"strategy": pa.string(), "load": pa.string(), "load_text": pa.string(), "seed": pa.int64()}
    types |= {"pipeline": pa.string(), "engine": pa.string(), "slo": pa.string()}
    types |= {"min_nodes": pa.int32(), "max_nodes": pa.int32(), "duration_s": pa.float64()}
    hints = get_type_hints(Scores)
    for field in fields(Scores):
        hint = hints[field.name]
        types[field.name] = pa.int64() if int in (hint, *get_args(hint)) else pa.float64()
    types |= {"slo_kept": pa.bool_(), "oracle_node_seconds": pa.float64(), "oracle_feasible": pa.bool_()}
    return pa.schema([*types.items(), ("error", pa.string())])


def _rows(sweep: Sweep, scenes: Sequence[Scene], spec: Spec) -> list[dict[str, Any]]:
    surroundings = {}
    for scene in scenes:
        scenario = scene.scenario
        surroundings[scene.load, scenario.seed] = {
            "load": scene.load,
            "load_text": str(scenario.load),
            "seed": scenario.seed,
            "pipeline": spec.pipeline,
            "engine": spec.engine,
            "slo": str(scenario.slo),
            "min_nodes": scenario.limits.min_nodes,
            "max_nodes": scenario.limits.max_nodes,
            "duration_s": scenario.duration_s,
        }
    rows: list[dict[str, Any]] = [
        {
            "strategy": result.strategy,
            **surroundings[result.load, result.seed],
            **result.scores.to_json(),
            "slo_kept": result.kept,
            "oracle_node_seconds": result.oracle_node_seconds,
            "oracle_feasible": result.oracle_feasible,
        }
        for result in sweep.results
    ]
    rows += [
        {"strategy": failure.strategy, **surroundings[failure.load, failure.seed], "error": failure.error}
        for failure in sweep.failures
    ]
    return rows
