"""A scenario the way people write it: on a command line, or in a TOML file with the same names.

::

    # rush.toml: ebbflow simulate rush.toml --strategy capacity,hpa
    pipeline = "top-words"
    engine = "micro-batch"
    load = "square(base=200, peak=1800, period=2h)"
    strategy = ["capacity", "spark-dra"]
    nodes = "1:16"
    slo = "freshness p95 <= 30s"
    seconds = "1d"
    lead-time = "45s"
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ebbflow.core.duration import format_duration, parse_duration_s
from ebbflow.core.limits import Limits
from ebbflow.core.ports import USUAL_LEAD_TIME_S
from ebbflow.core.slo import Slo
from ebbflow.errors import InputError, UnknownNameError
from ebbflow.strategies import STRATEGIES
from ebbflow.targets.simulator import MicroBatch, NodeKind, Scenario, built_in_engine
from ebbflow.targets.simulator.engine import Engine
from ebbflow.workloads import Load, parse_load

_WARM_SHARE = 0.75
_ENDLESS_S = 3600.0

Duration = str | float
"""``"90s"``, or a number of seconds."""


class Spec(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """All that can be said about a simulated run, as it is written. ``scenario`` makes it one.

    >>> Spec(load="constant(300)", seconds="10m", nodes="2:8").scenario().duration_s
    600.0
    """

    pipeline: str = "top-words"
    engine: str = "micro-batch"
    load: str | None = None
    strategy: str | list[str] = "capacity"
    nodes: str = "1:16"
    initial_nodes: int | None = None
    """Nodes there at the start. If not told, what the first minute needs: a recorded load that is high where it
    begins would else be judged by a start that no pipeline had."""
    slo: str = "freshness p95 <= 30s"
    seed: int = 1
    seconds: Duration | None = None
    """How long it lasts. If not told, as long as the load; of one without end its natural span, at least an hour."""
    cycle: Duration = "10s"
    lead_time: Duration = format_duration(USUAL_LEAD_TIME_S)
    lead_noise: float = 0.0
    trigger: Duration | None = None
    slots_per_node: int = 1
    noise: float = 0.05

    @property
    def strategies(self) -> list[str]:
        """The names of the strategies, each known and each once."""
        named = self.strategy.split(",") if isinstance(self.strategy, str) else self.strategy
        return strategy_names(named)

    @property
    def limits(self) -> Limits:
        """Fewest and most nodes."""
        return Limits.parse(self.nodes)

    @property
    def objective(self) -> Slo:
        """The SLO."""
        return Slo.parse(self.slo)

    @property
    def duration_s(self) -> float | None:
        """How long it lasts; None if as long as the load."""
        return None if self.seconds is None else _seconds("seconds", self.seconds, least_s=1.0)

    def scenario(self, load: Load | None = None) -> Scenario:
        """The scenario; ``load`` replaces the written one."""
        played = self._load() if load is None else load
        seconds = self.duration_s
        if seconds is None and math.isinf(played.duration_s):
            seconds = max(played.span_s, _ENDLESS_S)
        made = Scenario(
            engine=self._engine(),
            load=played,
            limits=self.limits,
            slo=self.objective,
            nodes=self._nodes(),
            initial_nodes=self.initial_nodes,
            seconds=seconds,
            cycle_s=_seconds("cycle", self.cycle, least_s=0.1),
            seed=self._seed(),
        )
        return replace(made, initial_nodes=_warm(made)) if self.initial_nodes is None else made

    def _load(self) -> Load:
        if self.load is None:
            raise InputError("no load is given; write one like --load 'sine(base=100, peak=900, period=1h)'")
        return parse_load(self.load)

    def _engine(self) -> Engine:
        engine = built_in_engine(self.pipeline, self.engine, noise=_spread("noise", self.noise))
        if self.trigger is None:
            return engine
        interval_s = _seconds("trigger", self.trigger, least_s=0.1)
        if not isinstance(engine, MicroBatch):
            raise InputError(f"the {self.engine} engine has no trigger; leave it out, or choose micro-batch")
        return replace(engine, trigger_interval_s=interval_s)

    def _nodes(self) -> NodeKind:
        return NodeKind(
            slots=self.slots_per_node,
            lead_time_s=_seconds("lead-time", self.lead_time, least_s=0.0),
            lead_noise=_spread("lead-noise", self.lead_noise),
        )

    def _seed(self) -> int:
        if self.seed < 0:
            raise InputError(f"seed {self.seed}; it must be a whole number from 0 up")
        return self.seed


_PARTS: dict[str, Callable[[Spec], object]] = {
    "pipeline": lambda spec: built_in_engine(spec.pipeline),
    "engine": lambda spec: built_in_engine(spec.pipeline, spec.engine),
    "load": lambda spec: spec.load is None or spec._load(),
    "strategy": lambda spec: spec.strategies,
    "nodes": lambda spec: spec.limits,
    "slo": lambda spec: spec.objective,
    "seed": lambda spec: spec._seed(),
    "seconds": lambda spec: spec.duration_s,
    "cycle": lambda spec: _seconds("cycle", spec.cycle, least_s=0.1),
    "lead-time": lambda spec: _seconds("lead-time", spec.lead_time, least_s=0.0),
    "lead-noise": lambda spec: _spread("lead-noise", spec.lead_noise),
    "slots-per-node": lambda spec: spec._nodes(),
    "noise": lambda spec: _spread("noise", spec.noise),
    "trigger": lambda spec: spec._engine(),
}
"""What can be wrong with each key, looked at one by one so that the one to blame can be named."""


def read_spec(path: Path) -> Spec:
    """A scenario file. ``InputError`` names the file, the key, and what would be right."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no scenario file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as a scenario: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f'{path} is not TOML: {error}; write keys like load = "constant(50)"') from None
    known = [field.encode_name for field in msgspec.structs.fields(Spec)]
    for key in values:
        if key not in known:
            raise UnknownNameError(f"key of {path}", key, known)
    spec = msgspec.convert({}, Spec)
    for key, value in values.items():
        try:
            spec = amended(spec, {key: value})
        except msgspec.ValidationError as error:
            wanted = str(error).partition(" - at ")[0]
            raise InputError(f"{path}, {key} = {_shown(value)}: {wanted[0].lower()}{wanted[1:]}") from None
    for key, look_at in _PARTS.items():
        try:
            look_at(spec)
        except InputError as error:
            raise InputError(f"{path}, {key}: {error}") from None
    return spec


def amended(spec: Spec, given: dict[str, Any]) -> Spec:
    """A spec with other values for some keys, named as they are written; None is not a value.

    >>> amended(Spec(), {"slots-per-node": 2, "nodes": None}).slots_per_node
    2
    """
    written = msgspec.to_builtins(spec) | {key: value for key, value in given.items() if value is not None}
    return msgspec.convert(written, Spec)


def strategy_names(named: list[str]) -> list[str]:
    """Names of strategies, each known and each once.

    >>> strategy_names(["capacity", " hpa "])
    ['capacity', 'hpa']
    """
    names = [name.strip() for name in named]
    for name in names:
        if name not in STRATEGIES:
            raise UnknownNameError("strategy", name, STRATEGIES)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"strategy '{twice}' is named twice; once is enough, the same seed gives the same run"
        )
    if not names:
        raise InputError(f"no strategy is named; there are: {', '.join(sorted(STRATEGIES))}")
    return names


def _warm(scenario: Scenario) -> int:
    """Nodes that are three quarters busy with the rows of the first minute.

    >>> Spec(load="constant(300)", seconds="1h").scenario().first_nodes  # 300 / 0.75 = 400; 2 hold 336, 3 hold 502
    3
    """
    first_s = min(60.0, scenario.duration_s)
    rate_per_s = scenario.arrivals.rows_by(first_s) / first_s
    enough = int(np.searchsorted(scenario.capacity_rows_per_s, rate_per_s / _WARM_SHARE))
    return scenario.limits.clamp(enough)


def _seconds(key: str, value: Duration, *, least_s: float) -> float:
    """Seconds of a duration, or of a plain number."""
    if isinstance(value, str):
        try:
            seconds = float(value)
        except ValueError:
            seconds = parse_duration_s(value)
    else:
        seconds = float(value)
    if not (least_s <= seconds and math.isfinite(seconds)):
        raise InputError(f"{key} is {value}; it must be a duration of at least {least_s:g}s, like 90s or 6h")
    return seconds


def _spread(key: str, value: float) -> float:
    if not 0.0 <= value <= 2.0:
        raise InputError(f"{key} is {value:g}; it must be a spread from 0 to 2, like 0.1")
    return value


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
