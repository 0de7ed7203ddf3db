"""Read TOML with the position of each value, which ``tomllib`` does not report, and write it in a readable layout."""

from __future__ import annotations

import json
import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from ebbflow.errors import PolicyError
from ebbflow.policy.model import PolicyPath

Positions = dict[PolicyPath, tuple[int, int]]
"""Line and column of the key of each path, counted from 1."""

MAX_CHARACTERS = 1_000_000
DEEPEST = 100
"""Deepest nesting of lists and tables; Python's own limit differs from process to process."""
TOO_DEEP = "cannot parse this file: lists or tables are nested too deeply"
HUGE_NUMBER = "cannot parse this file: it contains a number with thousands of digits"
_AT = re.compile(r"^(.*) \(at (?:line (\d+), column (\d+)|end of document)\)$")
_DEEP = re.compile(rf"(?:\[\s*){{{DEEPEST + 1}}}")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class InvalidSyntaxError(Exception):
    """The text is not valid TOML or YAML. Callers turn it into a ``PolicyError``."""

    def __init__(self, text: str, line: int, column: int) -> None:
        super().__init__(text)
        self.line, self.column = line, column


def check_length(text: str) -> None:
    """Refuse a text that is too long for a policy."""
    if len(text) > MAX_CHARACTERS:
        raise InvalidSyntaxError(
            f"the policy has {len(text)} characters; the maximum is {MAX_CHARACTERS}", 1, 1
        )


def read_toml(text: str) -> tuple[dict[str, Any], Positions]:
    """The document and the positions of its values.

    >>> document, positions = read_toml('[[rule]]\\nname = "a"\\nwhen = [\\n  { metric = "x" },\\n]')
    >>> positions["rule", 0, "name"], positions["rule", 0, "when", 0, "metric"]
    ((2, 1), (4, 5))
    """
    check_length(text)
    if _DEEP.search(text):
        raise InvalidSyntaxError(TOO_DEEP, 1, 1)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = _AT.match(str(error))
        lines = text.split("\n")
        what = match[1] if match else str(error)
        line = int(match[2]) if match and match[2] else len(lines)
        column = int(match[3]) if match and match[3] else len(lines[-1]) + 1
        raise InvalidSyntaxError(f"invalid TOML: {what[:1].lower()}{what[1:]}", line, column) from None
    except RecursionError:
        raise InvalidSyntaxError(TOO_DEEP, 1, 1) from None
    except ValueError:
        raise InvalidSyntaxError(HUGE_NUMBER, 1, 1) from None
    return document, _Scanner(text).positions


class _Scanner:
    """Finds the positions of keys and values. Lenient: ``tomllib`` has already accepted the text."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.positions: Positions = {(): (1, 1)}
        self._counts: dict[PolicyPath, int] = {}
        table: PolicyPath = ()
        while self._skip(" \t\r\n"):
            if self._peek() == "[":
                table = self._header()
            else:
                self._pair(table)

    # -- parts ---------------------------------------------------------------------------------

    def _header(self) -> PolicyPath:
        start = self._at
        many = self._text.startswith("[[", self._at)
        self._at += 2 if many else 1
        path = self._resolved(self._keys())
        self._at = self._text.index("]", self._at) + (2 if many else 1)
        if many:
            index = self._counts.get(path, 0)
            self._counts[path] = index + 1
            self._record(path, start)
            path = (*path, index)
        self._record(path, start)
        return path

    def _pair(self, table: PolicyPath) -> None:
        start = self._at
        path: PolicyPath = (*table, *self._keys())
        self._record(path, start)
        self._skip(" \t")
        self._at += 1  # =
        self._value(path)

    def _keys(self) -> PolicyPath:
        keys: list[str] = []
        while True:
            self._skip(" \t")
            if self._peek() in "\"'":
                start = self._at
                self._string()
                keys.append(str(*tomllib.loads(f"{self._text[start : self._at]} = 0")))
            else:
                match = _BARE_KEY.match(self._text, self._at)
                assert match is not None
                self._at = match.end()
                keys.append(match[0])
            self._skip(" \t")
            if self._peek() != ".":
                return tuple(keys)
            self._at += 1

    def _value(self, path: PolicyPath) -> None:
        self._skip(" \t\r\n")
        self.positions.setdefault(path, self._position(self._at))
        sign = self._peek()
        if sign in "\"'":
            self._string()
        elif sign == "[":
            self._at += 1
            index = 0
            while self._skip(" \t\r\n,") and self._peek() != "]":
                self._value((*path, index))
                index += 1
            self._at += 1
        elif sign == "{":
            self._at += 1
            while self._skip(" \t\r\n,") and self._peek() != "}":
                self._pair(path)
            self._at += 1
        else:
            while self._at < len(self._text) and self._text[self._at] not in ",]}#\n":
                self._at += 1

    def _string(self) -> None:
        quote = self._text[self._at]
        multi_line = self._text.startswith(quote * 3, self._at)
        end = quote * 3 if multi_line else quote
        self._at += len(end)
        while not self._text.startswith(end, self._at):
            self._at += 2 if quote == '"' and self._text[self._at] == "\\" else 1
        self._at += len(end)
        while multi_line and self._peek() == quote:  # a multi-line string may end in quotes of its own
            self._at += 1

    # -- moving --------------------------------------------------------------------------------

    def _peek(self) -> str:
        return self._text[self._at] if self._at < len(self._text) else "\n"

    def _skip(self, blanks: str) -> bool:
        """Skip blanks and comments; whether any text is left."""
        while self._at < len(self._text):
            if self._text[self._at] == "#" and "\n" in blanks:
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            elif self._text[self._at] in blanks:
                self._at += 1
            else:
                return True
        return False

    def _resolved(self, keys: PolicyPath) -> PolicyPath:
        """The path of a header: ``[a.b]`` is inside the latest ``[[a]]``."""
        path: PolicyPath = ()
        for key in keys[:-1]:
            path = (*path, key)
            if path in self._counts:
                path = (*path, self._counts[path] - 1)
        return (*path, keys[-1])

    def _record(self, path: PolicyPath, at: int) -> None:
        self.positions.setdefault(path, self._position(at))

    def _position(self, at: int) -> tuple[int, int]:
        line = bisect_right(self._line_starts, at)
        return line, at - self._line_starts[line - 1] + 1


def write_toml(document: Mapping[str, Any]) -> str:
    """A document of tables of plain values; nested tables are inline, one condition per line."""
    blocks = []
    for name, tables in document.items():
        for table in tables:
            lines = [f"[[{name}]]", *(_pair(key, value) for key, value in table.items())]
            blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + ("\n" if blocks else "")


def _pair(key: str, value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        inner = "".join(f"  {_inline(each)},\n" for each in value)
        return f"{key} = [\n{inner}]"
    return f"{key} = {_inline(value)}"


def _inline(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_inline(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PolicyError(f"{value!r} cannot be written to a policy file")
    return str(value) if isinstance(value, int) else repr(value)


def _quoted(text: str) -> str:
    """JSON strings are valid TOML strings, except for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
