"""Pages of the Google cluster tests."""

from __future__ import annotations

from ebbflow.papers.rules.google_cluster.page import (
    DynamicPicture,
    StaticPoint,
    cpu_figure,
    dynamic_page,
    has_day,
    rate_figure,
    results_figure,
    rolling_mean,
    speed_up_figure,
    throughput_figure,
    write_static_page,
)


def points() -> list[StaticPoint]:
    return [
        StaticPoint(instances=n, measured=n < 3, seconds=10.0 / n, speed_up=0.9 * n, published_speed_up=0.8 * n,
                    rates_per_s=(1.0, 2.0, 3.0, 4.0))
        for n in (1, 2, 4, 8)
    ]  # fmt: skip


def test_simulated_points_have_a_line_of_their_own(tmp_path) -> None:
    lines = {trace.name: (list(trace.x), trace.line.dash) for trace in speed_up_figure(points()).data}
    assert lines["measured"][0] == [1, 2]
    assert lines["simulated"] == ([2, 4, 8], "dash")
    dashes = {trace.name: trace.line.dash for trace in throughput_figure(points()).data}
    assert dashes["p95"] == "solid"
    assert dashes["p95, simulated"] == "dash"
    write_static_page(tmp_path / "page.html", points(), "2 cores <only>")
    page = (tmp_path / "page.html").read_text()
    assert "2 cores &lt;only&gt;." in page
    assert page.count('class="chart"') == 3


def test_a_title_of_what_was_only_simulated_says_so(tmp_path) -> None:
    for chosen, words in (
        (points(), "1.80 times as fast as one<"),
        (points()[2:], "as fast as one (simulated)<"),
        (points()[:1], "one instance is the fastest measured<"),
    ):
        write_static_page(tmp_path / "page.html", chosen, "")
        assert words in (tmp_path / "page.html").read_text()


def test_the_dynamic_page_shows_cpu_size_rates_and_results() -> None:
    columns = {
        f"{q}_{s}": [1.0, 2.0]
        for q in ("tasks", "cpu", "memory")
        for s in ("median", "p75", "p90", "p95", "p99")
    }
    picture = DynamicPicture(
        speed=1000, cpu=[(1, 0.05), (2, 0.2)], sizes=[(0, 1), (2, 2)], rates=[(1, 100.0), (2, 300.0)],
        changes=[(2, "1→2: a <rule>")], cluster={"trace_s": [900, 1800], "tasks_total": [5.0, 6.0], **columns},
    )  # fmt: skip
    page = dynamic_page(picture)
    assert "was resized 1 time<" in page
    assert "24 hours" not in page
    assert "hours of the trace" in page
    assert "a &lt;rule&gt;" in page
    assert page.count('class="chart"') == 6
    assert (
        dynamic_page(DynamicPicture(speed=1, cpu=[], sizes=[], rates=[], changes=[])).count('class="chart"')
        == 2
    )


def test_lines_break_where_the_query_was_stopped_and_the_page_says_for_how_long() -> None:
    picture = DynamicPicture(
        speed=1000, cpu=[(1, 0.05), (2, 0.2), (40, 0.1)], sizes=[(0, 1), (2, 2)], rates=[(1, 100.0), (40, 300.0)],
        changes=[(3, "1→2: a rule")], stops=[(3.0, 12.0), (50.0, 9.0)],
    )  # fmt: skip
    assert "stopped the query for 21s in total" in dynamic_page(picture)
    cpu = cpu_figure(picture).data[0]
    assert list(zip(cpu.x, cpu.y, strict=True)) == [(1, 5.0), (2, 20.0), (3, None), (40, 10.0), (50, None)]
    assert rate_figure(picture).data[0].y[1] is None


def test_a_short_trace_is_drawn_over_hours_and_a_long_one_over_days_with_a_mean() -> None:
    for reports, title, last, lines in (
        (50, "hours of the trace", 12.5, ["running tasks"]),
        (96, "hours of the trace", 24.0, ["running tasks", "24-hour mean"]),
        (288, "days of the trace", 3.0, ["running tasks", "24-hour mean"]),
    ):
        cluster = {
            "trace_s": [900 * (k + 1) for k in range(reports)],
            "tasks_total": [float(k) for k in range(reports)],
        }
        figure = results_figure(cluster, {"tasks_total": "running tasks"}, rolling=has_day(cluster))
        assert figure.layout.xaxis.title.text == title
        assert figure.data[0].x[-1] == last
        assert [line.name for line in figure.data] == lines
        if len(lines) > 1:
            assert figure.data[1].y[-1] == reports - 1 - 47.5, "the mean of the last 96 reports"


def test_a_legend_of_several_lines_grows_away_from_the_plot() -> None:
    legend = throughput_figure(points()).layout.legend
    assert (legend.orientation, legend.yanchor) == ("h", "bottom")
    assert legend.y >= 1


def test_a_rolling_mean_looks_back_and_not_ahead() -> None:
    assert rolling_mean([(0, 4.0), (1, 0.0), (5, 2.0)], 3) == [(0, 4.0), (1, 2.0), (5, 2.0)]
    assert rolling_mean([], 3) == []
