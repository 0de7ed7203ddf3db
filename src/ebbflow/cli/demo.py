"""``ebbflow demo``: a pipeline that resizes itself, on a real cluster, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ebbflow.bench.live_run import SLO, LiveResult, LiveScenario, prepare, run_live
from ebbflow.cli.live_state import LiveFeed
from ebbflow.cli.output import Json, check_writable, errors, print_json, say
from ebbflow.cli.policy_option import PolicyOption, chosen_strategy
from ebbflow.cli.profile_option import ProfileOption, profiles_on_spark
from ebbflow.core.duration import format_duration, parse_seconds
from ebbflow.core.limits import Limits
from ebbflow.core.slo import Slo
from ebbflow.errors import InputError
from ebbflow.pipelines.rankings import Rankings
from ebbflow.report.live import LiveView
from ebbflow.report.numbers import whole
from ebbflow.report.page import write_page
from ebbflow.report.wording import kept_slo
from ebbflow.targets.spark.java import check_java

SHORTEST_S, LONGEST_S = 60.0, 86400.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)


def demo(
    seconds: Annotated[
        str,
        typer.Option(help="How long the compressed day and its night last: 180, or 3m.", metavar="DURATION"),
    ] = "180",
    executors: Annotated[str, typer.Option(help="Fewest and most executors, MIN:MAX.")] = "1:6",
    slo: Annotated[str, typer.Option(help="The objective.")] = str(SLO),
    strategy: Annotated[str, typer.Option(help="Who decides.")] = "capacity",
    policy: PolicyOption = None,
    profile: ProfileOption = None,
    report: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("ebbflow-report.html"),
    json: Json = False,
) -> None:
    """Watch a real Spark pipeline resize itself through a day compressed into three minutes.

    Starts a Spark cluster on this machine, counts the top words of generated tweets with a lookup that
    takes its time, and lets the strategy scale the executors. At the end: scores, and a report as a page.
    """
    strategy = chosen_strategy(strategy, policy)
    profiles = profiles_on_spark(profile, strategy)
    lasts_s = parse_seconds(seconds)
    if not SHORTEST_S <= lasts_s <= LONGEST_S:
        raise InputError(f"--seconds {seconds} makes no day; write {SHORTEST_S:g} to {LONGEST_S:g}")
    scenario = LiveScenario(seconds=lasts_s, limits=Limits.parse(executors), slo=Slo.parse(slo))
    check_writable(report)
    check_java()
    prepare(say)
    feed = LiveFeed(title="top words of tweets", strategy=strategy, scenario=scenario)
    with LiveView(errors) as view:

        def started(at_s: float, rankings: Rankings) -> None:
            feed.started(at_s, rankings)

        result = run_live(
            scenario,
            strategy,
            policy=policy,
            profiles=profiles,
            say=say,
            on_start=started,
            on_cycle=lambda cycle: view.update(feed.state(cycle)),
        )
    if json:  # first: a disk that is full must not cost the scores
        print_json({**result.to_json(), "report": str(report)})
    else:
        _tell(result, report)
    write_page(
        report,
        title=f"Ebbflow demo: top words of tweets, a day in {format_duration(lasts_s)}",
        runs=[result.run],
        scores=[result.scores.to_json()],
        notes=[
            f"Load: {scenario.load}. Each tweet waits {scenario.lookup_wait_s * 1000:g} ms on a lookup.",
            "Rows lost and repeated are counted by comparing the source's offsets with the sink, row by row.",
        ],
    )


def _tell(result: LiveResult, report: Path) -> None:
    scores, slo = result.scores, result.run.slo
    kept = {True: "Kept", False: "Missed", None: "No rows to judge"}[kept_slo(slo, scores.to_json())]
    held = result.run.limits.max_nodes * (result.run.ended_s - result.run.started_s)
    top = ", ".join(f"{escape(word)} {count}" for word, count in result.top[:5])
    took = ", ".join(
        f"{'–' if seconds is None else f'{seconds:.1f} s'} {at}"
        for seconds, at in (
            (scores.latency_p50_s, "at p50"),
            (scores.latency_p95_s, "at p95"),
            (scores.latency_max_s, "at most"),
        )
    )
    errors.print()
    errors.print(f"[bold]{kept} {slo}[/bold]: rows took {took}")
    errors.print(
        f"{whole(scores.node_seconds)} executor-seconds instead of {whole(held)} for holding the maximum "
        f"([bold]{100 * (scores.nodes_saved or 0):.0f} % saved[/bold]), {scores.reconfigurations} changes of size"
    )
    errors.print(
        f"{scores.rows_in} rows in, {scores.rows_lost} lost, {scores.rows_repeated} repeated   top words: {top}"
    )
    errors.print(f"Report with pictures and every decision: [bold]{escape(str(report))}[/bold]")
