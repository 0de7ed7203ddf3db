"""The weights of a deep agent as a file: plain JSON with version and checksum. Nothing is pickled."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ebbflow.errors import InputError
from ebbflow.strategies.deep_learner.network import Layer

FORMAT = "ebbflow deep-learner weights"
VERSION = 1
LARGEST = 5_000_000
"""Most bytes of a file."""
_AGAIN = "use a copy, or train it again with `ebbflow learner train`"


class Weights(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file holds."""

    format: str = FORMAT
    version: int = VERSION
    sha256: str = ""
    agent: str
    features: list[str]
    changes: list[int]
    steps: int
    networks: Mapping[str, Sequence[Layer]]


def to_text(weights: Weights) -> str:
    """The text of a file."""
    signed = msgspec.structs.replace(weights, sha256=_checksum(weights))
    return msgspec.json.format(msgspec.json.encode(signed), indent=0).decode() + "\n"


def read(path: Path) -> Weights:
    """Read a file. Raises ``InputError`` if that is not possible, or if the file was changed."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or str(error)).lower() if isinstance(error, OSError) else "it is not text"
        raise InputError(f"cannot read the weights {path}: {why}") from None
    return from_text(text, str(path))


def from_text(text: str, where: str) -> Weights:
    """Read weights from text.

    >>> from_text('{"format": "ebbflow deep-lea', "w.json")
    Traceback (most recent call last):
    ...
    ebbflow.errors.InputError: w.json has no whole weights: Input data was truncated; use a copy, or train it again \
with `ebbflow learner train`
    """
    if len(text) > LARGEST:
        raise InputError(f"{where} is too large for weights; the most is {LARGEST} bytes")
    try:
        weights = msgspec.json.decode(text, type=Weights)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{where} has no whole weights: {error}; {_AGAIN}") from None
    if weights.format != FORMAT or weights.version != VERSION:
        raise InputError(
            f"{where} is '{weights.format}' version {weights.version}, and '{FORMAT}' version {VERSION} is needed; "
            f"{_AGAIN}"
        )
    if weights.sha256 != _checksum(weights):
        raise InputError(f"{where} was edited after it was written: its checksum does not match; {_AGAIN}")
    return weights


def _checksum(weights: Weights) -> str:
    plain = msgspec.structs.replace(weights, sha256="")
    return hashlib.sha256(msgspec.json.encode(plain, order="deterministic")).hexdigest()
