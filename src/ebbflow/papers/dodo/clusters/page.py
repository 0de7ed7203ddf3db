"""The page of ``bench dodo``: the results of §6.4 and §7.3, published beside ours, and charts like the thesis's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebbflow.core.plural import counted
from ebbflow.papers import SIMULATOR
from ebbflow.papers.dodo.clusters.published import (
    AUTOSCALING,
    BALANCED,
    BY_MODEL,
    EXTREME,
    NONE,
    OPTIMAL,
    PROVISIONED,
    PUBLISHED,
    STATIC,
    WITH_CAPACITY,
    WITHOUT_CAPACITY,
)
from ebbflow.papers.dodo.clusters.run import COMPARED, Result, Sensitivity
from ebbflow.papers.page import embedded_data
from ebbflow.report.panels import Panel, PanelLine, Picture
from ebbflow.report.template import render
from ebbflow.report.wording import number

COLUMNS = (
    ("paper: events/s", "as published"),
    ("ours", "events processed per second in the last three minutes"),
    ("paper: gain", "over the variant without optimisation, as published"),
    ("ours", "over the variant without optimisation"),
    ("moves", "operators moved in a run"),
    ("nodes", "nodes of Cluster₂ and Cluster₃ at the end"),
    ("node-hours", "paid for in a run"),
    ("late", "share of the events that took longer than 30 s"),
)
VARIANT_NAMES = {
    NONE: "no optimisation",
    WITH_CAPACITY: "with capacity",
    WITHOUT_CAPACITY: "without capacity",
    STATIC: "static, 12 + 3 nodes",
    BALANCED: "balanced, 12 + 3 nodes",
    PROVISIONED: "provisioned from 1 + 1 to 15",
    BY_MODEL: "the same, sized by our model",
}
CASE_NAMES = {EXTREME: "extreme case", OPTIMAL: "optimal case", AUTOSCALING: "autoscaling"}
CASE_TITLES = {
    EXTREME: "extreme case (Table 7)",
    OPTIMAL: "optimal case (Table 8)",
    AUTOSCALING: "autoscaling (Table 9)",
}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a result is at least as good as published."""

    name: str
    ok: bool
    text: str

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"name": self.name, "ok": self.ok, "text": self.text}


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    """What the thesis claims, checked against our runs on each target."""
    found = []
    for target in dict.fromkeys(each.target for each in results):
        rows = {(each.case, each.variant): each for each in results if each.target == target}
        where = "" if target == SIMULATOR else f" on {target}"
        found += [_verdict(key, row, where) for key, row in rows.items() if _is_judged(key)]
    return found


def _is_judged(key: tuple[str, str]) -> bool:
    _, variant = key
    return key in PUBLISHED and variant not in (NONE, STATIC) and key != (OPTIMAL, WITHOUT_CAPACITY)


def _verdict(key: tuple[str, str], row: Result, where: str) -> Verdict:
    case, variant = key
    name = f"{CASE_NAMES[case]} {VARIANT_NAMES[variant]}{where}"
    gain = f"{100 * row.gain:+.1f} %"
    published = PUBLISHED[key].gain or 0.0
    if variant == WITHOUT_CAPACITY:
        return Verdict(name=name, ok=row.gain < 0, text=f"loses: {gain}, published {100 * published:+.1f} %.")
    if case == OPTIMAL:
        ok = row.gain > -0.01 and row.measured.moves == 0
        return Verdict(
            name=name, ok=ok, text=f"{gain} with {row.measured.moves:g} moves; nothing should move."
        )
    # on another target, with other costs, the claim is that balancing gains
    least = published if not where else 0.0
    return Verdict(name=name, ok=row.gain >= least, text=f"{gain}, published {100 * published:+.2f} %.")


def headline(judged: Sequence[Verdict]) -> str:
    """The result in one sentence.

    >>> headline([Verdict(name="a", ok=True, text=""), Verdict(name="b", ok=False, text="")])
    "1 of DoDo's 2 results reproduced; not: b"
    """
    missed = [each.name for each in judged if not each.ok]
    text = f"{len(judged) - len(missed)} of DoDo's {counted(len(judged), 'result')} reproduced"
    return f"{text}; not: {', '.join(missed)}" if missed else text


def write_dodo_page(path: Path, results: Sequence[Result], study: Sensitivity | None) -> None:
    """Write the page as one HTML file."""
    path.write_text(dodo_page(results, study), encoding="utf-8")


def dodo_page(results: Sequence[Result], study: Sensitivity | None) -> str:
    """The page as HTML text."""
    judged = verdicts(results)
    pictures = list(_pictures(results))
    return render(
        "page.html.j2",
        folder=Path(__file__).parent,
        title="DoDo's clusters",
        headline=headline(judged),
        ok=all(each.ok for each in judged),
        facts=_facts(results),
        columns=COLUMNS,
        rows=list(_rows(results)),
        verdicts=judged,
        assumptions=[] if study is None else list(_assumptions(study)),
        compared=[f"{CASE_NAMES[case]}: {VARIANT_NAMES[variant]}" for case, variant in COMPARED],
        pictures=pictures,
        data=embedded_data(
            pictures,
            rows=results,
            comparisons=judged,
            studies=study,
            curves={f"{each.case} {each.variant} on {each.target}": each.curves for each in results},
        ),
    )


def _facts(results: Sequence[Result]) -> list[str]:
    runs = max((each.runs for each in results if each.target == SIMULATOR), default=0)
    return [
        *([f"simulator: S4 at the size of the thesis, means of {counted(runs, 'run')}"] if runs else []),
        *(
            ["Spark: two applications on this machine, operators that wait"]
            if any(r.target != SIMULATOR for r in results)
            else []
        ),
    ]


def cells(result: Result) -> list[str]:
    """The cells of a row of the table, after its name."""
    published, nodes = result.published, result.measured.nodes
    return [
        _rate(None if published is None else published.throughput),
        _rate(result.measured.throughput),
        _gain(None if published is None else published.gain),
        _gain(result.gain),
        f"{result.measured.moves:g}" if result.measured.moves % 1 == 0 else f"{result.measured.moves:.1f}",
        " + ".join(f"{n:g}" if n % 1 == 0 else f"{n:.1f}" for n in nodes),
        number(None) if result.measured.node_hours is None else f"{result.measured.node_hours:.1f}",
        number(None) if result.measured.late is None else f"{100 * result.measured.late:.1f} %",
    ]


def _rate(per_s: float | None) -> str:
    return number(None) if per_s is None else f"{per_s:,.0f}"


def _gain(gain: float | None) -> str:
    return number(None) if gain is None else f"{100 * gain:+.1f} %" if round(gain, 4) else "0 %"


def _rows(results: Sequence[Result]) -> Iterator[dict[str, Any]]:
    group = ""
    for result in results:
        here = CASE_TITLES[result.case] + ("" if result.target == SIMULATOR else f" on {result.target}")
        yield {
            "group": here if here != group else "",
            "name": VARIANT_NAMES[result.variant],
            "cells": cells(result),
        }
        group = here


def _assumptions(study: Sensitivity) -> Iterator[dict[str, Any]]:
    for each in study.assumptions:
        yield {"name": each.text, "cells": [_gain(gain) for gain in each.gains.values()]}


# -- pictures ----------------------------------------------------------------------------------------------------


def _pictures(results: Sequence[Result]) -> Iterator[Picture]:
    for target in dict.fromkeys(each.target for each in results):
        where = "" if target == SIMULATOR else f" on {target}"
        rows = {
            (each.case, each.variant): each
            for each in results
            if each.target == target and each.curves is not None
        }
        for case, figure in ((EXTREME, "23 a and b"), (OPTIMAL, "23 c and d")):
            if throughput := _throughput(rows, case):
                yield Picture(
                    title=f"{CASE_NAMES[case].capitalize()}{where}: throughput (Figure {figure})",
                    caption="Tweets processed per second. The load is grey.",
                    panels=[throughput],
                    x_title="minutes",
                )
        if row := rows.get((EXTREME, WITH_CAPACITY)):
            yield Picture(
                title=f"Extreme case with capacity{where}: CPU of the clusters (Figure 24)",
                caption="The count moves from Cluster₃ to Cluster₂.",
                panels=[_cpu(row)],
                x_title="minutes",
            )
        experiments = (
            (STATIC, "1", "27"),
            (BALANCED, "2", "28"),
            (PROVISIONED, "3", "29"),
            (BY_MODEL, "3", ""),
        )
        for variant, experiment, figure in experiments:
            if row := rows.get((AUTOSCALING, variant)):
                yield _experiment(row, f"Experiment {experiment}{where}", figure)
        for variant, figure in ((PROVISIONED, " (Figure 30)"), (BY_MODEL, "")):
            if row := rows.get((AUTOSCALING, variant)):
                assert row.curves is not None
                yield Picture(
                    title=f"Nodes, {VARIANT_NAMES[variant]}{where}{figure}",
                    caption="Nodes that work. All clusters together may have 15.",
                    panels=[
                        Panel(
                            title="nodes",
                            whole=True,
                            lines=[
                                PanelLine(name=n, points=p, steps=True) for n, p in row.curves.nodes.items()
                            ],
                        )
                    ],
                    x_title="minutes",
                )
        if throughput := _throughput(rows, AUTOSCALING):
            yield Picture(
                title=f"The experiments of §7{where} (Figure 31)",
                caption="Events processed per second. The load is grey.",
                panels=[throughput],
                x_title="minutes",
            )


def _throughput(rows: dict[tuple[str, str], Result], case: str) -> Panel | None:
    own = [(variant, row) for (of, variant), row in rows.items() if of == case]
    if not own:
        return None
    first = own[0][1].curves
    assert first is not None
    lines = [PanelLine(name="load", points=first.load, behind=True)]
    lines += [
        PanelLine(name=VARIANT_NAMES[variant], points=row.curves.throughput)
        for variant, row in own
        if row.curves is not None
    ]
    return Panel(title="events/s", lines=lines)


def _cpu(row: Result) -> Panel:
    assert row.curves is not None
    return Panel(
        title="CPU of a node, mean, share of 1",
        lines=[PanelLine(name=name, points=points) for name, points in row.curves.cpu.items()],
    )


def _experiment(row: Result, name: str, figure: str) -> Picture:
    assert row.curves is not None
    return Picture(
        title=f"{name}: {VARIANT_NAMES[row.variant]}" + (f" (Figure {figure})" if figure else ""),
        caption="Events processed per second, and the mean CPU utilisation of each cluster.",
        panels=[
            Panel(
                title="events/s",
                lines=[
                    PanelLine(name="load", points=row.curves.load, behind=True),
                    PanelLine(name="throughput", points=row.curves.throughput),
                ],
            ),
            _cpu(row),
        ],
        x_title="minutes",
    )
