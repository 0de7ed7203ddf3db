"""Proactive scaling compared with reactive scaling and with the published results, load by load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ebbflow.core.plural import counted
from ebbflow.papers import SIMULATOR
from ebbflow.papers.pascal.published import PROACTIVE, REACTIVE
from ebbflow.papers.pascal.run import Result
from ebbflow.report.wording import share


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One load on one target."""

    load: str
    target: str
    saves_more: bool
    """Than reactive scaling."""
    is_faster: bool
    """Than reactive scaling: a lower mean latency."""
    none_failed: bool
    beats_published: bool | None
    """Whether it saves no fewer nodes and has no higher latency than published; None without a published value."""
    text: str

    @property
    def ok(self) -> bool:
        """Whether it is ahead of reactive scaling and no tuple failed."""
        return self.saves_more and self.is_faster and self.none_failed

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "load": self.load,
            "target": self.target,
            "saves_more": self.saves_more,
            "is_faster": self.is_faster,
            "none_failed": self.none_failed,
            "beats_published": self.beats_published,
        }


def compare(results: Sequence[Result]) -> list[Comparison]:
    """Each load and target with both strategies."""
    rows = {(each.load, each.target, each.strategy): each for each in results}
    return [
        _compared(row, rows[load, target, REACTIVE])
        for (load, target, strategy), row in rows.items()
        if strategy == PROACTIVE and (load, target, REACTIVE) in rows
    ]


def _compared(proactive: Result, reactive: Result) -> Comparison:
    ours, theirs, published = proactive.metrics, reactive.metrics, proactive.published
    beats: bool | None = None
    if proactive.target == SIMULATOR and published is not None:
        pairs = [
            (published.nodes_saved, ours.nodes_saved),
            *([(-published.latency_mean_s, -ours.latency_mean_s)] if published.latency_mean_s else []),
        ]
        beats = all(ours_value >= value for value, ours_value in pairs if value is not None)
    return Comparison(
        load=proactive.load,
        target=proactive.target,
        saves_more=ours.nodes_saved > theirs.nodes_saved,
        is_faster=ours.latency_mean_s < theirs.latency_mean_s,
        none_failed=ours.failed == 0.0,
        beats_published=beats,
        text=(
            f"{share(ours.nodes_saved)} of the nodes saved at {1000 * ours.latency_mean_s:.0f} ms, reactive "
            f"{share(theirs.nodes_saved)} at {1000 * theirs.latency_mean_s:.0f} ms; "
            f"{_failed(ours.failed, theirs.failed)}."
        ),
    )


def _failed(ours: float, theirs: float) -> str:
    if not ours and not theirs:
        return "no tuple failed"
    return f"{100 * ours:.2f} % of the tuples failed, reactive {100 * theirs:.2f} %"


def headline(comparisons: Sequence[Comparison]) -> str:
    """The result in one sentence.

    >>> won = Comparison(load="sine", target="simulator", saves_more=True, is_faster=True, none_failed=True,
    ...                  beats_published=True, text="")
    >>> headline([won])
    'Proactive saves more nodes than reactive on 1 of 1 load, is faster on 1, and loses no tuple on 1'
    """
    if not comparisons:
        return "Pascal's loads"
    return (
        f"Proactive saves more nodes than reactive on {sum(c.saves_more for c in comparisons)} of "
        f"{counted(len(comparisons), 'load')}, is faster on {sum(c.is_faster for c in comparisons)}, "
        f"and loses no tuple on {sum(c.none_failed for c in comparisons)}"
    )
