"""Expressions that people write: ``capacity(budget_out=0.5)``, and the parts from which loads are parsed.

::

    call     = name [ "(" [ argument { "," argument } ] ")" ]
    argument = [ name "=" ] ( word | quoted )

A word is a number, a duration, a name or a file. Text with spaces, commas or other special characters is put in single
or double quotes, with inner quotes doubled. Positional arguments come before named ones. Nothing is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from ebbflow.errors import InputError

BARE_WORD = re.compile(r"[\w./\\:~-]+")
"""Text that needs no quotes: names, numbers, durations, and files without spaces or commas."""
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<quoted> "(?:[^"]|"")*" | '(?:[^']|'')*' )
      | (?P<word> -?\d+(?:\.\d*)?e[+]\d+(?![\w./\\:~-]) | """  # 1e+5: the only bare word with a plus in it
    + BARE_WORD.pattern
    + r""" )
      | (?P<sign> [+*(),=] )
    )""",
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Call:
    """A name with arguments, as written: ``capacity(budget_out=0.5)``."""

    name: str
    arguments: Mapping[str, str]

    def __str__(self) -> str:
        inside = ", ".join(f"{name}={quote(value)}" for name, value in self.arguments.items())
        return f"{self.name}({inside})" if inside else self.name


def parse_call(what: str, text: str) -> Call:
    """Read a name, or a name with named arguments in brackets. ``what`` names it in errors.

    >>> parse_call("strategy", "capacity(budget_out=0.5, hold_in=1m)")
    Call(name='capacity', arguments={'budget_out': '0.5', 'hold_in': '1m'})
    >>> str(parse_call("strategy", " capacity() "))
    'capacity'
    >>> parse_call("strategy", "capacity(0.5)")
    Traceback (most recent call last):
    ...
    ebbflow.errors.InputError: strategy 'capacity(0.5)', column 10: '0.5' needs a name; write it like \
capacity(name=0.5)
    """
    parser, values = Parser(what, text), dict[str, str]()
    called = parser.word(f"a name, or a name with arguments like name(key=value), of the {what}")

    def take(name: Token | None, start: Token, position: int) -> None:
        del position
        if name is None:
            parser.fail(start.column, f"{start} needs a name; write it like {called.text}(name={start.text})")
        if name.text in values:
            parser.fail(name.column, f"{called.text} has the argument {name.text} twice")
        values[name.text] = parser.word(f"a value, like {called.text}({name.text}=…)").text

    if parser.token.kind != "end":
        parser.arguments(called, take)
        parser.end(f"of the {what}")
    return Call(name=called.text, arguments=values)


def quote(text: str) -> str:
    """The text as it is written in an expression: bare if possible, else in quotes with inner quotes doubled.

    >>> quote("loads/day-1.csv.gz"), quote("two words, more")
    ('loads/day-1.csv.gz', '"two words, more"')
    """
    return text if BARE_WORD.fullmatch(text) else '"' + text.replace('"', '""') + '"'


def split_list(text: str) -> list[str]:
    """Parts between commas; commas in brackets or quotes do not count.

    >>> split_list("capacity(budget_out=0.5, hold_in=1m), hpa")
    ['capacity(budget_out=0.5, hold_in=1m)', 'hpa']
    """
    parts, depth, quoted = [""], 0, ""
    for sign in text:
        if quoted:
            quoted = "" if sign == quoted else quoted
        elif sign in "\"'":
            quoted = sign
        elif sign in "()":
            depth += 1 if sign == "(" else -1
        elif sign == "," and depth <= 0:
            parts.append("")
            continue
        parts[-1] += sign
    return [part.strip() for part in parts]


@dataclass(frozen=True, kw_only=True)
class Token:
    """A word, quoted text, sign, or the end."""

    kind: str
    text: str
    column: int
    """Counted from 1; the end token has the column after the text."""

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else f"'{self.text}'"


class Parser:
    """Reads an expression token by token. Errors name the column."""

    def __init__(self, what: str, text: str, error: type[InputError] = InputError) -> None:
        self._what, self._text, self._error = what, text, error
        self._next = 0
        self._tokens = self._tokenize()

    def _tokenize(self) -> list[Token]:
        tokens, position, end = [], 0, len(self._text.rstrip())
        while position < end:
            match = _TOKEN.match(self._text, position)
            if match is None or match.lastgroup is None:
                start = position + len(self._text[position:]) - len(self._text[position:].lstrip())
                sign = self._text[start]
                if sign in "\"'":
                    self.fail(start + 1, f"the quote {sign} is not closed")
                self.fail(start + 1, f"unexpected character '{sign}'; quote text with special characters")
            kind, found = match.lastgroup, match[match.lastgroup]
            if kind == "quoted":
                found = found[1:-1].replace(found[0] * 2, found[0])
            tokens.append(Token(kind=kind, text=found, column=match.start(match.lastgroup) + 1))
            position = match.end()
        return [*tokens, Token(kind="end", text="", column=end + 1)]

    def fail(self, column: int, problem: str) -> NoReturn:
        """Raise the error, on one line even if the text has line breaks."""
        raise self._error(re.sub(r"\s", " ", f"{self._what} '{self._text}', column {column}: {problem}"))

    @property
    def token(self) -> Token:
        """The next token."""
        return self._tokens[self._next]

    def at(self, sign: str, ahead: int = 0) -> bool:
        """Whether the next token, or one further ahead, is this sign."""
        token = self._tokens[min(self._next + ahead, len(self._tokens) - 1)]
        return token.kind == "sign" and token.text == sign

    def take(self) -> Token:
        """Read a token."""
        token = self.token
        self._next += token.kind != "end"
        return token

    def expect(self, sign: str, meant: str) -> None:
        """Read this sign. ``meant`` names it in errors."""
        if not self.at(sign):
            self.fail(self.token.column, f"expected {meant}, found {self.token}")
        self.take()

    def word(self, meant: str) -> Token:
        """Read a word or quoted text. ``meant`` names it in errors."""
        if self.token.kind not in ("word", "quoted"):
            self.fail(self.token.column, f"expected {meant}, found {self.token}")
        return self.take()

    def arguments(self, owner: Token, take: Callable[[Token | None, Token, int], None]) -> Token:
        """Read the arguments in brackets; returns the token that closes them.

        ``take`` reads the value of each. It gets its name, the token where it starts, and its position.
        """
        self.expect("(", f"'(' and the arguments of {owner.text}")
        named, position = False, 0
        while not self.at(")"):
            start, name = self.token, None
            if self.at("=", ahead=1):
                named, name = True, self.take()
                self.take()
            elif named:
                self.fail(start.column, f"{start} needs a name because it follows a named argument")
            take(name, start, position)
            position += 1
            if not self.at(","):
                break
            self.take()
            if self.at(")"):
                self.fail(self.token.column, "expected another argument after ',', found ')'")
        closing = self.token
        self.expect(")", f"',' or the ')' that closes {owner.text}(")
        return closing

    def end(self, of: str, hint: str = "remove it") -> None:
        """Check that nothing follows."""
        if self.token.kind != "end":
            hint = "there is an extra ')'" if self.at(")") else hint
            self.fail(self.token.column, f"unexpected {self.token} after the end {of}; {hint}")
