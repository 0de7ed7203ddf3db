"""``ebbflow config show``: every value in force and where it comes from; and configuration of other commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from console import ebbflow

from ebbflow.cli.config import reference_page
from ebbflow.options import options

SIMULATE = ("simulate", "--load", "constant(300)", "--seconds", "5m", "--json")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_option_is_shown_with_its_value_and_source(monkeypatch, capsys, folder) -> None:
    (folder / "ebbflow.toml").write_text("slo = 'freshness p95 <= 9s'\n[shrink]\ndeadline = '60s'\n")
    monkeypatch.setenv("EBBFLOW_CYCLE", "2s")
    arguments = ("--set", "executors=2:4", "--conf", "spark.ebbflow.shrink.deadline=90s")
    code, out, _ = ebbflow(monkeypatch, capsys, "config", "show", "--json", *arguments)
    shown = {row["key"]: row for row in json.loads(out)}
    assert code == 0
    assert list(shown) == list(options())

    def at(key: str) -> tuple[str, str, str]:
        return shown[key]["value"], shown[key]["source"], shown[key]["where"]

    assert at("executors") == ("2:4", "command line", "--set executors")
    assert at("shrink.deadline") == ("1m30s", "Spark configuration", "spark.ebbflow.shrink.deadline")
    assert at("cycle") == ("2s", "environment", "EBBFLOW_CYCLE")
    assert at("slo") == ("freshness p95 <= 9s", "file", "ebbflow.toml, slo")
    assert at("strategy") == ("capacity", "default", "")
    assert shown["shrink.deadline"]["toml"] == "[shrink] deadline"
    code, out, _ = ebbflow(monkeypatch, capsys, "config", "show", "--changed")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["slo", "cycle", "shrink.deadline"]
    assert "EBBFLOW_CYCLE" in out


def test_for_a_command_its_own_options_and_defaults_are_shown(monkeypatch, capsys, folder) -> None:
    def shown(*arguments: str) -> dict[str, dict]:
        code, out, err = ebbflow(monkeypatch, capsys, "config", "show", "--json", *arguments)
        assert code == 0, err
        return {row["key"]: row for row in json.loads(out)}

    submit, simulate = shown("--executors", "2:4"), shown("--for", "simulate", "--slo", "freshness <= 9s")
    assert (submit["executors"]["value"], submit["executors"]["where"]) == ("2:4", "--executors")
    assert (submit["cycle"]["value"], simulate["cycle"]["value"]) == ("1s", "10s")
    assert (simulate["executors"]["value"], simulate["executors"]["source"]) == ("1:16", "default")
    assert simulate["executors"]["command_line"] == "--nodes"
    assert (simulate["slo"]["value"], simulate["slo"]["where"]) == ("freshness max <= 9s", "--slo")
    assert {"store", "shrink.deadline"} <= set(submit) - set(simulate)
    (folder / "ebbflow.toml").write_text(f"executors = '3:3'\npolicy = '{OFFICE}'\n")
    assert shown("--for", "bench leaderboard")["executors"]["value"] == "3:3"
    assert shown("--for", "replay")["policy"]["value"] == str(OFFICE)
    assert shown("--for", "replay")["slo"]["value"].startswith("as recorded, else ")


def test_published_spark_keys_count_only_for_their_strategy(monkeypatch, capsys, folder) -> None:
    """They share their prefix with Spark's own dynamic allocation."""

    def shown(*arguments: str) -> dict[str, dict]:
        code, out, err = ebbflow(monkeypatch, capsys, "config", "show", "--json", *arguments)
        assert code == 0, err
        return {row["key"]: row for row in json.loads(out)}

    key, published = "strategy.learner.minExecutors", "spark.streaming.dynamicAllocation.minExecutors"
    two = ("--conf", f"{published}=2")
    assert shown(*two)[key]["source"] == "default"
    assert shown("--conf", f"{published}=0")[key]["source"] == "default"  # valid for Spark
    for learner in (("--strategy", "learner"), ("--conf", "spark.ebbflow.strategy=learner")):
        assert (shown(*two, *learner)[key]["value"], shown(*two, *learner)[key]["where"]) == ("2", published)
    assert shown()[key]["spark_published"] == published
    assert shown()["slo"]["spark_published"] is None
    for more in (("--conf", f"{published}=0"), (*two, "--conf", f"spark.ebbflow.{key}=3")):
        code, out, err = ebbflow(monkeypatch, capsys, "config", "show", "--strategy", "learner", *more)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert published in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set", "agents=foo"), "--set agents: 'foo' is not an address"),
        (("--agent", "tcp://10.0.0.1:7788"), "needs keys"),
        (("--set", "policy=nope.toml"), "--set policy: there is no policy file "),
        (("--set", "strategy.learner.epsilonByRegion=foo"), "must be four numbers from 0 to 1"),
        (("--set", "strategy.elastic-scaling.low=2"), "low is 2 and high is 1; low must be at most high"),
        (("--set", "strategy.learner.targetLatency=60s"), "targetLatency must be at most maxLatency"),
        (("--set", "strategy.learner.teacher=foo"), "strategy.learner.teacher: strategy learner: unknown"),
        (("--set", "store="), "--set store: '' is invalid; it must be the name of a file"),
        (("--for", "simulat"), "did you mean 'simulate'?"),
        (("--for", "simulate", "--store", "run.sqlite"), "--store does not apply here"),
        (
            ("--for", "simulate", "--conf", "spark.ebbflow.slo=freshness <= 9s"),
            "reads no Spark configuration",
        ),
    ],
)
def test_what_is_invalid_is_one_line_even_if_it_is_not_in_force(
    monkeypatch, capsys, folder, arguments, words
) -> None:
    code, out, err = ebbflow(monkeypatch, capsys, "config", "show", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_a_file_of_a_strategy_that_does_not_decide_is_not_read(monkeypatch, capsys, folder) -> None:
    table = ("--set", "strategy.learner.table=nowhere/table.json")
    assert ebbflow(monkeypatch, capsys, "config", "show", *table)[0] == 0
    assert ebbflow(monkeypatch, capsys, "config", "show", *table, "--strategy", "learner")[0] == 2


def test_the_reference_page_is_printed(monkeypatch, capsys, folder) -> None:
    code, out, _ = ebbflow(monkeypatch, capsys, "config", "reference")
    assert (code, out) == (0, reference_page())


BOARD = (
    *("bench", "leaderboard", "--loads", "constant(300)", "--seconds", "5m", "--seeds", "1"),
    *("--strategies", "capacity", "--workers", "1", "--json"),
)
RECORDING = Path(__file__).parents[1] / "runs" / "replay" / "rate_query.jsonl.gz"
REPLAY = ("replay", str(RECORDING), "--json")
OFFICE = Path(__file__).parents[2] / "examples" / "policies" / "office_hours.yaml"
TRY = ("policy", "try", str(OFFICE), "--load", "constant(300)", "--seconds", "5m", "--json")


@pytest.mark.parametrize(
    "command", [("config", "show"), SIMULATE, ("submit", "job.py"), ("demo",), BOARD, REPLAY, TRY]
)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[shrink]\ndeadlin = '60s'",
            "ebbflow.toml, shrink.deadlin: there is no such option; did you mean 'shrink",
        ),
        ("slo = 30", "ebbflow.toml, slo: 30 is invalid"),
        ("executors = '5:2'", "ebbflow.toml, executors: 5:2 has its minimum above its maximum"),
        ("policy = 'a.toml'\nstrategy = 'hpa'", "contradict each other"),
        ("[guards.cool-down]\nin = '-3s'", "ebbflow.toml, guards.cool-down.in: '-3s' "),
    ],
)
def test_bad_configuration_is_one_line_and_code_2(monkeypatch, capsys, folder, command, text, words) -> None:
    (folder / "ebbflow.toml").write_text(text)
    code, out, err = ebbflow(monkeypatch, capsys, *command)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", [SIMULATE, BOARD, REPLAY, TRY])
def test_every_command_that_simulates_reads_all_sources_by_rank(monkeypatch, capsys, folder, command) -> None:
    def run(*arguments: str) -> dict:
        code, out, err = ebbflow(monkeypatch, capsys, *command, *arguments)
        assert code == 0, err
        document = json.loads(out)
        rows = document if isinstance(document, list) else document.get("results", [document])
        return rows[-1]

    nodes = ("--nodes", "3:3")
    three = run(*nodes)["node_seconds"]
    (folder / "ebbflow.toml").write_text("executors = '3:3'\n")
    assert run()["node_seconds"] == three  # the file
    monkeypatch.setenv("EBBFLOW_EXECUTORS", "2:2")
    two = run()["node_seconds"]
    assert two < three  # the environment is stronger
    assert run(*nodes)["node_seconds"] == three  # and the command line the strongest
    assert run("--set", "executors=3:3")["node_seconds"] == three
    (folder / "other.toml").write_text("executors = '3:3'\n")
    monkeypatch.delenv("EBBFLOW_EXECUTORS")
    (folder / "ebbflow.toml").unlink()
    assert run("--config", "other.toml")["node_seconds"] == three
    code, out, err = ebbflow(monkeypatch, capsys, *command, *nodes, "--set", "executors=2:2")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--set executors and --nodes both set executors; leave one of them out" in err


def test_a_policy_of_the_file_is_what_runs_unless_a_strategy_is_named(monkeypatch, capsys, folder) -> None:
    (folder / "ebbflow.toml").write_text(f"policy = '{OFFICE}'\n")

    def rows(*arguments: str) -> list[str]:
        code, out, err = ebbflow(monkeypatch, capsys, *SIMULATE, *arguments)
        assert code == 0, err
        return [row["strategy"] for row in json.loads(out)]

    assert rows() == [OFFICE.name]
    assert rows("--strategy", "static,hpa") == ["static", "hpa"]


def test_the_page_of_one_strategy_is_that_of_its_run(monkeypatch, capsys, folder) -> None:
    for strategies in ("capacity", "capacity,static"):
        code, _, err = ebbflow(
            monkeypatch, capsys, *SIMULATE, "--strategy", strategies, "--report", f"{strategies}.html"
        )
        assert code == 0, err
    alone, board = ((folder / f"{name}.html").read_text() for name in ("capacity", "capacity,static"))
    assert "timeline-data" in alone  # every decision is on the run's page
    assert "timeline-data" not in board


def test_simulate_takes_parameters_of_strategies_and_guards(monkeypatch, capsys, folder) -> None:
    def run(*arguments: str) -> list[dict]:
        code, out, err = ebbflow(monkeypatch, capsys, *SIMULATE, *arguments)
        assert code == 0, err
        return json.loads(out)

    plain = run()[0]
    tight, hpa = run("--strategy", "capacity(budget_out=0.01, budget_in=0.005),hpa")
    assert tight["strategy"] == "capacity(budget_out=0.01, budget_in=0.005)"
    assert hpa["strategy"] == "hpa"
    assert tight["node_seconds"] > plain["node_seconds"]
    (folder / "ebbflow.toml").write_text("[strategy.capacity]\nbudget_out = 0.01\nbudget_in = 0.005\n")
    from_file = run()[0]
    assert from_file == tight
    assert (
        run("--strategy", "capacity(budget_out=0.4, budget_in=0.3)")[0]["node_seconds"]
        == plain["node_seconds"]
    )
    (folder / "ebbflow.toml").write_text("slo = 'freshness p95 <= 7s'\nstrategy = 'static'\n")
    assert run()[0]["strategy"] == "static"
    (folder / "scenario.toml").write_text("strategy = 'hpa'\nload = 'constant(5)'\n")
    assert run("scenario.toml")[0]["strategy"] == "hpa"


def test_a_parameter_of_a_guard_reaches_the_simulated_loop(monkeypatch, capsys, folder) -> None:
    step = (
        *("simulate", "--load", "step(base=50, peak=2000, at=1m)", "--seconds", "4m", "--json"),
        *("--strategy", "capacity", "--initial-nodes", "1"),
    )
    code, out, err = ebbflow(monkeypatch, capsys, *step)
    assert code == 0, err
    plain = json.loads(out)[0]
    slow = ("--set", "guards.step-cap.out_factor=1", "--set", "guards.step-cap.out_nodes=1")
    held = json.loads(ebbflow(monkeypatch, capsys, *step, *slow)[1])[0]
    assert held["violation"] > plain["violation"]
    assert held["reconfigurations"] > plain["reconfigurations"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--strategy", "capacity(budgetout=1)"), "did you mean 'budget_out'?"),
        (("--strategy", "capacity(budget_out=7)"), "7 is invalid; it must be a number above 0 and at most 1"),
        (("--strategy", "capacity(budget_out=0.5"), "that closes capacity(, found the end"),
        (("--strategy", "capacity,capacity"), "is named twice"),
        (
            ("--set", "shrink.deadline=3s"),
            "--set shrink.deadline does not apply here; these options do: executors, slo",
        ),
        (("--set", "guards.cool-down.out=soon"), "--set guards.cool-down.out: 'soon' is not a duration"),
        (("--set", "sloo=3"), "--set sloo: there is no such option; did you mean 'slo'?"),
        (("--set", "nonsense"), "--set nonsense: there is no such option"),
        (("--set", "guard.cool-down.out=3h"), "no such option; did you mean 'guards.cool-down.out'?"),
        (
            ("--strategy", "capacity", "--set", "strategy=hpa"),
            "--set strategy and --strategy both set strategy;",
        ),
        (
            ("--slo", "freshness <= 9s", "--set", "slo=freshness <= 8s"),
            "--set slo and --slo both set slo; leave one of them out",
        ),
        (
            ("--strategy", "hpa,capacity(hold_in=1m)", "--set", "strategy.capacity.hold_in=2m"),
            "--set strategy.capacity.hold_in and --strategy both set strategy.capacity.hold_in",
        ),
        (("--slo", "nonsense"), "--slo: 'nonsense' is not an SLO"),
        (("--nodes", "5:2"), "--nodes: 5:2 has its minimum above its maximum"),
        (
            ("--strategy", "joint(core_min=0.9,core_max=0.3)"),
            "--strategy: strategy joint: core_min 0.9 and core",
        ),
        (
            ("--set", "strategy.elastic-scaling.low=2"),
            "--set strategy.elastic-scaling.low: strategy elastic-scaling: low is 2",
        ),
        (
            ("--strategy", "hpa", "--set", "policy=night.toml"),
            "--set policy and --strategy contradict each other",
        ),
        (("--config", "none.toml"), "cannot read the configuration none.toml"),
    ],
)
def test_bad_options_of_simulate_are_one_line(monkeypatch, capsys, folder, arguments, words) -> None:
    code, out, err = ebbflow(monkeypatch, capsys, *SIMULATE, *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_contradictory_parameters_from_any_source_are_one_line_and_nothing_runs(
    monkeypatch, capsys, folder
) -> None:
    def refused(*arguments: str) -> str:
        code, out, err = ebbflow(monkeypatch, capsys, *arguments)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        return err

    board = ("bench", "leaderboard", "--loads", "constant(10)", "--seconds", "1m", "--seeds", "1")
    bad = "joint(core_min=0.9, core_max=0.3)"
    assert "--strategies: strategy joint: core_min" in refused(*board, "--strategies", f"static,{bad}")
    assert "--nodes: 5:2 has its minimum" in refused(*board, "--nodes", "5:2")
    (folder / "scenario.toml").write_text(f"strategy = '{bad}'\n")
    assert "scenario.toml, strategy: strategy joint: core_min" in refused(*SIMULATE, "scenario.toml")
    (folder / "ebbflow.toml").write_text("[strategy.joint]\ncore_min = 0.9\ncore_max = 0.3\n")
    err = refused(*SIMULATE, "--strategy", "joint")
    assert (
        "ebbflow.toml, strategy.joint.core_min and ebbflow.toml, strategy.joint.core_max: strategy joint:"
        in err
    )


def test_set_overrides_a_scenario_file_like_the_other_options(monkeypatch, capsys, folder) -> None:
    (folder / "scenario.toml").write_text("strategy = 'hpa'\n")
    code, out, err = ebbflow(monkeypatch, capsys, *SIMULATE, "scenario.toml", "--set", "strategy=static")
    assert code == 0, err
    assert json.loads(out)[0]["strategy"] == "static"


def test_of_policy_and_strategy_the_overridden_one_is_marked(monkeypatch, capsys, folder) -> None:
    def shown(*arguments: str) -> tuple[str, dict]:
        out = ebbflow(monkeypatch, capsys, "config", "show", *arguments)[1]
        rows = json.loads(ebbflow(monkeypatch, capsys, "config", "show", "--json", *arguments)[1])
        return out, {row["key"]: row["overridden_by"] for row in rows if row["overridden_by"]}

    (folder / "ebbflow.toml").write_text(f"policy = '{OFFICE}'\n")
    assert shown()[1] == {"strategy": "ebbflow.toml, policy"}
    out, overridden = shown("--set", "strategy=hpa")
    assert overridden == {"policy": "--set strategy"}
    assert "ebbflow.toml, overridden by --set strategy" in out
    (folder / "ebbflow.toml").write_text("strategy = 'hpa'\n")
    assert shown("--set", f"policy={OFFICE}")[1] == {"strategy": "--set policy"}
    assert shown()[1] == {}
