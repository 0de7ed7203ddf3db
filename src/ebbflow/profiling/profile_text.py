"""What the files of all profiles share: readable TOML, a version, and numbers checked key by key."""

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

from ebbflow.errors import ProfileError

LARGEST = 10_000_000
"""Most characters of a file."""
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_PATH = re.compile(r" - at `\$\.?(.*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")


def read_text(path: Path) -> str:
    """The text of a file."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ProfileError(f"cannot read the profile {path}: {why}") from None


def parse(text: str, where: str, version: int) -> dict[str, Any]:
    """The TOML of a profile whose version can be read, which is up to ``version``."""
    if len(text) > LARGEST:
        raise ProfileError(f"{where}: a profile has at most {LARGEST} characters, not {len(text)}")
    try:
        plain = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"{where}: not TOML: {error}") from None
    found = plain.get("version")
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise ProfileError(f"{where}: not a profile; a profile begins with 'version = {version}'")
    if found > version:
        raise ProfileError(
            f"{where}: this profile has version {found}, but this Ebbflow reads only up to version {version}; "
            "use a newer Ebbflow, or learn it again with `ebbflow profile`"
        )
    return plain


def write(document: msgspec.Struct) -> str:
    """A document as TOML. Unknown values are left out, because TOML has no null."""
    plain = _without_none(msgspec.to_builtins(document, builtin_types=(datetime,)))
    return "\n".join(_table("", plain)) + "\n"


def reworded(error: msgspec.ValidationError, key_of: Callable[[str], str] = lambda key: key) -> str:
    """Reword an error like 'Expected `float`, got `str` - at `$.node.low`'. ``key_of`` may complete its key."""
    text = str(error)
    at = _PATH.search(text)
    key = key_of(at[1] if at else "")
    wrong = text[: at.start()] if at else text
    if unknown := _UNKNOWN.fullmatch(wrong):
        known = f"{key}{'.' if key else ''}{bare_key(unknown[1])}"
        return f"{known} is not a key of a profile; write it as `ebbflow profile` does"
    return f"{key}{': ' if key else ''}{wrong}; write it as `ebbflow profile` does"


# -- writing ---------------------------------------------------------------------------------


def _table(path: str, table: Mapping[str, Any]) -> Iterator[str]:
    """The values of a table, then the tables in it."""
    inner = {key: value for key, value in table.items() if _is_table(value)}
    for key, value in table.items():
        if key not in inner:
            yield f"{bare_key(key)} = {_value(value)}"
    for key, value in inner.items():
        name = f"{path}.{bare_key(key)}" if path else bare_key(key)
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
    return repr(value) if isinstance(value, float) else quoted(value)


def bare_key(key: str) -> str:
    """A key as TOML, quoted if it has to be."""
    return key if _BARE_KEY.fullmatch(key) else quoted(key)


def quoted(value: Any) -> str:
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
_SHARE: Rule = (lambda value: 0 < value <= 1, "a number above 0 and at most 1")

LARGEST_NUMBER = 1e15
"""Largest number: beyond any rate, count or time, and squares stay finite."""
RULES: dict[str, Rule] = {
    **dict.fromkeys(("cores", "tasks", "skew", "nodes", "before", "after", "replication"), _FROM_1),
    **dict.fromkeys(("x_scale", "most_per_s", "data_gb", "offered_per_s"), _ABOVE_0),
    "bound": _SHARE,
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
