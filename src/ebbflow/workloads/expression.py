"""Parsing of load expressions: ``sine(base=100, peak=900, period=10m) + constant(50)``.

::

    load     = term { "+" term }
    term     = { number "*" } ( shape | "(" load ")" )
    shape    = name "(" [ argument { "," argument } ] ")"
    argument = [ name "=" ] ( word | quoted | load )

A word is a number, a duration, a name or a file. A file name with spaces, commas or other special characters is put
in single or double quotes, with inner quotes doubled. Positional arguments come before named ones. Nothing is
evaluated: an expression can only name shapes of the catalogue below.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NoReturn

from ebbflow.errors import LoadError, UnknownNameError
from ebbflow.workloads.load import LOAD, Load, Scaled, Shape
from ebbflow.workloads.parameters import BARE_WORD, FACTOR, Parameter, parameters_of, parse_number
from ebbflow.workloads.shapes import Constant, Day, Noise, Periodic, Sawtooth, Sine, Square, Stair, Step
from ebbflow.workloads.trace import Trace

SHAPES: Mapping[str, type[Shape]] = MappingProxyType(
    {
        kind.shape: kind
        for kind in (Constant, Day, Noise, Periodic, Sawtooth, Sine, Square, Stair, Step, Trace)
    }
)
"""The catalogue of load shapes by name."""

_MAX_DEPTH = 50
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


def parse_load(text: str) -> Load:
    """Parse a load expression.

    >>> load = parse_load("noise(sine(100, 900, period=10m), 0.1, seed=3) + 2 * constant(50)")
    >>> str(load)
    'noise(sine(base=100, peak=900, period=10m), amount=0.1, seed=3) + 2 * constant(50)'
    >>> parse_load("sine(base=100, peak=900, period=0s)")
    Traceback (most recent call last):
    ...
    ebbflow.errors.LoadError: load 'sine(base=100, peak=900, period=0s)', column 33: period of sine is 0s; \
it must be a duration of at least 1ms, like 500ms, 30s, 10m or 1h30m
    >>> parse_load("sinus(1, 2, 3s)")
    Traceback (most recent call last):
    ...
    ebbflow.errors.UnknownNameError: unknown load shape 'sinus': did you mean 'sine'? There are: constant, \
day, noise, periodic, sawtooth, sine, square, stair, step, trace
    """
    return _Parser(text).parse()


@dataclass(frozen=True, kw_only=True)
class _Token:
    kind: str
    text: str
    column: int
    """Counted from 1; the end token has the column after the text."""

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else f"'{self.text}'"


class _Parser:
    """Recursive descent with one method per line of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._depth = 0
        self._next = 0
        self._tokens = self._tokenize()

    def _tokenize(self) -> list[_Token]:
        tokens, position, end = [], 0, len(self._text.rstrip())
        while position < end:
            match = _TOKEN.match(self._text, position)
            if match is None or match.lastgroup is None:
                start = position + len(self._text[position:]) - len(self._text[position:].lstrip())
                sign = self._text[start]
                if sign in "\"'":
                    self._fail(start + 1, f"the quote {sign} is not closed")
                self._fail(
                    start + 1,
                    f"unexpected character '{sign}'; quote a file name with special characters",
                )
            kind, found = match.lastgroup, match[match.lastgroup]
            if kind == "quoted":
                found = found[1:-1].replace(found[0] * 2, found[0])
            tokens.append(_Token(kind=kind, text=found, column=match.start(match.lastgroup) + 1))
            position = match.end()
        return [*tokens, _Token(kind="end", text="", column=end + 1)]

    def _fail(self, column: int, problem: str) -> NoReturn:
        # keep the message on one line even if the text has line breaks
        raise LoadError(re.sub(r"\s", " ", f"load '{self._text}', column {column}: {problem}"))

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _is(self, sign: str, ahead: int = 0) -> bool:
        token = self._tokens[min(self._next + ahead, len(self._tokens) - 1)]
        return token.kind == "sign" and token.text == sign

    def _take(self) -> _Token:
        token = self._token
        self._next += token.kind != "end"
        return token

    def _expect(self, sign: str, meant: str) -> None:
        if not self._is(sign):
            self._fail(self._token.column, f"expected {meant}, found {self._token}")
        self._take()

    def parse(self) -> Load:
        if self._token.kind == "end":
            raise LoadError("a load cannot be empty; write it like constant(50)")
        load = self._load()
        token = self._token
        if token.kind != "end":
            hint = "there is an extra ')'" if self._is(")") else "join loads with +"
            self._fail(token.column, f"unexpected {token} after the end of the load; {hint}")
        return load

    def _load(self) -> Load:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._fail(
                self._token.column, f"nested more than {_MAX_DEPTH} levels deep; simplify the expression"
            )
        load = self._term()
        while self._is("+"):
            self._take()
            load = load + self._term()
        self._depth -= 1
        return load

    def _term(self) -> Load:
        factors = []
        while self._is("*", ahead=1):
            factors.append(self._factor())
            self._expect("*", "*")
            if len(factors) > _MAX_DEPTH:
                self._fail(self._token.column, f"more than {_MAX_DEPTH} factors; multiply them first")
        if self._is("("):
            opened = self._take()
            load = self._load()
            self._expect(")", f"')' to close the '(' in column {opened.column}")
        else:
            load = self._shape()
        for factor in reversed(factors):
            load = Scaled(factor=factor, load=load)
        return load

    def _factor(self) -> float:
        token = self._take()
        try:
            factor = parse_number(token.text)
        except ValueError:
            self._fail(
                token.column,
                f"'{token.text}' is not a number; write a multiple of a load like 2 * constant(50)",
            )
        if not FACTOR.accepts(factor):
            self._fail(token.column, f"the factor of a load is {token.text}; it must be {FACTOR.expected}")
        return factor

    def _shape(self) -> Load:
        name = self._token
        if name.kind != "word":
            self._fail(name.column, f"expected a load like constant(50), found {name}")
        self._take()
        shape = SHAPES.get(name.text)
        if shape is None:
            if not name.text.isidentifier():
                self._fail(name.column, f"expected a load like constant(50), found {name}")
            raise UnknownNameError("load shape", name.text, SHAPES)
        self._expect("(", f"'(' and the arguments of {name.text}")
        values = self._arguments(shape)
        closing = self._token
        self._expect(")", f"',' or the ')' that closes {name.text}(")
        for parameter in parameters_of(shape):
            if parameter.required and parameter.field not in values:
                meaning = parameter.argument.meaning
                self._fail(
                    closing.column, f"{shape.shape} is missing the argument {parameter.name} ({meaning})"
                )
        try:
            return shape(**values)
        except LoadError as error:
            self._fail(name.column, str(error))

    def _arguments(self, shape: type[Shape]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        named = False
        while not self._is(")"):
            start = self._token
            if self._is("=", ahead=1):
                named = True
                parameter = self._parameter_named(shape, self._take())
                self._take()
            elif named:
                self._fail(start.column, f"{start} needs a name because it follows a named argument")
            else:
                parameter = self._parameter_at(shape, len(values), start)
            if parameter.field in values:
                self._fail(start.column, f"{shape.shape} has the argument {parameter.name} twice")
            values[parameter.field] = self._value(shape, parameter)
            if not self._is(","):
                break
            self._take()
            if self._is(")"):
                self._fail(self._token.column, "expected another argument after ',', found ')'")
        return values

    def _parameter_named(self, shape: type[Shape], token: _Token) -> Parameter:
        known = {parameter.name: parameter for parameter in parameters_of(shape)}
        if token.text not in known:
            close = difflib.get_close_matches(token.text, known, n=1)
            hint = f"did you mean '{close[0]}'? " if close else ""
            self._fail(
                token.column,
                f"{shape.shape} has no argument '{token.text}': {hint}Its arguments are: {', '.join(known)}",
            )
        return known[token.text]

    def _parameter_at(self, shape: type[Shape], position: int, token: _Token) -> Parameter:
        parameters = parameters_of(shape)
        if position >= len(parameters):
            names = ", ".join(parameter.name for parameter in parameters)
            self._fail(
                token.column, f"unexpected argument {token}; the arguments of {shape.shape} are: {names}"
            )
        return parameters[position]

    def _value(self, shape: type[Shape], parameter: Parameter) -> Any:
        if parameter.argument.kind is LOAD:
            return self._load()
        token = self._token
        if token.kind not in ("word", "quoted"):
            expected = parameter.argument.kind.expected
            self._fail(token.column, f"expected {parameter.name} of {shape.shape}, {expected}; found {token}")
        self._take()
        try:
            return parameter.parse(shape.shape, token.text)
        except LoadError as error:
            self._fail(token.column, str(error))
