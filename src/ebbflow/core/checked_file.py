"""JSON files that say what they are: format, version and a checksum, beside the content.

A version protects against files of another Ebbflow, a checksum against edited and damaged ones, JSON against those that
were cut off. White space is no edit. Nothing in such a file is executed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from ebbflow.errors import InputError


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a file. Subclasses add theirs; ``FileFormat.signed`` fills in these fields."""

    format: str = ""
    version: int = 0
    sha256: str = ""


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    """What says which kind of file it is."""

    format: object = None
    version: object = None


Content = TypeVar("Content", bound=Document)


@dataclass(frozen=True, kw_only=True)
class FileFormat(Generic[Content]):
    """One kind of file.

    >>> class Table(Document, frozen=True, kw_only=True):
    ...     rows: list[int]
    >>> tables = FileFormat(
    ...     content=Table, format="my table", version=1, noun="table", again="count again", largest_bytes=1000
    ... )
    >>> text = msgspec.json.encode(tables.signed(Table(rows=[1, 2])))
    >>> tables.decode(text, "t.json").rows
    [1, 2]
    >>> tables.decode(text.replace(b"[1,2]", b"[1,3]"), "t.json")
    Traceback (most recent call last):
    ...
    ebbflow.errors.InputError: t.json was edited or damaged: its checksum does not match; use a copy, or count again
    """

    content: type[Content]
    format: str
    version: int
    noun: str
    """What errors call the file: *workload model*."""
    again: str
    """How to get another one: *learn it again*."""
    largest_bytes: int
    error: type[InputError] = InputError

    def signed(self, document: Content) -> Content:
        """The document with format, version and checksum."""
        named = msgspec.structs.replace(document, format=self.format, version=self.version)
        return msgspec.structs.replace(named, sha256=_checksum(named))

    def read(self, path: Path) -> Content:
        """Read a file. Raises ``error`` if that is not possible, or if the file was changed."""
        try:
            with path.open("rb") as file:
                data = file.read(self.largest_bytes + 1)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise self.error(f"cannot read the {self.noun} {path}: {why}") from None
        return self.decode(data, str(path))

    def decode(self, data: bytes | str, where: str) -> Content:
        """Read what a file holds. ``where`` names it in errors."""
        if len(data) > self.largest_bytes:
            most = f"{self.largest_bytes // 10**6} MB"
            raise self.error(f"{where} is too large for a {self.noun}; the most is {most}")
        try:
            head = msgspec.json.decode(data, type=_Head)
        except (msgspec.ValidationError, RecursionError):
            head = _Head()
        except (msgspec.DecodeError, UnicodeError) as error:
            raise self._cut_off(where, error) from None
        if head.format != self.format:
            raise self.error(f"{where} is not a {self.noun}; use a file that Ebbflow wrote, or {self.again}")
        if head.version != self.version:
            raise self.error(
                f"{where} has version {head.version}, but this Ebbflow reads version {self.version}; use the Ebbflow "
                f"that wrote it, or {self.again}"
            )
        try:
            document = msgspec.json.decode(data, type=self.content)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise self._cut_off(where, error) from None
        if document.sha256 != _checksum(document):
            raise self.error(
                f"{where} was edited or damaged: its checksum does not match; use a copy, or {self.again}"
            )
        return document

    def _cut_off(self, where: str, error: Exception) -> InputError:
        return self.error(
            f"{where} is not a whole {self.noun}: {error}; it was cut off or edited; use a copy, or {self.again}"
        )


def _checksum(document: Document) -> str:
    """Of the document without the checksum, encoded in one way whatever its white space and order of keys."""
    plain = msgspec.structs.replace(document, sha256="")
    return hashlib.sha256(msgspec.json.encode(plain, order="deterministic")).hexdigest()
