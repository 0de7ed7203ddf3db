"""A line of blocks: the last values of a series in one row of a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.style import StyleType
from rich.text import Text

_BLOCKS = "▁▂▃▄▅▆▇"
_OVER = "█"
_GAP = "·"


def sparkline(values: Sequence[float | None], *, width: int, top: float | None = None) -> str:
    """The newest ``width`` values as blocks from zero to ``top`` (the largest of them, if not given).

    The full block is kept for values above ``top``: lines under each other stay apart, and a limit that was
    passed stands out. A value that is not known is a dot, so that a gap in what was seen stays a gap.

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
    """A sparkline as wide as the place it is put in, each block in the style of its own value."""

    def __init__(
        self,
        values: Sequence[float | None],
        *,
        style: StyleType = "cyan",
        top: float | None = None,
        limit: float | None = None,
    ) -> None:
        """``top`` is what the highest block stands for; the largest value, if not given.

        With a ``limit``, blocks near it are yellow and blocks above it red, others green; a value small
        against its limit also looks small.
        """
        self._values = values
        self._style = style
        self._top = limit if top is None else top
        self._limit = limit

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw to the width that is there."""
        width = options.max_width
        shown = list(self._values)[-width:]
        text = Text(no_wrap=True, overflow="crop")
        for block, value in zip(sparkline(shown, width=width, top=self._top), shown, strict=True):
            text.append(block, "dim" if value is None else self._style_of(value))
        yield text

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Anything from a few blocks to all the room."""
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
