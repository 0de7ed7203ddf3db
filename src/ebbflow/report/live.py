"""The live view of a running loop: a panel in a terminal, log lines elsewhere.

Rendering depends on the state alone, not on a clock or on Spark. An unknown value is a dash, never a zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.style import StyleType
from rich.table import Table
from rich.text import Text

from ebbflow.core.limits import Limits
from ebbflow.report.wording import UNKNOWN, clock, number, seconds, whole

_BLOCKS = "▁▂▃▄▅▆▇"
_OVER = "█"
_GAP = "·"


def sparkline(values: Sequence[float | None], *, width: int, top: float | None = None) -> str:
    """The newest ``width`` values as blocks from zero to ``top`` (by default the largest of them).

    The full block is reserved for values above ``top``, so that an exceeded limit stands out and sparklines below each
    other stay separate. An unknown value is a dot.

    >>> sparkline([0, 1, 2, None, 4, 8], width=5)
    '▂▃·▄▇'
    >>> sparkline([1, 5, 12], width=5, top=10)
    '▂▄█'
    >>> sparkline([], width=5)
    ''
    """
    shown = list(values)[-width:] if width > 0 else []
    known = [value for value in shown if value is not None and math.isfinite(value)]
    highest = max(known, default=0.0) if top is None else top
    return "".join(_block(value, highest) for value in shown)


def _block(value: float | None, highest: float) -> str:
    if value is None or not math.isfinite(value):
        return _GAP
    if value > highest:
        return _OVER
    if value <= 0:
        return _BLOCKS[0]
    return _BLOCKS[round(value / highest * (len(_BLOCKS) - 1))]


class Sparkline:
    """A sparkline that fills the available width, each block styled by its value."""

    def __init__(
        self,
        values: Sequence[float | None],
        *,
        style: StyleType = "cyan",
        top: float | None = None,
        limit: float | None = None,
    ) -> None:
        """``top`` is the value of the highest block, by default the largest value.

        With a ``limit``, blocks near it are yellow, above it red and otherwise green, and ``top`` defaults to it.
        """
        self._values = values
        self._style = style
        self._top = limit if top is None else top
        self._limit = limit

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Fill the available width."""
        width = options.max_width
        shown = list(self._values)[-width:]
        text = Text(no_wrap=True, overflow="crop")
        for block, value in zip(sparkline(shown, width=width, top=self._top), shown, strict=True):
            text.append(block, "dim" if value is None else self._style_of(value))
        yield text

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """From a few blocks to the whole width."""
        return Measurement(min(8, options.max_width), options.max_width)

    def _style_of(self, value: float) -> StyleType:
        return self._style if self._limit is None else limit_style(value, self._limit)


def limit_style(value: float | None, limit: float | None) -> str:
    """Green well below a limit, yellow from four fifths of it, red above it.

    >>> limit_style(3.0, 10.0), limit_style(9.0, 10.0), limit_style(11.0, 10.0), limit_style(None, 10.0)
    ('green', 'yellow', 'red', 'dim')
    """
    if value is None or limit is None or not math.isfinite(value):
        return "dim"
    return "red" if value > limit else "yellow" if value > 0.8 * limit else "green"


_LABEL_STYLE = "dim"


@dataclass(frozen=True, kw_only=True)
class LiveState:
    """What the live view shows at one moment. None is unknown."""

    title: str
    strategy: str
    elapsed_s: float
    total_s: float | None = None
    load_per_s: float | None = None
    load_history: Sequence[float | None] = ()
    """Histories are oldest first, with one value per update; the view shows as many as fit."""
    backlog_rows: float | None = None
    backlog_history: Sequence[float | None] = ()
    freshness_s: float | None = None
    freshness_history: Sequence[float | None] = ()
    slo_s: float | None = None
    nodes_working: int | None = None
    nodes_requested: int | None = None
    nodes_history: Sequence[float | None] = ()
    limits: Limits | None = None
    batch_id: int | None = None
    batch_rows: int | None = None
    batch_duration_s: float | None = None
    verdict: str | None = None
    """The last decision: ``act`` or ``hold``."""
    reason: str | None = None
    bound_by: str | None = None
    """The constraint that bound the last decision, if any."""
    decision_age_s: float | None = None
    top_items: Sequence[tuple[str, int]] = ()
    """(word, count), the most frequent first."""
    message: str | None = None


def render(state: LiveState) -> RenderableType:
    """The state as a panel for any width from 60 columns."""
    rows = Table.grid(padding=(0, 1), expand=True)
    rows.add_column(width=10, style=_LABEL_STYLE, no_wrap=True)
    rows.add_column(ratio=1)
    rows.add_column(min_width=22, max_width=34, no_wrap=True, justify="right")
    load = f"{number(state.load_per_s)} rows/s" if state.load_per_s is not None else UNKNOWN
    backlog = f"{whole(state.backlog_rows)} rows" if state.backlog_rows is not None else UNKNOWN
    rows.add_row("load", Sparkline(state.load_history, style="cyan"), Text(load, "bold"))
    rows.add_row("backlog", Sparkline(state.backlog_history, style="magenta"), Text(backlog, "bold"))
    rows.add_row("freshness", Sparkline(state.freshness_history, limit=state.slo_s), _freshness(state))
    most = state.limits.max_nodes if state.limits else None
    rows.add_row("executors", Sparkline(state.nodes_history, style="blue", top=most), _node_counts(state))
    rows.add_row("", _NodeBlocks(state, most), Text(_batch(state), _LABEL_STYLE))
    parts: list[RenderableType] = [_progress(state), Text(), rows, Text(), _decision(state)]
    if state.top_items:
        parts += [Text(), _TopItems(state.top_items)]
    if state.message:
        parts += [Text(), Text(_clean(state.message), "yellow")]
    title = Text.assemble(("ebbflow", "bold"), f" · {_clean(state.title)} · {_clean(state.strategy)}")
    title.truncate(60, overflow="ellipsis")
    return Panel(Group(*parts), title=title, title_align="left", border_style="dim", padding=(0, 1))


def plain_line(state: LiveState) -> str:
    """The state as one log line."""
    total = f"/{clock(state.total_s)}" if state.total_s is not None else ""
    parts = [
        f"{clock(state.elapsed_s)}{total}",
        f"load {number(state.load_per_s)} rows/s",
        f"backlog {whole(state.backlog_rows)}",
        f"freshness {seconds(state.freshness_s)}"
        + (f" (SLO {seconds(state.slo_s)})" if state.slo_s is not None else ""),
        f"executors {_count(state.nodes_working)}"
        + (f"→{state.nodes_requested}" if _changing(state) else "")
        + (f" of {state.limits}" if state.limits else ""),
    ]
    if state.batch_id is not None:
        parts.append(_batch(state))
    if state.verdict is not None:
        bound = f" [bound by {state.bound_by}]" if state.bound_by else ""
        parts.append(f"{state.verdict}: {state.reason or UNKNOWN}{bound}")
    if state.message:
        parts.append(state.message)
    return _clean(" | ".join(parts))


class LiveView:
    """Shows each state: in place on a terminal, elsewhere as an occasional line.

    Use it as a context manager::

        with LiveView(console) as view:
            view.update(state)
    """

    def __init__(self, console: Console, *, line_every_s: float = 10.0) -> None:
        self._console = console
        self._line_every_s = line_every_s
        self._last_line_s: float | None = None
        self._live = Live(console=console, auto_refresh=False, transient=False)

    def __enter__(self) -> LiveView:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def update(self, state: LiveState) -> None:
        """Show a state; if not on a terminal, at most once in ``line_every_s`` seconds of elapsed time."""
        if self._console.is_terminal:
            self._live.update(render(state), refresh=True)
        elif self._last_line_s is None or state.elapsed_s - self._last_line_s >= self._line_every_s:
            self._last_line_s = state.elapsed_s
            self._console.print(Text(plain_line(state)), soft_wrap=True)


def _progress(state: LiveState) -> RenderableType:
    if state.total_s is None or state.total_s <= 0:
        return Text.assemble((clock(state.elapsed_s), "bold"), (" running", _LABEL_STYLE))
    done = min(max(state.elapsed_s / state.total_s, 0.0), 1.0)
    row = Table.grid(padding=(0, 1), expand=True)
    row.add_column(no_wrap=True)
    row.add_column(ratio=1)
    row.add_column(no_wrap=True, justify="right")
    bar = ProgressBar(total=1.0, completed=done, complete_style="cyan", finished_style="green")
    times = Text.assemble((clock(state.elapsed_s), "bold"), (f" of {clock(state.total_s)}", _LABEL_STYLE))
    row.add_row(times, bar, Text(f"{done * 100:.0f} %"))
    return row


def _freshness(state: LiveState) -> Text:
    slo = f"  SLO {seconds(state.slo_s)}" if state.slo_s is not None else ""
    style = limit_style(state.freshness_s, state.slo_s)
    return Text.assemble((seconds(state.freshness_s), f"bold {style}"), (slo, _LABEL_STYLE))


def _node_counts(state: LiveState) -> Text:
    text = Text.assemble((_count(state.nodes_working), "bold"))
    if _changing(state):
        text.append(f" → {state.nodes_requested}", "bold yellow")
    if state.limits:
        text.append(f"  of {state.limits}", _LABEL_STYLE)
    return text


def _changing(state: LiveState) -> bool:
    return state.nodes_requested is not None and state.nodes_requested != state.nodes_working


def _count(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def _batch(state: LiveState) -> str:
    if state.batch_id is None:
        return f"batch {UNKNOWN}"
    return f"batch {state.batch_id}: {whole(state.batch_rows)} rows, {seconds(state.batch_duration_s)}"


def _decision(state: LiveState) -> RenderableType:
    row = Table.grid(padding=(0, 1), expand=True)
    row.add_column(width=10, style=_LABEL_STYLE, no_wrap=True)
    row.add_column(ratio=1)
    if state.verdict is None:
        row.add_row("decision", Text("none yet", _LABEL_STYLE))
        return row
    text = Text(overflow="fold")
    text.append(f" {_clean(state.verdict)} ", "black on cyan" if state.verdict == "act" else "reverse dim")
    if state.decision_age_s is not None:
        text.append(f" {clock(state.decision_age_s)} ago", _LABEL_STYLE)
    text.append(f"  {_clean(state.reason or UNKNOWN)}")
    if state.bound_by:
        text.append(f"  bound by {_clean(state.bound_by)}", "yellow")
    row.add_row("decision", text)
    return row


class _NodeBlocks:
    """Executors as blocks: ■ working, □ starting, ▣ leaving, · free up to the maximum."""

    def __init__(self, state: LiveState, most: int | None) -> None:
        self._working = state.nodes_working
        self._requested = state.nodes_requested
        self._most = most

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """One block per node if they fit, else counts."""
        if self._working is None:
            yield Text(UNKNOWN, _LABEL_STYLE)
            return
        requested = self._working if self._requested is None else self._requested
        staying = min(self._working, requested)
        counts = (
            ("■", "blue", staying),
            ("▣", "dim blue", self._working - staying),
            ("□", "yellow", max(requested - self._working, 0)),
            ("·", "dim", max((self._most or 0) - max(self._working, requested), 0)),
        )
        total = sum(count for _, _, count in counts)
        gap = " " if 2 * total <= options.max_width else ""
        text = Text(no_wrap=True, overflow="crop")
        for block, style, count in counts:
            if total > options.max_width:
                text.append(f"{block}×{count} " if count else "", style)
            else:
                text.append((block + gap) * count, style)
        yield text


class _TopItems:
    """The most frequent words with their counts, as many as fit in one line."""

    def __init__(self, items: Sequence[tuple[str, int]]) -> None:
        self._items = items

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Only complete items: a cut-off count would be wrong."""
        text = Text(no_wrap=True, overflow="crop").append(f"{'top':<10} ", _LABEL_STYLE)
        for word, count in self._items:
            item = Text.assemble((_clean(word), ""), (f" {whole(count)}   ", _LABEL_STYLE))
            if cell_len(text.plain) + cell_len(item.plain.rstrip()) > options.max_width:
                break
            text.append_text(item)
        text.rstrip()
        yield text


def _clean(text: str) -> str:
    """Text from data without escape sequences and line breaks."""
    return "".join(character if character.isprintable() else " " for character in text)
