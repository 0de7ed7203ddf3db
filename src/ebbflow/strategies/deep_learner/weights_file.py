"""The weights of a deep agent as a file: plain JSON with version and checksum. Nothing is pickled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ebbflow.core.checked_file import Document, FileFormat
from ebbflow.strategies.deep_learner.network import Layer


class StoredWeights(Document, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file holds."""

    agent: str
    features: list[str]
    changes: list[int]
    steps: int
    networks: Mapping[str, Sequence[Layer]]


FORMAT = FileFormat(
    content=StoredWeights,
    format="ebbflow deep-learner weights",
    version=1,
    noun="file with weights of deep-learner",
    again="train it again with `ebbflow learner train`",
    largest_bytes=5_000_000,
)


def to_text(weights: StoredWeights) -> str:
    """The text of a file."""
    return msgspec.json.format(msgspec.json.encode(FORMAT.signed(weights)), indent=0).decode() + "\n"


def read(path: Path) -> StoredWeights:
    """Read a file. Raises ``InputError`` if that is not possible, or if the file was changed."""
    return FORMAT.read(path)


def from_text(text: str, where: str) -> StoredWeights:
    """Read weights from text.

    >>> from_text('{"format": "ebbflow deep-lea', "w.json")
    Traceback (most recent call last):
    ...
    ebbflow.errors.InputError: w.json is not a whole file with weights of deep-learner: Input data was truncated; it \
was cut off or edited; use a copy, or train it again with `ebbflow learner train`
    """
    return FORMAT.decode(text, where)
