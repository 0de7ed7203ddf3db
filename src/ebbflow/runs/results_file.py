"""The results of a sweep as a Parquet file: one typed row per run, with everything needed to repeat it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from ebbflow.errors import InputError
from ebbflow.policy.files import policy_text
from ebbflow.policy.model import Policy
from ebbflow.runs.score import Scores
from ebbflow.runs.spec import Spec, with_values
from ebbflow.runs.sweep import Sweep, SweepCase
from ebbflow.targets.simulator import MicroBatch

FILE_NAME = "results.parquet"

TABLES = ("at", "node-speeds", "drain", "fault", "tenant", "cluster", "placement", "link", "queues")
"""Keys of a scenario without a column of their own."""


def check_results_path(path: Path) -> Path:
    """The file to write: the path itself, or ``results.parquet`` in it if it is a folder or has no suffix.

    Creates the folder if needed; raises unless the file is writable.
    """
    if not path.suffix and not path.exists() and path.parent.is_dir():
        path.mkdir()
    file = path / FILE_NAME if path.is_dir() else path
    if not file.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {file.parent}")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise InputError(f"cannot write {path}: permission denied")
    return file


def write_results(
    file: Path,
    sweep: Sweep,
    cases: Sequence[SweepCase],
    spec: Spec,
    policies: Mapping[str, Policy] | None = None,
) -> None:
    """Write one row per run; a failed run has an error and no scores. ``partial`` marks an interrupted sweep."""
    import pyarrow as pa
    from pyarrow import parquet

    texts = {name: policy_text(policy, ".toml") for name, policy in (policies or {}).items()}
    table = pa.Table.from_pylist(_rows(sweep, cases, spec, texts), schema=_schema())
    parquet.write_table(table, file)


def spec_of(row: Mapping[str, Any]) -> Spec:
    """The scenario of a row, to repeat its run."""
    values = json.loads(row["tables"]) | {
        "load": row["load_text"],
        "seed": row["seed"],
        "pipeline": row["pipeline"],
        "engine": row["engine"],
        "slo": row["slo"],
        "nodes": f"{row['min_nodes']}:{row['max_nodes']}",
        "initial-nodes": row["initial_nodes"],
        "seconds": row["duration_s"],
        "cycle": row["cycle_s"],
        "lead-time": row["lead_time_s"],
        "lead-noise": row["lead_noise"],
        "trigger": row["trigger_s"],
        "slots-per-node": row["slots_per_node"],
        "noise": row["noise"],
    }
    return with_values(Spec(), values)


def _schema() -> Any:
    import pyarrow as pa

    types = {"strategy": pa.string(), "load": pa.string(), "load_text": pa.string(), "seed": pa.int64()}
    types |= {"pipeline": pa.string(), "engine": pa.string(), "slo": pa.string()}
    types |= {"min_nodes": pa.int32(), "max_nodes": pa.int32(), "initial_nodes": pa.int32()}
    types |= {"slots_per_node": pa.int32()}
    reals = ("duration_s", "sample_step_s", "cycle_s", "lead_time_s", "lead_noise", "trigger_s", "noise")
    types |= dict.fromkeys(reals, pa.float64())
    types |= {"tables": pa.string(), "policy": pa.string()}
    hints = get_type_hints(Scores)
    for field in fields(Scores):
        types[field.name] = pa.int64() if hints[field.name] in (int, int | None) else pa.float64()
    types |= {"slo_kept": pa.bool_(), "oracle_node_seconds": pa.float64(), "oracle_feasible": pa.bool_()}
    return pa.schema([*types.items(), ("error", pa.string()), ("partial", pa.bool_())])


def _rows(
    sweep: Sweep, cases: Sequence[SweepCase], spec: Spec, policies: Mapping[str, str]
) -> list[dict[str, Any]]:
    columns = {}
    tables = _tables(spec)
    for case in cases:
        scenario, engine = case.scenario, case.scenario.engine
        micro_batch = engine if isinstance(engine, MicroBatch) else None
        columns[case.load, scenario.seed] = {
            "load": case.load,
            "load_text": str(scenario.load),
            "seed": scenario.seed,
            "pipeline": spec.pipeline,
            "engine": spec.engine,
            "slo": str(scenario.slo),
            "min_nodes": scenario.limits.min_nodes,
            "max_nodes": scenario.limits.max_nodes,
            "initial_nodes": scenario.first_nodes,
            "slots_per_node": scenario.nodes.slots,
            "duration_s": scenario.duration_s,
            "sample_step_s": case.step_s,
            "cycle_s": scenario.cycle_s,
            "lead_time_s": scenario.nodes.lead_time_s,
            "lead_noise": scenario.nodes.lead_noise,
            "trigger_s": None if micro_batch is None else micro_batch.trigger_interval_s,
            "noise": spec.noise,
            "tables": tables,
            "partial": sweep.unfinished > 0,
        }
    rows: list[dict[str, Any]] = [
        {
            "strategy": result.strategy,
            "policy": policies.get(result.strategy),
            **columns[result.load, result.seed],
            **result.scores.to_json(),
            "slo_kept": result.slo_kept,
            "oracle_node_seconds": result.oracle_node_seconds,
            "oracle_feasible": result.oracle_feasible,
        }
        for result in sweep.results
    ]
    rows += [
        {
            "strategy": failure.strategy,
            "policy": policies.get(failure.strategy),
            **columns[failure.load, failure.seed],
            "error": failure.error,
        }
        for failure in sweep.failures
    ]
    return rows


def _tables(spec: Spec) -> str:
    """The keys of a scenario without a column (faults, tenants, clusters, queues, node speeds), as JSON."""
    values, defaults = msgspec.to_builtins(spec), msgspec.to_builtins(Spec())
    tables = {key: values[key] for key in TABLES if values[key] != defaults[key]}
    return json.dumps(tables, sort_keys=True)
