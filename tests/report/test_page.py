"""The run report: one file that loads nothing, safe with any text, and complete."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import escape
from pathlib import Path

import msgspec
import pytest
from jinja2 import UndefinedError
from report_runs import EPOCH_S, empty_run, scores_of, sine_run

import ebbflow
from ebbflow.core.decision import Outcome
from ebbflow.core.layout import Layout
from ebbflow.errors import InputError
from ebbflow.report.page import fold, page, write_page
from ebbflow.report.template import render
from ebbflow.report.wording import headline, kept_slo, whole

HOSTILE = "<script>alert(1)</script>"


def _page(*runs, notes=(), title="A report"):
    return page(title=title, runs=runs, scores=[scores_of(run) for run in runs], notes=notes)


def _without_plotly(text: str) -> str:
    """The page without the library, whose own text has addresses and tags in strings."""
    return re.sub(r'<script id="plotly-js">.*?</script>', "", text, flags=re.DOTALL)


def _data(text: str, name: str = "ebbflow-data"):
    (found,) = re.findall(
        rf'<script type="application/json" id="{name}">(.*?)</script>', text, flags=re.DOTALL
    )
    return json.loads(found)


def _row_texts(text: str, verdict: str) -> list[str]:
    return re.findall(rf'<tr class="{verdict}" data-verdict.*?</tr>', text, flags=re.DOTALL)


def test_page_loads_nothing_from_anywhere():
    text = _page(sine_run(), sine_run("static", fixed_nodes=6))
    rest = _without_plotly(text)
    assert text.count('id="plotly-js"') == 1
    assert len(rest) < 400_000
    assert not re.findall(r"\bsrc\s*=", rest)
    assert re.findall(r"\bhref\s*=\s*\"([^\"]*)\"", rest) == ["data:,"]
    assert "@import" not in rest
    assert "url(" not in rest
    assert not re.findall(r"https?://", rest)
    assert "default-src 'none'" in rest


def test_hostile_text_is_text_everywhere(tmp_path):
    run = sine_run(strategy=f"mine {HOSTILE}", hostile=HOSTILE + " </script>")
    run = replace(run, pipeline=HOSTILE)
    path = tmp_path / "page.html"
    write_page(path, title=HOSTILE, runs=[run, run], scores=[scores_of(run), {HOSTILE: 1.0}], notes=[HOSTILE])
    text = path.read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 10
    assert _data(text)["title"] == HOSTILE
    rest = _without_plotly(text)
    assert rest.count("<script") == rest.count("</script>") == 4


def test_templates_escape_by_default_and_only_what_is_marked_safe_is_markup(tmp_path):
    (tmp_path / "bare.html.j2").write_text("<p>{{ text }}</p>")
    (tmp_path / "safe.html.j2").write_text("<p>{{ text|safe }}</p>")
    assert render("bare.html.j2", folder=tmp_path, text=HOSTILE) == f"<p>{escape(HOSTILE)}</p>"
    assert HOSTILE in render("safe.html.j2", folder=tmp_path, text=HOSTILE), "the negative control"


def test_no_template_marks_data_as_safe():
    for template in (Path(ebbflow.__file__).parent).rglob("*.j2"):
        assert "|safe" not in template.read_text().replace(" ", ""), template


def test_a_template_that_misses_a_value_fails(tmp_path):
    (tmp_path / "page.html.j2").write_text("{{ missing }}")
    with pytest.raises(UndefinedError, match="missing"):
        render("page.html.j2", folder=tmp_path)


def test_colours_are_set_in_one_place():
    colour = re.compile(r"#[0-9a-fA-F]{3}\b|#[0-9a-fA-F]{6}\b|rgba?\(\d+")
    package = Path(ebbflow.__file__).parent
    files = [*package.glob("report/**/*.*"), *package.glob("papers/**/page.*")]
    found = {
        path.name
        for path in files
        if path.suffix in {".py", ".css", ".js", ".j2"}
        and colour.search(re.sub(r"rgba\(0,0,0,0\)|>>>.*\n.*", "", path.read_text()))
    }
    assert found == {"colors.css"}


def test_every_score_is_there_with_its_meaning():
    run = sine_run()
    scores = scores_of(run)
    text = page(title="t", runs=[run], scores=[scores])
    for key in scores:
        row = re.search(rf'<tr data-score="{key}">.*?</tr>', text, flags=re.DOTALL)
        assert row, key
        assert re.search(r'<abbr title="[^"]{15,}"', row[0]), key
    assert f">{whole(scores['node_seconds'])}</td>" in text
    assert ">10.2 s</td>" in text


def test_an_undeclared_score_is_shown_under_its_own_name():
    run = sine_run()
    assert 'data-score="novel_score"' in page(title="t", runs=[run], scores=[{"novel_score": 0.5}])


def test_an_unknown_score_is_a_dash():
    text = page(title="t", runs=[sine_run()], scores=[{"cost_ratio": None}])
    assert re.search(r'data-score="cost_ratio">.*?<td[^>]*>–</td>', text, flags=re.DOTALL)


def test_a_cheap_run_that_missed_its_slo_is_not_the_best_in_cost():
    runs = [sine_run(), sine_run("cheap"), sine_run("static")]
    scores = [
        {"node_seconds": 500, "violation": 0.0},
        {"node_seconds": 100, "violation": 0.5},
        {"node_seconds": 900, "violation": 0.0},
    ]
    text = page(title="t", runs=runs, scores=scores)
    assert re.findall(r'<td class="best" title="node_seconds = (\d+)"', text) == ["500"]
    assert re.findall(r'<td class="bad" title="violation = ([\d.]+)"', text) == ["0.5"]


def test_every_act_is_a_row_of_its_own():
    run = sine_run()
    acts = [entry for entry in run.decisions if entry.verdict == "act"]
    assert len(_row_texts(_page(run), "act")) == len(acts)


def test_holds_for_one_reason_are_one_row_that_opens():
    run = sine_run()
    hold = next(entry for entry in run.decisions if entry.verdict == "hold")
    act = next(entry for entry in run.decisions if entry.verdict == "act")

    def at(entry, second, reason=None):
        decision = (
            entry.decision if reason is None else msgspec.structs.replace(entry.decision, reason=reason)
        )
        return msgspec.structs.replace(entry, time_s=EPOCH_S + second, decision=decision)

    entries = [
        at(hold, 5, "3 executors hold 240 rows/s"),
        at(hold, 10, "3 executors hold 243.5 rows/s"),
        at(hold, 15, "3 executors hold 1,250 rows/s"),
        at(hold, 20, "no data for 12 s"),
        at(act, 25),
        at(act, 30),
        at(hold, 35, "no data for 12 s"),
    ]
    assert [len(group) for group in fold(entries)] == [3, 1, 1, 1, 1]
    rows = _row_texts(_page(replace(run, decisions=entries)), "hold")
    assert len(rows) == 3
    assert "×3" in rows[0]
    assert "0:05" in rows[0]
    assert "0:15" in rows[0]
    assert rows[0].count("<li>") == 3
    assert "<details>" in rows[0]
    assert "<details>" not in rows[1]


def test_a_row_says_all_there_is_to_say_of_a_decision():
    row = _row_texts(_page(sine_run(headroom=4.0)), "act")[0]
    for words in ("0:08", "1 → 3", "rows/s", "⌈λ′ · h / c⌉", "c = 60", "step-cap", "at most 2 in one step"):
        assert words in row
    assert "freshness 7.5 s → 8.1 s" in row


@pytest.mark.parametrize(
    ("wanted", "requested", "words"),
    [(5, 3, "2 cannot be had: no free cores"), (1, 3, "2 cannot be released: no free cores")],
)
def test_a_row_says_what_of_a_decision_is_infeasible(wanted, requested, words):
    run = sine_run()
    entry = next(entry for entry in run.decisions if entry.verdict == "act")
    decision = msgspec.structs.replace(entry.decision, wanted=Layout.of(wanted))
    outcome = Outcome(requested=Layout.of(requested), infeasible_nodes=2, note="no free cores")
    changed = msgspec.structs.replace(entry, before=Layout.of(3), decision=decision, outcome=outcome)
    assert words in _page(replace(run, decisions=[changed]))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_any_number_of_runs(count):
    runs = [sine_run(), sine_run("static", fixed_nodes=6), sine_run("rules", headroom=0.8)][:count]
    text = _page(*runs)
    assert len(_data(text)["runs"]) == count
    assert ('id="comparison-data"' in text) == (count > 1)
    assert ("used 41 % fewer executor-seconds than static" in text) == (count > 1)


def test_the_same_strategy_twice_gets_two_names():
    text = _page(sine_run(), sine_run())
    assert "symbiotic (1)" in text
    assert "symbiotic (2)" in text


def test_a_run_without_rows_and_decisions_has_a_page():
    run = empty_run()
    text = page(title="Idle", runs=[run], scores=[{"node_seconds": None, "violation": None}])
    assert "No decisions were made" in text
    assert "no rows to judge" in text


def test_the_data_is_in_the_page():
    run = sine_run()
    (data,) = _data(_page(run))["runs"]
    assert data["strategy"] == "symbiotic"
    assert len(data["decisions"]) == len(run.decisions)
    assert len(data["batches"]) == len(run.batches)
    assert data["arrived"][-1] == [180.0, round(float(run.arrived.values[-1]), 3)]
    assert data["scores"]["rows_in"] == scores_of(run)["rows_in"]


def test_the_figure_in_the_page_is_the_figure():
    layout = _data(_page(sine_run()), "timeline-data")["layout"]
    assert any(shape.get("name") == "slo" for shape in layout["shapes"])


def test_headline_says_whether_the_slo_was_kept():
    run = sine_run(slo_s=30.0)
    good = {"latency_p95_s": 8.23, "violation": 0.01, "nodes_saved": 0.412}
    assert headline(run, good) == (
        "Kept freshness p95 at 8.2 s (SLO 30 s) with 41 % fewer executor-seconds than holding the maximum."
    )
    bad = {"latency_p95_s": 44.0, "violation": 0.2, "nodes_saved": 0.0}
    assert headline(run, bad, name="rules") == (
        "rules missed the SLO: freshness p95 was 44 s (SLO 30 s) with as many executor-seconds as holding "
        "the maximum."
    )
    assert kept_slo(run.slo, {}) is None


def test_scores_that_do_not_match_the_runs_are_refused():
    with pytest.raises(InputError, match="2 runs and 1 scores"):
        page(title="t", runs=[sine_run(), sine_run()], scores=[{}])
    with pytest.raises(InputError, match="at least one run"):
        page(title="t", runs=[], scores=[])
