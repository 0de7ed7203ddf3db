"""The file of a profile: readable TOML, checked key by key.

::

    version = 1                      [cpu.split]                   [[selectivity]]
    pipeline = "top-words"           kind = "line"                 from = "read"
    target = "simulator"             fixed = 0.01                  to = "split"
    learned_at = 2026-11-16T06:00:00Z   …                          mean = 17.86
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from ebbflow.errors import PipelineError, ProfileError
from ebbflow.profiling import profile_text
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
from ebbflow.profiling.profile_text import bare_key, quoted, wrong_number


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
    name = "".join(sign if sign.isprintable() else "?" for sign in profile.pipeline)
    head = (
        f"# Costs of {name}, learned on {profile.target or 'an unknown target'}. Rates in rows/s of one "
        "instance, CPU in cores,\n# CPU of a node as a share of its cores, seconds. `ebbflow profile --help`.\n"
    )
    return head + profile_text.write(document)


def read(path: Path) -> Profile:
    """Read a profile from a file."""
    return from_text(profile_text.read_text(path), str(path))


def from_text(text: str, where: str) -> Profile:
    """Read a profile from text.

    >>> from_text("version = 99", "a.toml")
    Traceback (most recent call last):
    ...
    ebbflow.errors.ProfileError: a.toml: this profile has version 99, but this Ebbflow reads only up to version 1; \
use a newer Ebbflow, or learn it again with `ebbflow profile`
    """
    plain = profile_text.parse(text, where, VERSION)
    if "cluster" in plain and "pipeline" not in plain:
        raise ProfileError(f"{where}: this is the profile of a datastore; give the profile of a pipeline")
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
        return profile_text.reworded(error, lambda key: _key_of(plain, key))
    except PipelineError as error:
        return f"selectivity: {error}; write streams that lead away from the source"
    return profile


def _wrong_text(document: _Document) -> str | None:
    if not document.pipeline:
        return "pipeline is empty; write the name of the pipeline"
    if document.target not in ("", SPARK, SIMULATOR):
        return f'target is {quoted(document.target)}; write "{SPARK}" or "{SIMULATOR}", where it was learned'
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
    fits = {**{f"cpu.{bare_key(name)}": fit for name, fit in document.cpu.items()}, "node": document.node}
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


def _key_of(plain: Mapping[str, Any], key: str) -> str:
    """Name the operator in a key like ``cpu[...].low``."""
    operators = plain.get("cpu")
    if key.startswith("cpu[...]") and isinstance(operators, dict):
        return f"cpu.{next(filter(lambda n: not _converts(operators[n]), operators))}{key[len('cpu[...]') :]}"
    return key


def _converts(table: Any) -> bool:
    try:
        msgspec.convert(table, _Fit)
    except msgspec.ValidationError:
        return False
    return True


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
