"""What every page has around its body: one file, no address in it, and a policy that lets it load nothing."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ebbflow.core.curve import Curve
from ebbflow.core.run import Run
from ebbflow.report.page_assets import SHELL_SCRIPT, STYLE
from ebbflow.report.wording import Scores

# Runs as JSON inside a page: so that a person who has the picture also has the numbers.


def run_to_json(run: Run, scores: Scores) -> dict[str, Any]:
    """A run as plain values. Curves are [seconds since the start, value] pairs."""
    return {
        "strategy": run.strategy,
        "pipeline": run.pipeline,
        "slo": {"freshness_s": run.slo.freshness_s, "quantile": run.slo.quantile},
        "limits": {"min_nodes": run.limits.min_nodes, "max_nodes": run.limits.max_nodes},
        "started_s": run.started_s,
        "ended_s": run.ended_s,
        "scores": dict(scores),
        "arrived": _pairs(run.arrived, run.started_s),
        "processed": _pairs(run.processed, run.started_s),
        "nodes": _pairs(run.nodes, run.started_s),
        "nodes_working": _pairs(run.nodes_working, run.started_s),
        "batches": msgspec.to_builtins(list(run.batches)),
        "decisions": [entry.to_json() for entry in run.decisions],
        "reconfigurations": run.reconfigurations,
        "rows_repeated": run.rows_repeated,
    }


def runs_json(title: str, runs: Sequence[Run], scores: Sequence[Scores]) -> str:
    """All runs of a page as one JSON document that can stand inside a script element."""
    listed = [run_to_json(run, score) for run, score in zip(runs, scores, strict=True)]
    return script_json({"title": title, "runs": listed})


def script_json(value: Any) -> str:
    """JSON in which nothing can end the script element it stands in.

    >>> script_json({"reason": "</script>", "x": float("nan")})
    '{"reason":"\\\\u003c/script>","x":null}'
    """
    text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # Escaping every "<" also covers "<!--"; U+2028/9 end lines in old JavaScript.
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _pairs(curve: Curve, started_s: float) -> list[list[float]]:
    return [
        [round(float(time_s) - started_s, 3), round(float(value), 3)]
        for time_s, value in zip(curve.times_s, curve.values, strict=True)
    ]


def _plain(value: Any) -> Any:
    """Plain values all the way down; JSON knows no infinity and no NaN, so they become null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    number = float(value)
    return number if math.isfinite(number) else None


_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)

FOOTER = (
    "<footer><span>Made by Ebbflow. This page loads nothing from anywhere.</span>"
    '<button type="button" id="save-data">Save the data (JSON)</button></footer>'
)


def document(*, title: str, body: str, data: Mapping[str, str], script: str, style: str = "") -> str:
    """A whole page. ``data`` is JSON for its script, by the id under which that finds it."""
    from ebbflow.report.figures import plotly_js

    elements = "\n".join(
        f'<script type="application/json" id="{name}">{text}</script>' for name, text in data.items()
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{html.escape(title)}</title>
<link rel="icon" href="data:,">
<style>{STYLE}{style}</style>
</head>
<body>
<main>
{body}
</main>
{elements}
<script id="plotly-js">{plotly_js()}</script>
<script>{SHELL_SCRIPT}{script}</script>
</body>
</html>
"""
