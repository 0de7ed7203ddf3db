"""``ebbflow demo``: a pipeline that resizes itself, on a real cluster, in one command."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ebbflow.cli.options import takes_configuration
from ebbflow.cli.output import Json, check_writable, errors, print_json, say
from ebbflow.control.attach import decider
from ebbflow.control.loop import CycleReport
from ebbflow.core.batches import Batch
from ebbflow.core.decision import LedgerEntry
from ebbflow.core.duration import format_duration, parse_seconds
from ebbflow.core.layout import MAIN
from ebbflow.core.metrics import Metric
from ebbflow.core.ports import Observation
from ebbflow.errors import InputError
from ebbflow.options import Configuration
from ebbflow.papers.elysium.demo import LIMITS, LiveResult, LiveScenario, prepare, run_live
from ebbflow.papers.elysium.pipelines.top_words import Rankings
from ebbflow.report.live import LiveState, LiveView
from ebbflow.report.page import write_run_page
from ebbflow.report.wording import kept_slo, whole
from ebbflow.targets.spark.launch.preflight import check_java

_HISTORY = 240


class LiveFeed:
    """Turns control cycles into what the live view shows: the recent past, one value a cycle."""

    def __init__(self, *, title: str, strategy: str, scenario: LiveScenario) -> None:
        self._title = title
        self._strategy = strategy
        self._scenario = scenario
        self._started_s = 0.0
        self._rankings: Rankings | None = None
        self._load: deque[float] = deque(maxlen=_HISTORY)
        self._backlog: deque[float] = deque(maxlen=_HISTORY)
        self._freshness: deque[float] = deque(maxlen=_HISTORY)
        self._nodes: deque[float] = deque(maxlen=_HISTORY)
        self._batch: Batch | None = None
        self._entry: LedgerEntry | None = None

    def started(self, at_s: float, rankings: Rankings) -> None:
        """Note the start of the load."""
        self._started_s = at_s
        self._rankings = rankings

    def state(self, cycle: CycleReport) -> LiveState:
        """The view after a cycle."""
        observed = cycle.observation
        if cycle.entry is not None:
            self._entry = cycle.entry
        if observed is not None:
            self._add(observed)
        entry, batch, scenario = self._entry, self._batch, self._scenario
        now_s = observed.time_s if observed is not None else self._started_s
        return LiveState(
            title=self._title,
            strategy=self._strategy,
            elapsed_s=max(0.0, now_s - self._started_s),
            total_s=scenario.seconds,
            load_per_s=_last(self._load),
            load_history=tuple(self._load),
            backlog_rows=_last(self._backlog),
            backlog_history=tuple(self._backlog),
            freshness_s=_last(self._freshness),
            freshness_history=tuple(self._freshness),
            slo_s=scenario.slo.freshness_s,
            nodes_working=None if observed is None else observed.layout.main_nodes,
            nodes_requested=None if observed is None else observed.requested.main_nodes,
            nodes_history=tuple(self._nodes),
            limits=scenario.limits,
            batch_id=None if batch is None else batch.batch_id,
            batch_rows=None if batch is None else batch.rows,
            batch_duration_s=None if batch is None else batch.duration_s,
            verdict=None if entry is None else entry.verdict,
            reason=None if entry is None else entry.decision.reason,
            bound_by=None
            if entry is None
            else "; ".join(f"{c.name}: {c.why}" for c in entry.decision.bound_by),
            decision_age_s=None if entry is None else now_s - entry.time_s,
            top_items=() if self._rankings is None else tuple(self._rankings.top()),
            message=cycle.alarm or None,
        )

    def _add(self, observed: Observation) -> None:
        subjects = {observed.pipeline.name, MAIN}
        latest = {
            reading.metric: reading.value for reading in observed.readings if reading.subject in subjects
        }
        for metric, history in (
            (Metric.ARRIVAL_RATE, self._load),
            (Metric.QUEUE_LENGTH, self._backlog),
            (Metric.FRESHNESS, self._freshness),
            (Metric.NODES, self._nodes),
        ):
            value = latest.get(metric, _last(history))
            if value is not None:
                history.append(value)
        if observed.batches:
            self._batch = observed.batches[-1]


def _last(history: deque[float]) -> float | None:
    return history[-1] if history else None


SHORTEST_S, LONGEST_S = 60.0, 86400.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)


@takes_configuration(without=("store", "dry_run", "agents", "agent_keys"), defaults={"executors": LIMITS})
def demo(
    seconds: Annotated[
        str,
        typer.Option(help="Length of the compressed day, like 180 or 3m.", metavar="DURATION"),
    ] = "180",
    *,
    configured: Configuration,
    report: Annotated[Path, typer.Option(help="File for the report.")] = Path("ebbflow-report.html"),
    json: Json = False,
) -> None:
    """Watch a real Spark pipeline resize itself through a day compressed into three minutes.

    Starts a Spark cluster on this machine, counts the top words of generated tweets with a slow lookup, and scales the
    executors. Prints scores and writes an HTML report at the end.
    """
    decider(configured)
    strategy = configured.strategy_expression
    lasts_s = parse_seconds(seconds)
    if not SHORTEST_S <= lasts_s <= LONGEST_S:
        raise InputError(f"--seconds {seconds} is out of bounds; write {SHORTEST_S:g} to {LONGEST_S:g}")
    limits = LIMITS if configured.given("executors") is None else configured["executors"]
    scenario = LiveScenario(seconds=lasts_s, limits=limits, slo=configured["slo"])
    check_writable(report)
    check_java()
    prepare(say)
    feed = LiveFeed(title="top words of tweets", strategy=strategy, scenario=scenario)
    with LiveView(errors) as view:
        result = run_live(
            scenario,
            strategy,
            config=configured,
            say=say,
            on_start=feed.started,
            on_cycle=lambda cycle: view.update(feed.state(cycle)),
        )
    if json:  # before the page: a full disk must not cost the scores
        print_json({**result.to_json(), "report": str(report)})
    else:
        print_result(result, report)
    stored = replace(
        result.stored,
        title=f"Ebbflow demo: top words of tweets, a day in {format_duration(lasts_s)}",
        notes=[
            f"Load: {scenario.load}. Each tweet waits {scenario.lookup_wait_s * 1000:g} ms for a lookup.",
            "Lost and repeated rows are counted by comparing the source's offsets with the sink, row by row.",
        ],
    )
    write_run_page(report, stored)


def print_result(result: LiveResult, report: Path) -> None:
    """Print the scores on standard error."""
    scores, slo = result.scores, result.run.slo
    kept = {True: "Kept", False: "Missed", None: "No rows to judge"}[kept_slo(slo, scores.to_json())]
    held = result.run.limits.max_nodes * (result.run.ended_s - result.run.started_s)
    top = ", ".join(f"{escape(word)} {count}" for word, count in result.top[:5])
    latency = ", ".join(
        f"{'–' if seconds is None else f'{seconds:.1f} s'} {at}"
        for seconds, at in (
            (scores.latency_p50_s, "at p50"),
            (scores.latency_p95_s, "at p95"),
            (scores.latency_max_s, "at most"),
        )
    )
    errors.print()
    errors.print(f"[bold]{kept} {slo}[/bold]: rows took {latency}")
    errors.print(
        f"{whole(scores.node_seconds)} executor-seconds instead of {whole(held)} for holding the maximum "
        f"([bold]{100 * (scores.nodes_saved or 0):.0f} % saved[/bold]), {scores.reconfigurations} changes of size"
    )
    errors.print(
        f"{scores.rows_in} rows in, {scores.rows_lost} lost, {scores.rows_repeated} repeated   top words: {top}"
    )
    errors.print(f"Report with pictures and every decision: [bold]{escape(str(report))}[/bold]")
