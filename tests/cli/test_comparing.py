"""``simulate`` and ``bench leaderboard``: output, errors, and repeatability by seed."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest
from console import ebbflow
from typer.testing import CliRunner

from ebbflow.cli import main as cli
from ebbflow.cli.simulation import DESCRIBING
from ebbflow.core.decision import Decision
from ebbflow.core.ports import Strategy
from ebbflow.policy.files import parse_policy
from ebbflow.runs.leaderboard import RULE, SCORE_NAMES
from ebbflow.runs.results_file import spec_of
from ebbflow.runs.score import score
from ebbflow.runs.simulation import run_simulation, strategy_for
from ebbflow.runs.spec import Spec
from ebbflow.runs.sweep import Sweep, SweepInterrupted, sweep
from ebbflow.strategies import STRATEGIES
from ebbflow.strategies.rules import Rules

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
RUSH = EXAMPLES / "rush.toml"
OFFICE = EXAMPLES / "policies" / "office_hours.yaml"
QUEUE = EXAMPLES / "policies" / "queue.toml"
SHORT = ("--load", "sine(base=100, peak=900, period=10m)", "--seconds", "10m")


class Broken(Strategy):
    """A strategy with a fault in it."""

    name = "broken"

    def decide(self, snapshot) -> Decision:
        raise ZeroDivisionError("no rows, no rate")


@pytest.fixture
def nothing_starts(monkeypatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was started")

    monkeypatch.setattr("ebbflow.cli.comparison.sweep", refuse)


@pytest.fixture
def trace(tmp_path):
    """Writes a trace, returns its path."""

    def write(text: str, name: str = "t.csv") -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def refused(monkeypatch, capsys, arguments, words: str) -> None:
    code, out, err = ebbflow(monkeypatch, capsys, *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.startswith("ebbflow: ")
    assert err.count("\n") == 1


# -- what is refused -------------------------------------------------------------------------------

BAD_TRACES = [
    ("", "has no rows"),
    ("time,events\n", "has no rows"),
    ("time,events\n0,5\n", "only one row"),
    ("time,events\n0,5\n60,-3\n", "line 3 has -3 events"),
    ("time,events\n0,5\n60,many\n", "line 3: 'many' is not a number"),
    ("time,events\n0,5\n60,nan\n", "line 3: 'nan' is not a number"),
    ("time,events\n0,5\n60,7\n30,9\n", "line 4 goes back in time"),
    ("time,events\n0,5,1\n60,7,1\n", "has 3 columns"),
    ("time,events\n0,0\n60,0\n", "has no events"),
]


@pytest.mark.parametrize(("text", "words"), BAD_TRACES)
def test_an_invalid_trace_is_a_one_line_error(
    monkeypatch, capsys, nothing_starts, trace, text, words
) -> None:
    file = trace(text)
    refused(monkeypatch, capsys, ["simulate", "--load", f"trace({file}, peak=100)"], words)
    refused(monkeypatch, capsys, ["bench", "leaderboard", "--loads", file], words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--nodes", "0:0"], "the minimum is 1"),
        (["--nodes", "5:2"], "did you mean 2:5?"),
        (["--slo", "soon"], "write it like 'freshness p95 <= 30s'"),
        (["--pipeline", "top-word"], "did you mean 'top-words'?"),
        (["--engine", "storm"], "there are: continuous, micro-batch"),
        (["--lead-time", "never"], "is not a duration"),
        (["--cycle", "0s"], "--cycle: 0s is invalid; it must be a duration at least 50ms"),
        (["--noise", "-1"], "a relative spread from 0 to 2"),
        (["--slots-per-node", "0"], "they need at least 1"),
        (["--seconds", "-5"], "at least 1s"),
        (["--seconds", "inf"], "at least 1s"),
        (["--initial-nodes", "0"], "outside the limits 1:16"),
        (["--engine", "continuous", "--trigger", "5s"], "has no trigger"),
        (["--report", "/no/such/folder/x.html"], "there is no folder"),
        (["--parquet", "/no/such/x.parquet"], "there is no folder"),
        (["--workers", "0"], "must be 1 or more"),
        (["--policy", "none.toml"], "there is no policy file none.toml"),
        (["--policy", str(QUEUE)], "names operator 'enrich', which pipeline top-words does not have"),
        (["--policy", str(OFFICE), "--policy", str(OFFICE)], "two policies are called 'office_hours.yaml'"),
    ],
)
def test_bad_options_are_one_line_errors_of_both_commands(
    monkeypatch, capsys, nothing_starts, options, words
) -> None:
    refused(monkeypatch, capsys, ["simulate", "--load", "constant(5)", "--seconds", "60", *options], words)
    refused(monkeypatch, capsys, ["bench", "leaderboard", *options], words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["simulate"], "no load is given"),
        (["simulate", "--load", ""], "a load cannot be empty"),
        (["simulate", "--load", "constant(-5)"], "rows per second, a number at least 0"),
        (["simulate", "--load", "constant(many)"], "rows per second, a number at least 0"),
        (["simulate", "--load", "trace(none.csv)"], "there is no trace file 'none.csv'"),
        (["simulate", *SHORT, "--strategy", "capasity"], "did you mean 'capacity'?"),
        (["simulate", *SHORT, "--strategy", "hpa,"], "expected a name"),
        (["simulate", *SHORT, "--strategy", "hpa,hpa"], "named twice"),
        (["simulate", *SHORT, "--seed", "-1"], "Invalid value for '--seed'"),
        (["simulate", "none.toml"], "there is no scenario file none.toml"),
        (["bench", "leaderboard", "--seeds", "0"], "must be 1 or more"),
        (["bench", "leaderboard", "--loads", "none.csv.gz"], "there is no trace file 'none.csv.gz'"),
        (["bench", "leaderboard", "--loads", "constant(5),"], "has an empty entry"),
        (["bench", "leaderboard", "--loads", "sine(base=1"], "column"),
        (["bench", "leaderboard", "--strategies", "magic"], "unknown strategy 'magic'"),
        (["bench", "leaderboard", "--peak", "0"], "a rate above 0 rows/s"),
        (["bench", "leaderboard", "--speed", "-1"], "above 0, like 60"),
        (["bench", "leaderboard", "--jitter", "9"], "a relative spread from 0 to 2"),
        (["bench", "leaderboard", "--master", "mesos://x"], "is not a master"),
        (["bench", "leaderboard", "--master", "local[0]"], "is not a master"),
    ],
)
def test_bad_input_is_a_one_line_error_and_nothing_starts(
    monkeypatch, capsys, nothing_starts, arguments, words
) -> None:
    refused(monkeypatch, capsys, arguments, words)


# -- what is printed -------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["micro-batch", "continuous"])
def test_simulate_prints_every_score_of_every_strategy_and_the_same_bytes_again(
    monkeypatch, capsys, engine
) -> None:
    call = ("simulate", *SHORT, "--strategy", "hpa,capacity,static", "--engine", engine, "--json")
    code, out, err = ebbflow(monkeypatch, capsys, *call)
    assert (code, err) == (0, "")
    rows = json.loads(out)
    assert [row["strategy"] for row in rows] == ["hpa", "capacity", "static"], "as they were asked for"
    assert all(set(SCORE_NAMES) < set(row) for row in rows)
    assert rows[2]["node_seconds"] == 16 * 600
    assert ebbflow(monkeypatch, capsys, *call)[1] == out
    assert ebbflow(monkeypatch, capsys, *call, "--seed", "2")[1] != out


def test_the_command_line_takes_precedence_over_a_scenario_file(monkeypatch, capsys, tmp_path) -> None:
    file = tmp_path / "rush.toml"
    file.write_text('load = "constant(300)"\nseconds = "5m"\nstrategy = ["static", "hpa"]\nnodes = "1:4"\n')
    _, out, _ = ebbflow(monkeypatch, capsys, "simulate", str(file), "--json")
    assert next((row["strategy"], row["node_seconds"]) for row in json.loads(out)) == ("static", 1200.0)
    _, out, _ = ebbflow(
        monkeypatch, capsys, "simulate", str(file), "--nodes", "1:2", "--strategy", "static", "--json"
    )
    assert [(row["strategy"], row["node_seconds"]) for row in json.loads(out)] == [("static", 600.0)]


@pytest.mark.parametrize(
    ("name", "strategies"),
    [
        ("rush", ["capacity", "spark-dra", "hpa"]),
        ("rough_day", ["capacity", "spark-dra", "hpa"]),
        ("two_clusters", ["capacity", "static"]),
    ],
)
def test_the_example_scenarios_give_the_same_bytes_again(monkeypatch, capsys, name, strategies) -> None:
    call = ("simulate", str(EXAMPLES / f"{name}.toml"), "--seconds", "10m", "--json")
    code, out, _ = ebbflow(monkeypatch, capsys, *call)
    assert code == 0
    rows = json.loads(out)
    assert [row["strategy"] for row in rows] == strategies
    assert all((row["cost_ratio"] is None) == (name != "rush") for row in rows), (
        "hindsight knows one pipeline"
    )
    assert ebbflow(monkeypatch, capsys, *call)[1] == out


def test_a_rough_day_is_explained_in_the_terminal_and_on_the_page(monkeypatch, capsys, tmp_path) -> None:
    page = tmp_path / "rough.html"
    file = str(EXAMPLES / "rough_day.toml")
    code, _, err = ebbflow(
        monkeypatch,
        capsys,
        "simulate",
        file,
        "--seconds",
        "10m",
        "--strategy",
        "static",
        "--report",
        str(page),
    )
    assert code == 0
    assert "node-seconds" in err
    assert "no schedule within" not in err, "where hindsight is not known, nothing is said of it"
    text = page.read_text()
    assert "top-words shares its nodes with sentiment: scores cover the rows of all of them" in text
    assert "The runs contain 4 faults;" in text


def test_a_policy_is_one_more_row_named_after_its_file(monkeypatch, capsys, tmp_path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        '[[rule]]\nname = "grow"\naction = "scale-out"\nby = 1\n'
        'when = [{ metric = "freshness", above = "8s", in-at-least = "2 of 3" }]\n'
    )
    call = ("simulate", *SHORT, "--policy", str(mine), "--policy", str(OFFICE), "--json")
    code, out, _ = ebbflow(monkeypatch, capsys, *call)
    assert code == 0
    rows = json.loads(out)
    assert [row["strategy"] for row in rows] == ["capacity", "mine.toml", "office_hours.yaml"]
    assert len({row["node_seconds"] for row in rows}) == 3
    assert ebbflow(monkeypatch, capsys, *call)[1] == out
    code, out, err = ebbflow(
        monkeypatch, capsys, "bench", "leaderboard", "--loads", "sine(base=100, peak=900, period=10m)",
        "--strategies", "rules", "--policy", str(mine), "--seconds", "10m", "--seeds", "1", "--json",
    )  # fmt: skip
    assert code == 0
    assert {row["strategy"] for row in json.loads(out)} == {"rules", "mine.toml"}
    assert "2 strategies × 1 load × 1 seed = 2 runs" in err


def test_a_leaderboard_of_a_scenario_file_takes_its_load_strategies_and_faults(
    monkeypatch, capsys, tmp_path
) -> None:
    text = 'load = "constant(300)"\nseconds = "10m"\nstrategy = ["static", "hpa"]\nnodes = "1:4"\n'
    calm, rough = tmp_path / "calm.toml", tmp_path / "rough.toml"
    calm.write_text(text)
    rough.write_text(text + '[[fault]]\nkind = "slow-node"\nfrom = 0\nuntil = "10m"\nfactor = 0.1\n')
    found = []
    for file in (calm, rough):
        _, out, _ = ebbflow(monkeypatch, capsys, "bench", "leaderboard", str(file), "--seeds", "1", "--json")
        rows = {row["strategy"]: row for row in json.loads(out)}
        assert set(rows) == {"static", "hpa"}
        assert rows["static"]["node_seconds"] == 2400.0
        found.append(rows["static"]["latency_p95_s"])
    assert found[1] > found[0], "a slow node makes rows wait"


def test_coarse_traces_are_ranked_separately(monkeypatch, capsys, tmp_path, trace) -> None:
    fine = trace("second,events\n" + "".join(f"{60 * i},{50 + i % 7}\n" for i in range(60)), "fine.csv")
    coarse = trace(
        "second,events\n" + "".join(f"{300 * i},{50 + 9 * (i % 5)}\n" for i in range(12)), "coarse.csv"
    )
    page = tmp_path / "p.html"
    call = (
        "bench", "leaderboard", "--loads", f"{coarse},{fine}", "--seeds", "1", "--seconds", "20m",
        "--strategies", "static,hpa,capacity",
    )  # fmt: skip
    code, out, _ = ebbflow(monkeypatch, capsys, *call, "--json")
    assert code == 0
    rows = json.loads(out)
    for row in rows:
        assert row["ranked_on"] == "fine"
        means = row["by_step"]
        assert {kind: some["runs"] for kind, some in means.items()} == {"fine": 1, "coarse": 1}
        both = (means["fine"]["node_seconds"] + means["coarse"]["node_seconds"]) / 2
        assert row["node_seconds"] == pytest.approx(both)
    costs = [row["by_step"]["fine"]["node_seconds"] for row in rows if row["slo_kept"]]
    assert costs == sorted(costs)
    code, out, err = ebbflow(monkeypatch, capsys, *call, "--report", str(page))
    assert "coarser loads, in the same order" in out
    assert "coarser loads are shown separately" in err
    text = page.read_text()
    assert "Coarser loads, listed separately" in text
    assert text.index(">fine</option>") < text.index(">coarse</option>"), "those the rank is by come first"


def test_every_seed_is_on_the_page_and_the_page_is_the_same_again(monkeypatch, capsys, tmp_path) -> None:
    pages = [tmp_path / "a.html", tmp_path / "b.html"]
    for page in pages:
        ebbflow(
            monkeypatch, capsys, "bench", "leaderboard", "--loads", "sine(base=10, peak=900, period=10m)",
            "--seeds", "3", "--seconds", "10m", "--strategies", "capacity,hpa", "--report", str(page),
        )  # fmt: skip
    assert pages[0].read_bytes() == pages[1].read_bytes()
    found = re.search(r'id="ebbflow-data">(.*?)</script>', pages[0].read_text(), flags=re.DOTALL)
    assert found is not None
    (load,) = json.loads(found[1])["loads"]
    assert [one["seed"] for one in load["seeds"]] == [1, 2, 3]
    assert all(set(one["runs"]) == {"capacity", "hpa"} for one in load["seeds"])
    held = [one["runs"]["capacity"]["freshness"] for one in load["seeds"]]
    assert held[0] != held[1] != held[2]


def test_a_page_that_is_too_large_has_the_first_seeds_and_says_so(monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.setattr("ebbflow.cli.bench.leaderboard.MOST_RUNS", 4)
    page = tmp_path / "p.html"
    code, _, _ = ebbflow(
        monkeypatch, capsys, "bench", "leaderboard", "--loads", "constant(50)", "--seeds", "3", "--seconds", "2m",
        "--strategies", "static,hpa", "--report", str(page),
    )  # fmt: skip
    assert code == 0
    text = page.read_text()
    assert "The page contains the runs with seeds 1 to 2 of 3; all would make it too large." in text
    found = re.search(r'id="ebbflow-data">(.*?)</script>', text, flags=re.DOTALL)
    assert found is not None
    assert [one["seed"] for one in json.loads(found[1])["loads"][0]["seeds"]] == [1, 2]
    assert "of 3" in text


def test_both_commands_have_the_same_options_for_what_is_simulated() -> None:
    printed = [
        CliRunner().invoke(cli.app, [*command, "--help"], env={"COLUMNS": "200"}).output
        for command in (["simulate"], ["bench", "leaderboard"])
    ]
    for option in (
        *DESCRIBING,
        "nodes",
        "slo",
        "cycle",
        "set",
        "config",
        "policy",
        "workers",
        "report",
        "parquet",
    ):
        assert all(f"--{option}" in text for text in printed), option


def test_simulate_prints_the_best_strategy_and_the_path_of_the_page(monkeypatch, capsys, tmp_path) -> None:
    page = tmp_path / "page.html"
    code, out, err = ebbflow(
        monkeypatch, capsys, "simulate", *SHORT, "--strategy", "static,capacity", "--report", str(page)
    )
    assert code == 0
    assert re.search(r"1\s+capacity.*\n\s*2\s+static", out), "best first"
    assert "capacity kept freshness p95 <= 30s over 10m" in err
    assert str(page) in err
    assert "<title>Ebbflow simulation: top-words</title>" in page.read_text()


def test_the_leaderboard_has_a_row_per_strategy_with_means_and_ranks(
    monkeypatch, capsys, tmp_path, trace
) -> None:
    file = trace("second,events\n" + "".join(f"{60 * i},{50 + i % 7}\n" for i in range(60)), "real.csv")
    page, results = tmp_path / "board.html", tmp_path / "r.parquet"
    call = (
        "bench", "leaderboard", "--loads", f"{file},sine(base=10, peak=500, period=10m)", "--seeds", "2", "--json",
        "--seconds", "10m", "--strategies", "capacity,static,hpa", "--report", str(page), "--parquet", str(results),
    )  # fmt: skip
    code, out, err = ebbflow(monkeypatch, capsys, *call)
    assert code == 0
    assert "3 strategies × 2 loads × 2 seeds = 12 runs" in err
    rows = json.loads(out)
    assert [row["rank"] for row in rows] == [1, 2, 3]
    assert {row["strategy"] for row in rows} == {"capacity", "static", "hpa"}
    assert all(set(SCORE_NAMES) < set(row) and row["runs"] == 4 for row in rows)
    assert next(row for row in rows if row["strategy"] == "static")["node_seconds"] == 9600.0
    assert sum(row["loads_won"] for row in rows) == 2
    text = page.read_text()
    assert "sine(base=10, peak=500, period=10m)" in text
    assert ">real</option>" in text

    from pyarrow import parquet

    table = parquet.read_table(results).to_pandas()
    means = table.groupby("strategy")["node_seconds"].mean()
    assert means.to_dict() == pytest.approx({row["strategy"]: row["node_seconds"] for row in rows})
    by_seed = table.groupby(["strategy", "seed"])["node_seconds"].mean()
    spread = by_seed.groupby("strategy").std().to_dict()
    assert spread == pytest.approx({row["strategy"]: row["node_seconds_sd"] for row in rows})
    assert (spread["static"], spread["hpa"] > 0) == (0.0, True)
    assert "<small>± 0</small>" in text
    assert ebbflow(monkeypatch, capsys, *call)[1] == out


def test_the_terminal_shows_the_largest_spread_with_several_seeds(monkeypatch, capsys) -> None:
    call = (
        "bench",
        "leaderboard",
        "--loads",
        "constant(900)",
        "--seconds",
        "5m",
        "--strategies",
        "static,hpa",
    )
    printed = {}
    for seeds in ("1", "2"):
        _, out, err = ebbflow(monkeypatch, capsys, *call, "--seeds", seeds)
        printed[seeds] = err
        assert max(len(line) for line in out.splitlines()) <= 120
    assert "Standard deviation over the seeds: node-s at most" in printed["2"]
    assert "Standard deviation" not in printed["1"]


def test_a_failed_run_is_named_and_the_others_are_shown(monkeypatch, capsys) -> None:
    monkeypatch.setitem(STRATEGIES, "broken", Broken)
    code, out, err = ebbflow(
        monkeypatch, capsys, "bench", "leaderboard", "--loads", "constant(100)", "--seeds", "1", "--json",
        "--seconds", "5m", "--strategies", "static,broken",
    )  # fmt: skip
    assert code == 1
    assert [(row["strategy"], row["runs"], row["runs_failed"]) for row in json.loads(out)] == [
        ("static", 1, 0),
        ("broken", 0, 1),
    ]
    assert "broken on constant(100), seed 1: ZeroDivisionError" in err
    assert "1 of 2 runs failed" in err


def test_simulate_continues_after_a_failure_which_has_a_row_in_parquet(monkeypatch, capsys, tmp_path) -> None:
    from pyarrow import parquet

    monkeypatch.setitem(STRATEGIES, "broken", Broken)
    page, results = tmp_path / "p.html", tmp_path / "r.parquet"
    call = ("simulate", "--load", "constant(100)", "--seconds", "5m", "--strategy", "broken,static")
    code, out, err = ebbflow(
        monkeypatch, capsys, *call, "--report", str(page), "--parquet", str(results), "--json"
    )
    assert code == 1
    (row,) = json.loads(out)
    assert (row["strategy"], row["node_seconds"]) == ("static", 4800.0)
    assert "broken on constant(100), seed 1: ZeroDivisionError" in err
    assert err.count("1 of 2 runs failed") == 1
    assert "Failed: broken on constant(100), seed 1: ZeroDivisionError" in page.read_text()
    kept, failed = parquet.read_table(results).to_pylist()
    assert (kept["strategy"], kept["node_seconds"], kept["error"]) == ("static", 4800.0, None)
    assert (failed["strategy"], failed["node_seconds"]) == ("broken", None)
    assert "no rows, no rate" in failed["error"]
    code, out, err = ebbflow(monkeypatch, capsys, *call)
    assert code == 1
    assert re.search(r"1\s+static.*\n\s*2\s+broken", out)
    assert "static kept freshness p95 <= 30s" in err


def test_if_every_run_fails_no_strategy_is_best(monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.setitem(STRATEGIES, "broken", Broken)
    call = ("simulate", "--load", "constant(100)", "--seconds", "5m", "--strategy", "broken")
    code, _, err = ebbflow(monkeypatch, capsys, *call, "--report", str(tmp_path / "p.html"))
    assert code == 1
    assert "1 of 1 run failed, the first: broken on constant(100)" in err
    assert "missed" not in err
    code, out, _ = ebbflow(monkeypatch, capsys, *call, "--json")
    assert (code, json.loads(out)) == (1, [])


def test_the_results_of_simulate_can_be_repeated(monkeypatch, capsys, tmp_path) -> None:
    from pyarrow import parquet

    results = tmp_path / "r.parquet"
    code, _, err = ebbflow(
        monkeypatch, capsys, "simulate", *SHORT, "--strategy", "static,hpa", "--policy", str(OFFICE), "--seed", "4",
        "--at", "2026-11-16T08:00", "--parquet", str(results),
    )  # fmt: skip
    assert code == 0
    assert f"Results: {results}" in err
    rows = parquet.read_table(results).to_pylist()
    assert [row["strategy"] for row in rows] == ["static", "hpa", "office_hours.yaml"]
    for row in rows:
        again = spec_of(row).scenario()
        strategy = (
            strategy_for(row["strategy"], again)
            if row["policy"] is None
            else Rules(parse_policy(row["policy"], "row.toml"), begins_at_s=again.begins_at_s)
        )
        assert (
            score(run_simulation(again, strategy).run, oracle_node_seconds=None).node_seconds
            == row["node_seconds"]
        )


@pytest.mark.parametrize(
    ("seeds", "size"),
    [("1", "1 strategy × 1 load × 1 seed = 1 run"), ("2", "1 strategy × 1 load × 2 seeds = 2 runs")],
)
def test_counts_are_singular_or_plural(monkeypatch, capsys, seeds, size) -> None:
    _, _, err = ebbflow(
        monkeypatch, capsys, "bench", "leaderboard", "--loads", "constant(50)", "--seeds", seeds,
        "--seconds", "2m", "--strategies", "static", "--json",
    )  # fmt: skip
    assert err.strip() == f"· {size}"


@pytest.fixture
def interrupted_after(monkeypatch):
    """Ctrl-C, as a terminal sends it, once so many runs are done."""

    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def set_up(runs: int) -> None:
        left = [runs]

        def sweep_builders(*arguments, on_done, **options):
            def count() -> None:
                on_done()
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGINT)

            return sweep(*arguments, on_done=count, **options)

        monkeypatch.setattr("ebbflow.cli.comparison.sweep", sweep_builders)

    yield set_up
    signal.signal(signal.SIGINT, before)


BOARD = (
    "bench", "leaderboard", "--loads", "constant(100),constant(200)", "--seeds", "2", "--seconds", "5m",
    "--strategies", "static,hpa,capacity",
)  # fmt: skip


def test_an_interrupted_leaderboard_prints_partial_results(
    monkeypatch, capsys, tmp_path, interrupted_after
) -> None:
    from pyarrow import parquet

    page, results = tmp_path / "p.html", tmp_path / "r.parquet"
    interrupted_after(7)
    code, out, err = ebbflow(
        monkeypatch, capsys, *BOARD, "--report", str(page), "--parquet", str(results), "--json"
    )
    assert code == 130
    text = (
        "interrupted after 7 of 12 runs; ranked by the 6 on loads and seeds that all strategies have finished"
    )
    assert text in " ".join(err.split())
    assert err.endswith("ebbflow: stopped\n")
    rows = json.loads(out)
    assert [(row["runs"], row["partial"]) for row in rows] == [(2, True)] * 3
    table = parquet.read_table(results).to_pylist()
    assert (len(table), {row["partial"] for row in table}) == (7, {True}), "every run that was done"
    printed = page.read_text()
    assert "<title>Ebbflow leaderboard, partial</title>" in printed
    assert text in printed
    found = re.search(r'id="ebbflow-data">(.*?)</script>', printed, flags=re.DOTALL)
    assert found is not None
    (load,) = json.loads(found[1])["loads"]
    assert [one["seed"] for one in load["seeds"]] == [1, 2]


def test_a_leaderboard_that_ran_to_its_end_is_not_partial(monkeypatch, capsys) -> None:
    _, out, _ = ebbflow(monkeypatch, capsys, *BOARD, "--json")
    assert [row["partial"] for row in json.loads(out)] == [False] * 3


def test_an_interrupt_before_all_strategies_finished_a_load_says_so(
    monkeypatch, capsys, interrupted_after
) -> None:
    interrupted_after(1)
    code, out, err = ebbflow(monkeypatch, capsys, *BOARD)
    assert code == 130
    assert "static" in out
    printed = " ".join(err.split())
    assert "interrupted after 1 of 12 runs; no load was finished by all strategies" in printed


def test_an_interrupt_before_the_first_result_writes_nothing(monkeypatch, capsys, tmp_path) -> None:
    def interrupted(cases, names, **_: object) -> None:
        raise SweepInterrupted(Sweep(results=(), failures=(), unfinished=len(cases) * len(names)))

    monkeypatch.setattr("ebbflow.cli.comparison.sweep", interrupted)
    page, results = tmp_path / "p.html", tmp_path / "r.parquet"
    code, out, err = ebbflow(monkeypatch, capsys, *BOARD, "--report", str(page), "--parquet", str(results))
    assert (code, out) == (130, "")
    assert "interrupted after 0 of 12 runs; no results" in " ".join(err.split())
    assert not page.exists()
    assert not results.exists()


def test_simulate_and_replay_just_stop(monkeypatch, capsys, interrupted_after) -> None:
    interrupted_after(1)
    code, out, err = ebbflow(monkeypatch, capsys, "simulate", *SHORT, "--strategy", "static,hpa")
    assert (code, out, err.strip()) == (130, "", "ebbflow: stopped")


def test_the_rule_of_the_ranking_is_in_the_help() -> None:
    printed = CliRunner().invoke(cli.app, ["bench", "leaderboard", "--help"], env={"COLUMNS": "120"}).output
    assert re.sub(r"\W+", " ", RULE)[:60] in re.sub(r"\W+", " ", printed)
    assert "--json" in printed


def test_the_page_about_it_names_every_option_and_score() -> None:
    page = (RUSH.parent.parent / "docs" / "leaderboard.md").read_text()
    for key in Spec.__struct_encode_fields__:
        assert f"`{key}`" in page, key
    printed = {
        "node_seconds",
        "cost_ratio",
        "nodes_saved",
        "violation",
        "reconfigurations",
        "loads_won",
        "runs_kept",
    }
    assert all(f"`{name}`" in page for name in printed)
