"""What every page has around its body: one file, no address in it, and a policy that lets it load nothing."""

from __future__ import annotations

import html
from collections.abc import Mapping

from ebbflow.report.page_assets import SHELL_SCRIPT, STYLE

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
