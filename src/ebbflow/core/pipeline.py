"""A pipeline: a directed acyclic graph of named operators joined by streams."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from ebbflow.errors import PipelineError


@dataclass(frozen=True, kw_only=True)
class Operator:
    """A named step. With ``boundary`` it has its own parallelism; otherwise it is fused with its upstream."""

    name: str
    stateful: bool = False
    boundary: bool = False
    query: str = ""
    """The query that runs it, if an application has several. Operators of one query run batch by batch; those of
    different queries run concurrently."""
    may_move: bool = True
    """Whether it may move to another cluster, in a fleet."""


@dataclass(frozen=True, kw_only=True)
class Stream:
    """An edge. ``selectivity`` = rate of the stream ÷ input rate of its source operator."""

    source: str
    target: str
    selectivity: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Operators and the streams between them.

    >>> words = Pipeline.chain("words", "read", "split", "count")
    >>> words.order
    ('read', 'split', 'count')
    >>> words.sources
    ('read',)
    """

    name: str
    operators: tuple[Operator, ...]
    streams: tuple[Stream, ...] = ()

    def __post_init__(self) -> None:
        names = [operator.name for operator in self.operators]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise PipelineError(f"pipeline '{self.name}' has two operators named '{min(twice)}'")
        for stream in self.streams:
            for end in (stream.source, stream.target):
                if end not in names:
                    raise PipelineError(
                        f"pipeline '{self.name}': stream {stream.source} → {stream.target} "
                        f"names '{end}', which is not one of {', '.join(names)}"
                    )
        try:
            _ = self.order
        except CycleError as error:
            raise PipelineError(f"pipeline '{self.name}' has a cycle: {' → '.join(error.args[1])}") from None

    @classmethod
    def chain(cls, name: str, *operators: str | Operator) -> Pipeline:
        """A pipeline in which each operator feeds the next."""
        steps = tuple(o if isinstance(o, Operator) else Operator(name=o) for o in operators)
        streams = tuple(Stream(source=a.name, target=b.name) for a, b in itertools.pairwise(steps))
        return cls(name=name, operators=steps, streams=streams)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Operator names, upstream before downstream."""
        graph: dict[str, set[str]] = {operator.name: set() for operator in self.operators}
        for stream in self.streams:
            graph[stream.target].add(stream.source)
        return tuple(TopologicalSorter(graph).static_order())

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Operators without an incoming stream."""
        fed = {stream.target for stream in self.streams}
        return tuple(name for name in self.order if name not in fed)

    def applications(self) -> tuple[Pipeline, ...]:
        """One pipeline per query, in order of appearance; the pipeline itself if it has a single query.

        >>> both = Pipeline(name="a + b", operators=(Operator(name="a/read", query="a"),
        ...     Operator(name="b/read", query="b"), Operator(name="a/count", query="a")))
        >>> [(part.name, part.order) for part in both.applications()]
        [('a', ('a/read', 'a/count')), ('b', ('b/read',))]
        """
        queries = dict.fromkeys(operator.query for operator in self.operators)
        if len(queries) <= 1:
            return (self,)
        parts = []
        for query in queries:
            operators = tuple(operator for operator in self.operators if operator.query == query)
            names = {operator.name for operator in operators}
            streams = tuple(s for s in self.streams if s.source in names and s.target in names)
            parts.append(Pipeline(name=query, operators=operators, streams=streams))
        return tuple(parts)

    def input_rates(self, source_rates: Mapping[str, float]) -> dict[str, float]:
        """Input rate of every operator, from the rates of the sources and the selectivities.

        rate(B) = Σ over streams (A, B) of rate(A) · selectivity(A, B)   (Elysium, estimator)

        >>> p = Pipeline(name="p", operators=(Operator(name="a"), Operator(name="b")),
        ...              streams=(Stream(source="a", target="b", selectivity=3.0),))
        >>> p.input_rates({"a": 10.0})
        {'a': 10.0, 'b': 30.0}
        """
        rates = {name: float(source_rates.get(name, 0.0)) for name in self.order}
        for name in self.order:
            for stream in self.streams:
                if stream.source == name:
                    rates[stream.target] += rates[name] * stream.selectivity
        return rates
