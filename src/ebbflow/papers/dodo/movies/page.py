"""The page of ``bench movies``: throughput, batch against stream, and costs, published beside ours."""

from __future__ import annotations

from pathlib import Path

from ebbflow.core.duration import format_duration
from ebbflow.papers.dodo.movies.bench import (
    CORES,
    RATES_PER_S,
    REFRESHES_S,
    MoviesResult,
    published_break_even,
    published_model,
)
from ebbflow.papers.dodo.movies.published import TABLE_2, TABLE_3, TABLE_5
from ebbflow.report.panels import Panel, PanelLine, Picture, panels_figure
from ebbflow.report.template import figure_json, render
from ebbflow.report.wording import number

Cells = list[str]


def write_movies_page(path: Path, result: MoviesResult) -> None:
    """Write the page as one HTML file."""
    path.write_text(movies_page(result), encoding="utf-8")


def movies_page(result: MoviesResult) -> str:
    """The page as HTML text."""
    pictures = {"growth": _growth(result), "freshness": _freshness(result)}
    return render(
        "figures.html.j2",
        title=result.headline,
        eyebrow="Ebbflow: movie recommendation (§5) of the DoDo thesis, published beside ours",
        ok=result.ok,
        facts=_facts(result),
        sections=[
            {
                "heading": "Throughput of the stream (Table 5)",
                "paragraphs": [
                    "Ratings per second through history, similar movies and output. Ours is measured from the arrival "
                    "of each part until its last list was written, so it is lower while other programs run. By the CPU "
                    f"time used, {CORES} free cores process {result.per_s_by_cpu:,.0f} ratings/s."
                ],
                "table": {"columns": ["", "cores", "input", "throughput"], "rows": throughput_rows(result)},
            },
            {
                "heading": pictures["growth"].title,
                "paragraphs": [pictures["growth"].caption],
                "figure": "growth",
                "table": {"columns": GROWTH_COLUMNS, "rows": growth_rows(result)},
            },
            {
                "heading": "Daily cost (Tables 3 and 6)",
                "paragraphs": [
                    "A machine costs 0.065 $ per core and hour, billed by the second; the paper's Hadoop costs 0.08 $, "
                    "in whole hours for each run. A dash: a run takes longer than the refresh.",
                    "The stream runs all the time and refreshes the lists within seconds.",
                ],
                "table": {
                    "columns": ["", *map(format_duration, REFRESHES_S), "stream"],
                    "rows": cost_rows(result),
                },
            },
            {
                "heading": pictures["freshness"].title,
                "paragraphs": [pictures["freshness"].caption],
                "figure": "freshness",
                "table": {
                    "columns": ["lists refreshed every", "ours: from ratings/s", "paper: from ratings/s"],
                    "rows": break_even_rows(result),
                },
            },
        ],
        data={
            **{name: figure_json(panels_figure(picture)) for name, picture in pictures.items()},
            "ebbflow-data": {"rows": result.to_json()},
        },
    )


GROWTH_COLUMNS = ["ratings so far", "pairs", "batch: all anew", "stream: added only", "stream, CPU"]


def throughput_rows(result: MoviesResult) -> list[Cells]:
    """Rows of the table of throughputs."""
    total = result.stream.total
    return [
        *(
            [
                f"paper, S4 on {each.workers} nodes",
                str(each.workers),
                f"{each.input_per_s:.0f}/s",
                f"{each.throughput_per_s:.0f}/s",
            ]
            for each in TABLE_5
        ),
        [
            "ours, Spark on one machine",
            str(CORES),
            f"{total.ratings:,} at once in parts",
            f"{result.per_s:,.0f}/s",
        ],
    ]


def growth_rows(result: MoviesResult) -> list[Cells]:
    """Rows of the table of times as data grows."""
    return [
        [
            f"{each.ratings:,}",
            f"{each.pairs:,}",
            f"{each.batch.seconds:.1f} s",
            f"{each.stream.seconds:.1f} s",
            f"{each.stream.cpu_s:.1f} s",
        ]
        for each in result.growth
    ] + [[f"paper: {each.ratings:,}", "", f"{each.seconds / 60:.0f} min", "", ""] for each in TABLE_2]


def cost_rows(result: MoviesResult) -> list[Cells]:
    """Rows of the table of costs."""
    costs = result.costs
    rows = [
        [
            f"{each.ratings:,} ratings",
            *(_usd(costs.batch_usd_per_day(each.ratings, refresh_s=refresh_s)) for refresh_s in REFRESHES_S),
            _usd(costs.stream_usd_per_day(1.0)),
        ]
        for each in result.growth
    ]
    names = {3_600.0: "every hour", 10_800.0: "every 3 h", 86_400.0: "once a day"}
    for each in TABLE_2:
        cells = [
            _usd(TABLE_3.get((names[refresh_s], each.ratings))) if refresh_s in names else "–"
            for refresh_s in REFRESHES_S
        ]
        rows.append([f"paper: {each.ratings:,} ratings", *cells, "$17.16 to $35.88"])
    return rows


def break_even_rows(result: MoviesResult) -> list[Cells]:
    """Rows of the table of arrival rates from which on the stream is cheaper."""
    return [
        [
            format_duration(refresh_s),
            _rate(result.costs.break_even_rate_per_s(refresh_s)),
            _rate(published_break_even(refresh_s)),
        ]
        for refresh_s in REFRESHES_S
    ]


def _facts(result: MoviesResult) -> list[str]:
    total = result.stream.total
    return [
        f"{total.ratings:,} ratings, {result.ratings.source}",
        f"{result.growth[-1].pairs:,} pairs of movies with a mutual fan",
        f"lists of {len(result.stream.lists):,} movies",
        f"longest batch {result.stream.longest_batch_s:.1f} s",
    ]


def _growth(result: MoviesResult) -> Picture:
    sizes = [each.ratings for each in result.growth]
    return Picture(
        title="Refreshing the lists as data grows (Table 2)",
        caption="The batch job computes all lists anew; the stream only adds what is new, a quarter of the ratings "
        f"each time. The batch time grows like ratings^{result.batch_model.exponent:.2f} here, and like "
        f"ratings^{published_model().exponent:.2f} in the paper.",
        x_title="ratings so far",
        panels=[
            Panel(
                title="seconds",
                lines=[
                    PanelLine(
                        name="batch",
                        points=[(n, e.batch.seconds) for n, e in zip(sizes, result.growth, strict=True)],
                    ),
                    PanelLine(
                        name="stream",
                        points=[(n, e.stream.seconds) for n, e in zip(sizes, result.growth, strict=True)],
                    ),
                ],
            )
        ],
    )


def _freshness(result: MoviesResult) -> Picture:
    costs = result.costs
    return Picture(
        title="From what arrival rate on the stream is cheaper (§5.4)",
        caption="With the ratings of one day. Above the curve the batch job is cheaper, below it the stream. "
        "Extrapolated: the batch time by the fitted power, the stream by its measured throughput. The paper's curve is "
        "made in the same way from Tables 2 and 5.",
        x_title="ratings per second",
        panels=[
            Panel(
                title="freshness at which both cost the same, hours",
                lines=[
                    PanelLine(
                        name="ours",
                        points=[
                            (rate, costs.break_even_freshness_s(rate * 86_400.0, rate_per_s=rate) / 3600.0)
                            for rate in RATES_PER_S[:4]
                        ],
                    ),
                    PanelLine(
                        name="paper",
                        points=[
                            (
                                rate,
                                published_model().seconds(rate * 86_400.0) / max(1, -(-rate // 276)) / 3600.0,
                            )
                            for rate in RATES_PER_S[:4]
                        ],
                    ),
                ],
            )
        ],
    )


def _usd(usd: float | None) -> str:
    return number(None) if usd is None else f"${usd:,.2f}"


def _rate(per_s: float | None) -> str:
    return number(None) if per_s is None else f"{float(f'{per_s:.2g}'):,g}/s"
