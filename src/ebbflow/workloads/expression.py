"""Parsing of load expressions: ``sine(base=100, peak=900, period=10m) + constant(50)``.

::

    load     = term { "+" term }
    term     = { number "*" } ( shape | "(" load ")" )
    shape    = name "(" [ argument { "," argument } ] ")"
    argument = [ name "=" ] ( word | quoted | load )

Words and quotes are those of ``core.expression``. An expression can only name shapes of the catalogue below.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ebbflow.core.expression import Parser, Token
from ebbflow.core.parameters import Parameter, convert, declared, meant
from ebbflow.errors import InputError, LoadError, UnknownNameError
from ebbflow.workloads.load import FACTOR, Load, LoadKind, Scaled, Shape
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


def parse_load(text: str) -> Load:
    """Parse a load expression.

    >>> load = parse_load("noise(sine(100, 900, period=10m), 0.1, seed=3) + 2 * constant(50)")
    >>> str(load)
    'noise(sine(base=100, peak=900, period=10m), amount=0.1, seed=3) + 2 * constant(50)'
    >>> parse_load("sine(base=100, peak=900, period=0s)")
    Traceback (most recent call last):
    ...
    ebbflow.errors.LoadError: load 'sine(base=100, peak=900, period=0s)', column 33: period of sine: 0s is invalid; \
it must be a duration at least 1ms, like 500ms, 30s or 5m
    >>> parse_load("sinus(1, 2, 3s)")
    Traceback (most recent call last):
    ...
    ebbflow.errors.UnknownNameError: unknown load shape 'sinus': did you mean 'sine'? There are: constant, \
day, noise, periodic, sawtooth, sine, square, stair, step, trace
    """
    return _LoadParser(text).parse()


class _LoadParser(Parser):
    """Recursive descent with one method per line of the grammar."""

    def __init__(self, text: str) -> None:
        super().__init__("load", text, LoadError)
        self._depth = 0

    def parse(self) -> Load:
        if self.token.kind == "end":
            raise LoadError("a load cannot be empty; write it like constant(50)")
        load = self._load()
        self.end("of the load", hint="join loads with +")
        return load

    def _load(self) -> Load:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self.fail(
                self.token.column, f"nested more than {_MAX_DEPTH} levels deep; simplify the expression"
            )
        load = self._term()
        while self.at("+"):
            self.take()
            load = load + self._term()
        self._depth -= 1
        return load

    def _term(self) -> Load:
        factors = []
        while self.at("*", ahead=1):
            factors.append(self._factor())
            self.expect("*", "*")
            if len(factors) > _MAX_DEPTH:
                self.fail(self.token.column, f"more than {_MAX_DEPTH} factors; multiply them first")
        if self.at("("):
            opened = self.take()
            load = self._load()
            self.expect(")", f"')' to close the '(' in column {opened.column}")
        else:
            load = self._shape()
        for factor in reversed(factors):
            load = Scaled(factor=factor, load=load)
        return load

    def _factor(self) -> Any:
        token = self.take()
        try:
            return convert("the factor of a load", FACTOR, token.text, from_text=True)
        except InputError as error:
            self.fail(token.column, f"{error}; write a multiple of a load like 2 * constant(50)")

    def _shape(self) -> Load:
        name = self.token
        shape = SHAPES.get(name.text) if name.kind == "word" else None
        if shape is None:
            if name.kind == "word" and name.text.isidentifier():
                raise UnknownNameError("load shape", name.text, SHAPES)
            self.fail(name.column, f"expected a load like constant(50), found {name}")
        self.take()
        known, values = declared(shape), dict[str, Any]()

        def take(named: Token | None, start: Token, position: int) -> None:
            key = self._key_at(name.text, known, position, start) if named is None else named.text
            if key not in known:
                has = f"It has: {', '.join(known)}"
                self.fail(
                    start.column, f"{name.text} has no argument '{key}'{meant(key, known) or '.'} {has}"
                )
            if known[key].argument in values:
                self.fail(start.column, f"{name.text} has the argument {key} twice")
            values[known[key].argument] = self._value(name.text, known[key])

        closing = self.arguments(name, take)
        for key, parameter in known.items():
            if parameter.required and parameter.argument not in values:
                self.fail(
                    closing.column, f"{name.text} is missing the argument {key} ({parameter.kind.meaning})"
                )
        try:
            return shape(**values)
        except LoadError as error:
            self.fail(name.column, str(error))

    def _key_at(self, shape: str, known: Mapping[str, Parameter], position: int, token: Token) -> str:
        keys = list(known)
        if position >= len(keys):
            self.fail(
                token.column, f"unexpected argument {token}; the arguments of {shape} are: {', '.join(keys)}"
            )
        return keys[position]

    def _value(self, shape: str, parameter: Parameter) -> Any:
        kind, label = parameter.kind, f"{parameter.key} of {shape}"
        if isinstance(kind, LoadKind):
            return self._load()
        token = self.word(f"{label}, {kind.must}")
        try:
            return convert(label, kind, token.text, from_text=True)
        except InputError as error:
            self.fail(token.column, str(error))
