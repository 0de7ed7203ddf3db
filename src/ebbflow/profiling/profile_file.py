"""The file of a profile: readable TOML, checked key by key.

::

    version = 1                      [cpu.split]                   [[selectivity]]
    pipeline = "top-words"           kind = "line"                 from = "read"
    target = "simulator"             fixed = 0.01                  to = "split"
    learned_at = 2026-11-16T06:00:00Z   …                          mean = 17.86
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from ebbflow.errors import PipelineError, ProfileError
from ebbflow.profiling.models import Knots, LinearCurve, Model, Proportional, fall
from ebbflow.profiling.profile import (
    SIMULATOR,
    SPARK,
    VERSION,
    CpuProfile,
    NodeProfile,
    Profile,
    Range,
    SparkCosts,
    Spread,
)

LARGEST = 10_000_000
"""Most characters of a file."""
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_PATH = re.compile(r" - at `\$\.?(.*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")


class _Fit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A fitted model in the file; ``cores`` only for a node."""

    model: Model
    low: float
    high: float
    slope: float
    error: float
    samples: int
    cores: int | None = None
    tried: dict[str, float] = {}


class _Stream(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"start": "from"}
):
    start: str
    to: str
    mean: float
    deviation: float
    samples: int


class _Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    version: int
    pipeline: str
    learned_at: datetime
    node: _Fit
    target: str = ""
    selectivity: list[_Stream] = []
    cpu: dict[str, _Fit] = {}
    costs: SparkCosts | None = None


def to_text(profile: Profile) -> str:
    """A profile as TOML."""
    document = _Document(
        version=profile.version,
        pipeline=profile.pipeline,
        target=profile.target,
        learned_at=profile.learned_at,
        selectivity=[
            _Stream(start=a, to=b, mean=s.mean, deviation=s.deviation, samples=s.samples)
            for (a, b), s in profile.selectivity.items()
        ],
        cpu={name: _fit(fitted) for name, fitted in profile.cpu.items()},
        node=_fit(profile.node),
        costs=profile.costs,
    )
    plain = _without_none(msgspec.to_builtins(document, builtin_types=(datetime,)))
    name = "".join(sign if sign.isprintable() else "?" for sign in profile.pipeline)
    head = (
        f"# Costs of {name}, learned on {profile.target or 'an unknown target'}. Rates in rows/s of one "
        "instance, CPU in cores,\n# CPU of a node as a share of its cores, seconds. `ebbflow profile --help`.\n"
    )
    return head + "\n".join(_table("", plain)) + "\n"


def read(path: Path) -> Profile:
    """Read a profile from a file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ProfileError(f"cannot read the profile {path}: {why}") from None
    return from_text(text, str(path))


def from_text(text: str, where: str) -> Profile:
    """Read a profile from text.

    >>> from_text("version = 99", "a.toml")
    Traceback (most recent call last):
    ...
    ebbflow.errors.ProfileError: a.toml: this profile has version 99, but this Ebbflow reads only up to version 1; \
use a newer Ebbflow, or learn it again with `ebbflow profile`
    """
    if len(text) > LARGEST:
        raise ProfileError(f"{where}: a profile has at most {LARGEST} characters, not {len(text)}")
    try:
        plain = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"{where}: not TOML: {error}") from None
    version = plain.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ProfileError(f"{where}: not a profile; a profile begins with 'version = {VERSION}'")
    if version > VERSION:
        raise ProfileError(
            f"{where}: this profile has version {version}, but this Ebbflow reads only up to version {VERSION}; "
            "use a newer Ebbflow, or learn it again with `ebbflow profile`"
        )
    checked = _checked(plain)
    if isinstance(checked, str):
        raise ProfileError(f"{where}: {checked}, or learn it again with `ebbflow profile`")
    return checked


def sound_text(profile: Profile, where: str) -> str:
    """A profile as TOML that can be read again; ``ProfileError`` if what was learned is invalid.

    >>> sound_text(Profile(pipeline="p", selectivity={("p", "a"): Spread(mean=-12.1)}), "run.sqlite")
    Traceback (most recent call last):
    ...
    ebbflow.errors.ProfileError: run.sqlite: the learned profile is invalid and is not written: selectivity[0].mean \
is -12.1; learn it from another run
    """
    text = to_text(profile)
    checked = _checked(tomllib.loads(text))
    if isinstance(checked, str):
        raise ProfileError(
            f"{where}: the learned profile is invalid and is not written: {checked.partition(';')[0]}; "
            "learn it from another run"
        )
    return text


def _checked(plain: dict[str, Any]) -> Profile | str:
    """The profile in a document, or what is wrong and what would be right."""
    try:
        if wrong := wrong_number(plain):
            return wrong
        document = msgspec.convert(plain, _Document)
        if wrong := _wrong_text(document) or _wrong_range(document):
            return wrong
        profile = _profile(document)
        _ = profile.graph
    except msgspec.ValidationError as error:
        return _reworded(str(error), plain)
    except PipelineError as error:
        return f"selectivity: {error}; write streams that lead away from the source"
    return profile


def _wrong_text(document: _Document) -> str | None:
    if not document.pipeline:
        return "pipeline is empty; write the name of the pipeline"
    if document.target not in ("", SPARK, SIMULATOR):
        return f'target is {_quoted(document.target)}; write "{SPARK}" or "{SIMULATOR}", where it was learned'
    if "" in document.cpu:
        return 'cpu."" has no name; write the name of an operator'
    streams = set()
    for number, stream in enumerate(document.selectivity):
        for key, end in (("from", stream.start), ("to", stream.to)):
            if not end:
                return f"selectivity[{number}].{key} is empty; write the name of an operator"
        if (stream.start, stream.to) in streams:
            return (
                f"selectivity[{number}] repeats the stream from '{stream.start}' to '{stream.to}'; "
                "leave one of them out"
            )
        streams.add((stream.start, stream.to))
    return None


def _wrong_range(document: _Document) -> str | None:
    fits = {**{f"cpu.{_key(name)}": fit for name, fit in document.cpu.items()}, "node": document.node}
    ranges: dict[str, _Fit | Range] = {**fits}
    if document.costs is not None and document.costs.batch_rows is not None:
        ranges["costs.batch_rows"] = document.costs.batch_rows
    for key, ends in ranges.items():
        if ends.low > ends.high:
            return f"{key}.low is {ends.low:g}, above {key}.high, which is {ends.high:g}; swap them"
    falls = (wrong_fall(fit.model, f"{key}.model", fit.low, fit.high) for key, fit in fits.items())
    return next(filter(None, falls), None)


def _profile(document: _Document) -> Profile:
    node = document.node
    return Profile(
        version=document.version,
        pipeline=document.pipeline,
        target=document.target,
        learned_at=document.learned_at,
        selectivity={
            (s.start, s.to): Spread(mean=s.mean, deviation=s.deviation, samples=s.samples)
            for s in document.selectivity
        },
        cpu={
            name: CpuProfile(
                model=fit.model, low=fit.low, high=fit.high, slope=_slope(fit), error=fit.error,
                samples=fit.samples, tried=fit.tried,
            )
            for name, fit in document.cpu.items()
        },
        node=NodeProfile(
            model=node.model, low=node.low, high=node.high, slope=_slope(node), error=node.error,
            samples=node.samples, tried=node.tried, cores=node.cores or 1,
        ),
        costs=document.costs,
    )  # fmt: skip


def _slope(fit: _Fit) -> float:
    """A straight model has its own slope: an edit of the file may have changed only one of the two."""
    return fit.model.per_unit if isinstance(fit.model, Proportional | LinearCurve) else fit.slope


def _fit(fitted: CpuProfile | NodeProfile) -> _Fit:
    return _Fit(
        model=fitted.model, low=fitted.low, high=fitted.high, slope=fitted.slope, error=fitted.error,
        samples=fitted.samples, tried=dict(fitted.tried),
        cores=fitted.cores if isinstance(fitted, NodeProfile) else None,
    )  # fmt: skip


def _reworded(error: str, plain: Mapping[str, Any]) -> str:
    """Reword an error of msgspec like 'Expected `float`, got `str` - at `$.cpu[...].low`', and name the operator."""
    at = _PATH.search(error)
    key, operators = at[1] if at else "", plain.get("cpu")
    if key.startswith("cpu[...]") and isinstance(operators, dict):
        key = f"cpu.{next(filter(lambda n: not _converts(operators[n]), operators))}{key[len('cpu[...]') :]}"
    wrong = error[: at.start()] if at else error
    if unknown := _UNKNOWN.fullmatch(wrong):
        known = f"{key}{'.' if key else ''}{_key(unknown[1])}"
        return f"{known} is not a key of a profile; write it as `ebbflow profile` does"
    return f"{key}{': ' if key else ''}{wrong}; write it as `ebbflow profile` does"


def _converts(table: Any) -> bool:
    try:
        msgspec.convert(table, _Fit)
    except msgspec.ValidationError:
        return False
    return True


# -- writing ---------------------------------------------------------------------------------


def _table(path: str, table: Mapping[str, Any]) -> Iterator[str]:
    """The values of a table, then the tables in it."""
    inner = {key: value for key, value in table.items() if _is_table(value)}
    for key, value in table.items():
        if key not in inner:
            yield f"{_key(key)} = {_value(value)}"
    for key, value in inner.items():
        name = f"{path}.{_key(key)}" if path else _key(key)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(value, list):
                yield f"\n[[{name}]]"
            elif any(not _is_table(v) for v in each.values()):
                yield f"\n[{name}]"
            yield from _table(name, each)


def _is_table(value: Any) -> bool:
    return (isinstance(value, dict) and bool(value)) or (
        isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)
    )


def _value(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds").replace("+00:00", "Z")
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return "{}"
    return repr(value) if isinstance(value, float) else _quoted(value)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _quoted(key)


def _quoted(value: Any) -> str:
    """As in JSON, which differs from TOML in one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _without_none(value: Any) -> Any:
    """TOML has no null: unknown values are left out."""
    if isinstance(value, dict):
        return {key: _without_none(each) for key, each in value.items() if each is not None}
    return [_without_none(each) for each in value] if isinstance(value, list | tuple) else value


# -- checks ----------------------------------------------------------------------------------------------


Rule = tuple[Callable[[float], bool], str]

_ANY: Rule = (lambda _: True, "a number")
_FROM_0: Rule = (lambda value: value >= 0, "a number of 0 or more")
_ABOVE_0: Rule = (lambda value: value > 0, "a number above 0")
_FROM_1: Rule = (lambda value: value >= 1, "a number of 1 or more")

LARGEST_NUMBER = 1e15
"""Largest number: beyond any rate, count or time, and squares stay finite."""
RULES: dict[str, Rule] = {
    **dict.fromkeys(("cores", "tasks", "skew"), _FROM_1),
    "x_scale": _ABOVE_0,
    **dict.fromkeys(
        ("fixed", "x_middle", "y_middle", "y_scale", "weights", "shifts", "outputs", "output_shift"), _ANY
    ),
}
"""By key; numbers under all other keys are 0 or more."""


def wrong_number(plain: Any, path: str = "") -> str | None:
    """The first invalid number, with its key and what would be right; None if all are valid.

    >>> wrong_number({"cpu": {"split": {"low": 1.0, "slope": float("nan")}}})
    'cpu.split.slope is nan; write a number of 0 or more'
    >>> wrong_number({"costs": {"stages": [{"tasks": 4}, {"tasks": 0}]}})
    'costs.stages[1].tasks is 0; write a number of 1 or more'
    >>> wrong_number({"slope": 1e300})
    'slope is 1e+300; write a number of 0 or more, and no more than 1e+15'
    """
    for key, value, rule in _numbers(plain, path, _FROM_0):
        fits, right = rule
        if math.isfinite(value) and abs(value) > LARGEST_NUMBER:
            return f"{key} is {value:g}; write {right}, and no more than {LARGEST_NUMBER:g}"
        if not math.isfinite(value) or not fits(value):
            return f"{key} is {value:g}; write {right}"
    return None


def wrong_fall(model: Model, key: str, low: float, high: float) -> str | None:
    """Where a model says that more rows cost less, and what would be right; None if it never does.

    >>> wrong_fall(Knots(x=(0.0, 1.0, 2.0), y=(0.0, 3.0, 1.0)), "cpu.split.model", 0.0, 2.0)
    'cpu.split.model.y[2] is 1, after 3; write values of y that never fall'
    """
    found = fall(model, low, high)
    if found is None:
        return None
    before, behind = (model.at(x) for x in found)
    if isinstance(model, Knots):
        at = model.x.index(found[1])
        return f"{key}.y[{at}] is {behind:g}, after {before:g}; write values of y that never fall"
    return (
        f"{key} falls from {before:g} at {found[0]:g} to {behind:g} at {found[1]:g}; write one that never falls "
        "between low and high"
    )


def _numbers(plain: Any, path: str, rule: Rule) -> Iterator[tuple[str, float, Rule]]:
    if isinstance(plain, Mapping):
        for key, value in plain.items():
            yield from _numbers(value, f"{path}.{key}" if path else key, RULES.get(key, _FROM_0))
    elif isinstance(plain, list | tuple):
        for number, value in enumerate(plain):
            yield from _numbers(value, f"{path}[{number}]", rule)
    elif isinstance(plain, float):
        yield path, plain, rule
    elif isinstance(plain, int) and not isinstance(plain, bool):
        yield path, float(plain) if abs(plain) < 10**300 else math.inf, rule
