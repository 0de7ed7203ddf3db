"""Conditions: a metric past a threshold, and several of them together. Field names are the keys of the file form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, TypeAlias

import msgspec

from ebbflow.errors import PolicyError
from ebbflow.policy.fitting import check_fit
from ebbflow.policy.quantities import Quantity, Span
from ebbflow.policy.values import Measure, MeasureKind, Often

Wrong: TypeAlias = tuple[str, str]


class Part(msgspec.Struct, frozen=True, kw_only=True, rename=lambda name: name.strip("_").replace("_", "-")):
    """A table of the file form."""

    CHECKS: ClassVar[tuple[Callable[[Any], Iterator[Wrong]], ...]] = ()
    """Each tells what cannot be meant: the key, and what would be right. Each looks at few fields, so that those can
    be asked whose fields could be read."""

    def __post_init__(self) -> None:
        found = [each for check in self.CHECKS for each in check(self)]
        if found:
            raise PolicyError(*(text for _, text in found), keys=[key for key, _ in found])


class Trigger(Part, frozen=True, kw_only=True):
    """A metric, a threshold (above: strictly; below: or equal) and how long or how often."""

    metric: Annotated[str, msgspec.Meta(description="key of the catalogue (`ebbflow metrics`), or cpu")]
    of: Annotated[str, msgspec.Meta(description="operator, query or node; the rule's own if not told")] = ""
    measure: Annotated[Measure, msgspec.Meta(description="what of the metric is compared")] = Measure()
    above: Annotated[Quantity | None, msgspec.Meta(description="it must be greater than this")] = None
    below: Annotated[Quantity | None, msgspec.Meta(description="it must be this or less")] = None
    for_at_least: Annotated[
        Span | None, msgspec.Meta(description="every reading of that time must be past the threshold")
    ] = None
    in_at_least: Annotated[
        Often | None, msgspec.Meta(description="so many of the last readings must be past the threshold")
    ] = None

    def _wrong_threshold(self) -> Iterator[Wrong]:
        if (self.above is None) == (self.below is None):
            yield "metric", f"metric {self.metric}: write either above or below"
        else:
            try:
                check_fit(self.metric, self.measure, self.threshold, "above" if self.is_above else "below")
            except PolicyError as error:
                yield error.keys[0], error.problems[0]

    def _wrong_of(self) -> Iterator[Wrong]:
        if self.of and not self.of.strip():
            yield "of", "of a name of blanks; write an operator, a query or a node, or leave it out"

    def _wrong_lasting(self) -> Iterator[Wrong]:
        if self.for_at_least is not None and self.in_at_least is not None:
            yield "in-at-least", "write either for-at-least or in-at-least, not both"
        if self.measure.kind is MeasureKind.EACH and self.for_at_least is None and self.in_at_least is None:
            yield (
                "metric",
                "one reading alone fires no rule; add for-at-least, like 30s, or in-at-least, like 4 of 5",
            )

    CHECKS = (_wrong_threshold, _wrong_of, _wrong_lasting)

    @property
    def threshold(self) -> Quantity:
        """What it is compared with."""
        found = self.below if self.above is None else self.above
        assert found is not None
        return found

    @property
    def is_above(self) -> bool:
        """Whether it must be greater, not less."""
        return self.above is not None


class AllOf(Part, frozen=True, kw_only=True):
    """All of these must hold."""

    all_of: Annotated[tuple[Condition, ...], msgspec.Meta(description="all must hold")]

    def _wrong_parts(self) -> Iterator[Wrong]:
        if not self.all_of:
            yield "all-of", "all-of without conditions; write at least one"

    CHECKS = (_wrong_parts,)


class AnyOf(Part, frozen=True, kw_only=True):
    """One of these must hold."""

    any_of: Annotated[tuple[Condition, ...], msgspec.Meta(description="one of them must hold")]

    def _wrong_parts(self) -> Iterator[Wrong]:
        if not self.any_of:
            yield "any-of", "any-of without conditions; write at least one"

    CHECKS = (_wrong_parts,)


Condition: TypeAlias = Trigger | AllOf | AnyOf


def triggers_of(condition: Condition) -> Iterator[Trigger]:
    """The leaves."""
    if isinstance(condition, Trigger):
        yield condition
        return
    for part in condition.all_of if isinstance(condition, AllOf) else condition.any_of:
        yield from triggers_of(part)
