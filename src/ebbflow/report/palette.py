"""The colours of figures, read from ``static/colors.css``, where every colour is set once."""

from __future__ import annotations

import re
from pathlib import Path

_CSS = (Path(__file__).parent / "static" / "colors.css").read_text(encoding="utf-8")


def _properties(css: str) -> dict[str, str]:
    """Custom properties of the first ``:root`` block.

    >>> _properties(":root { --ink: #000; --run-1: rgb(1,2,3); } :root { --ink: #fff; }")
    {'ink': '#000', 'run-1': 'rgb(1,2,3)'}
    """
    return dict(re.findall(r"--([\w-]+):\s*([^;]+);", css[: css.index("}")]))


_STYLE = _properties(_CSS)

COLOURS = tuple(_STYLE[f"run-{number}"] for number in range(1, 7))
"""The colours of runs, in order. After the last, they start again with dashed lines."""
INK, MUTED = _STYLE["figure-ink"], _STYLE["figure-muted"]
GRID, AREA, SPIKE = _STYLE["figure-grid"], _STYLE["figure-area"], _STYLE["figure-spike"]
SLO = _STYLE["slo"]
NEUTRAL = _STYLE["figure-neutral"]
"""Of zero, between two colours."""
MARKER_EDGE = _STYLE["marker-edge"]
TRANSPARENT = "rgba(0,0,0,0)"
FONT = _STYLE["font"]


def tint(colour: str, opacity: float) -> str:
    """A hexadecimal colour, translucent.

    >>> tint("#D55E00", 0.3)
    'rgba(213,94,0,0.3)'
    """
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"
