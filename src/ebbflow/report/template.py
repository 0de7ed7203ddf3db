"""Renders pages: Jinja2 templates with style sheets, scripts and data inlined, so that a page is one file.

A content security policy keeps a page from loading anything. Autoescape is on: names, reasons and notes are data, and
JSON is written so that nothing can end the script element around it.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

_HERE = Path(__file__).parent


def render(template: str, *, folder: Path | None = None, **context: Any) -> str:
    """Render a template of this package, or of ``folder``, whose templates may extend those of this package."""
    return _environment(folder).get_template(template).render(**context)


def figure_json(figure: Any) -> Any:
    """A Plotly figure as plain values, for the ``data`` of a page."""
    return json.loads(figure.to_json())


@cache
def _environment(folder: Path | None) -> jinja2.Environment:
    folders = [_HERE / "templates"] if folder is None else [folder, _HERE / "templates"]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["script_json"] = lambda value: Markup(script_json(value))  # noqa: S704
    environment.globals["static"] = lambda name: Markup((_HERE / "static" / name).read_text(encoding="utf-8"))  # noqa: S704
    environment.globals["plotly_js"] = lambda: Markup(_plotly_js())  # noqa: S704
    return environment


def script_json(value: Any) -> str:
    """JSON that cannot end the script element around it. NaN and infinity become null.

    >>> script_json({"reason": "</script>", "x": float("nan")})
    '{"reason":"\\\\u003c/script>","x":null}'
    """
    text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # Escaping every "<" also covers "<!--"; U+2028/9 end lines in old JavaScript.
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    number = float(value)
    return number if math.isfinite(number) else None


def _plotly_js() -> str:
    """Source of Plotly, about 5 MB. Importing Plotly takes a second, so other commands do not."""
    import plotly.offline

    return str(plotly.offline.get_plotlyjs())
