"""Scenario files: every error names the file, the table, the key, and what would be right."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ebbflow.errors import InputError, UnknownNameError
from ebbflow.runs.spec import Spec, amended
from ebbflow.runs.spec.tables import (
    FAULTS,
    ClusterTable,
    LinkTable,
    QueuesTable,
    Table,
    TenantTable,
    seconds_of,
    spread_of,
)
from ebbflow.targets.simulator import built_in_engine
from ebbflow.workloads import Constant

_LISTS = {"fault": 'kind = "node-dies"', "tenant": 'load = "constant(200)"'}
"""Tables of which there may be several, with what one begins with."""
_EXAMPLES = {
    "at": '"10m"',
    "from": '"10m"',
    "until": '"20m"',
    "load": '"constant(200)"',
    "node-speeds": "[1.0, 0.5]",
    "nodes": '"1:16"',
    "seconds": '"6h", or 3600',
    "placement": '{ counter = "west" }',
    "bound": '5000, or "none"',
    "pending": '5000, or "none"',
    "read-limit": '20000, or "none"',
}
"""Of keys that must be there, and of those whose kind says too little."""


def read_spec(path: Path, base: Spec | None = None) -> Spec:
    """Read a scenario file. ``base``: values of keys that it leaves out. Errors name the file and the key."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InputError(f"there is no scenario file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as a scenario: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f'{path} is not TOML: {error}; write keys like load = "constant(50)"') from None
    _check(str(path), Spec, values)
    spec = amended(base or Spec(), values)
    for part, look_at in _parts(spec):
        try:
            look_at()
        except InputError as error:
            raise InputError(f"{path}, {part}: {error}") from None
    try:
        spec.scenario(Constant(level_per_s=1.0))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return spec


def _parts(spec: Spec) -> Iterator[tuple[str, Callable[[], object]]]:
    """What can be wrong, looked at one by one so that the one to blame can be named."""
    yield "pipeline", lambda: built_in_engine(spec.pipeline)
    yield "engine", lambda: built_in_engine(spec.pipeline, spec.engine)
    yield "load", lambda: spec.load is None or spec.written_load()
    yield "strategy", lambda: spec.strategies
    yield "nodes", lambda: spec.limits
    yield "slo", lambda: spec.objective
    yield "seed", spec.checked_seed
    yield "seconds", lambda: spec.duration_s
    yield "cycle", lambda: spec.cycle_s
    yield "lead-time", lambda: seconds_of("lead-time", spec.lead_time, least_s=0.0)
    yield "lead-noise", lambda: spread_of("lead-noise", spec.lead_noise)
    yield "slots-per-node", lambda: msgspec.structs.replace(spec, node_speeds=(1.0,), drain="0s").node_kind
    yield "node-speeds", lambda: msgspec.structs.replace(spec, drain="0s").node_kind
    yield "drain", lambda: spec.node_kind
    yield "noise", lambda: spread_of("noise", spec.noise)
    yield "queues", lambda: spec.queues.applied(built_in_engine(spec.pipeline, spec.engine))
    yield "trigger", spec.written_engine
    for number, fault in enumerate(spec.fault, start=1):
        yield f"fault {number}", fault.made
    for number, tenant in enumerate(spec.tenant, start=1):
        yield f"tenant {number}", partial(spec.neighbour, tenant)
    for name, cluster in spec.cluster.items():
        yield f"cluster {name}", cluster.made
    yield "cluster", spec.clusters
    yield "link", spec.link.made


def _check(where: str, kind: type[Table], values: Any) -> None:
    """Every key of a table must be known and of its kind, and those that it needs be there."""
    if not isinstance(values, dict):
        raise InputError(f"{where} = {_shown(values)}: it must be a table of keys and values")
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for key, value in values.items():
        if key not in fields:
            raise UnknownNameError(f"key of {where}", key, fields)
        if kind is Spec and _check_tables(where, key, value):
            continue
        try:
            msgspec.convert(value, fields[key].type)
        except msgspec.ValidationError as error:
            wanted = str(error).partition(" - at ")[0]
            like = f"; write it like {key} = {_EXAMPLES[key]}" if key in _EXAMPLES else ""
            raise InputError(
                f"{where}, {key} = {_shown(value)}: {wanted[0].lower()}{wanted[1:]}{like}"
            ) from None
    for name, field in fields.items():
        if field.required and name not in values:
            raise InputError(f"{where} has no '{name}'; write it like {name} = {_EXAMPLES[name]}")


def _check_tables(where: str, key: str, value: Any) -> bool:
    """Whether a key of a scenario is one of tables; then they have been looked at."""
    if key in _LISTS:
        if not isinstance(value, list):
            raise InputError(f"{where}, {key}: there may be several; write [[{key}]] with {_LISTS[key]}")
        for number, table in enumerate(value, start=1):
            if key == "fault":
                _check_fault(f"{where}, fault {number}", table)
            else:
                _check(f"{where}, tenant {number}", TenantTable, table)
    elif key == "cluster":
        if not isinstance(value, dict) or not all(isinstance(table, dict) for table in value.values()):
            raise InputError(
                f"{where}, cluster: each has a name; write [cluster.west] with initial-nodes = 2"
            )
        for name, table in value.items():
            _check(f"{where}, cluster {name}", ClusterTable, table)
    elif key in ("link", "queues"):
        _check(f"{where}, {key}", LinkTable if key == "link" else QueuesTable, value)
    else:
        return False
    return True


def _check_fault(where: str, table: Any) -> None:
    if not isinstance(table, dict) or "kind" not in table:
        raise InputError(f"{where} has no 'kind'; write one of {', '.join(FAULTS)}")
    kind = table["kind"]
    if not isinstance(kind, str) or kind not in FAULTS:
        raise UnknownNameError(f"kind in {where}", str(kind), FAULTS)
    _check(where, FAULTS[kind], {key: value for key, value in table.items() if key != "kind"})


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
