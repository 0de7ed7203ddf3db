"""``attach`` takes what is not an argument from the Spark configuration, the environment and a file."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from attach_parts import SESSION, parts_of, session

from ebbflow.control import attach as module
from ebbflow.core.decision import Decision
from ebbflow.core.ports import Guard
from ebbflow.core.snapshot import Snapshot
from ebbflow.errors import InputError


class Nightly(Guard):
    """Restrains nothing."""

    name = "nightly"

    def __init__(self, *, opens_s: float = 0.0) -> None:
        self.opens_s = opens_s

    def restrain(self, snapshot: Snapshot, decision: Decision) -> Decision:
        return decision


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_any_source_the_defaults_are_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    made = parts_of(monkeypatch)
    assert (str(made["limits"]), str(made["slo"])) == ("1:10", "freshness p95 <= 30s")
    assert (made["strategy"].name, made["cycle_s"], made["dry_run"]) == ("capacity", 1.0, False)
    assert made["target"]["shrink_times"].deadline_s == 30.0
    assert made["target"]["grow_times"].withdraw_after_s == 120.0


def test_every_source_reaches_the_loop_and_the_target(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "ebbflow.toml").write_text(
        "cycle = 9\nslo = 'freshness p95 <= 9s'\n[shrink]\ndeadline = '60s'\n"
    )
    monkeypatch.setenv("EBBFLOW_STRATEGY", "capacity(budget_out=0.5)")
    monkeypatch.setenv("EBBFLOW_CYCLE", "8s")
    spark = session(**{"spark.ebbflow.executors": "2:5", "spark.ebbflow.cycle": "7s", "spark.master": "yarn"})
    made = parts_of(monkeypatch, spark, dry_run=True, options={"grow.withdraw_after": "5m"})
    assert (str(made["limits"]), str(made["slo"])) == ("2:5", "freshness p95 <= 9s")
    assert (made["cycle_s"], made["dry_run"]) == (7.0, True)
    assert made["strategy"].budget_out == 0.5
    assert made["target"]["min_nodes"] == 2
    assert made["target"]["shrink_times"].deadline_s == 60.0
    assert made["target"]["grow_times"].withdraw_after_s == 300.0
    assert parts_of(monkeypatch, spark, cycle_s=3)["cycle_s"] == 3.0


def test_guards_of_an_argument_are_added_to_those_of_the_platform(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    installed = [EntryPoint(name, f"{__name__}:Nightly", "ebbflow.guards") for name in ("night", "day")]
    monkeypatch.setattr("ebbflow.core.plugins.entry_points", lambda group: installed)
    (folder / "ebbflow.toml").write_text("[guards]\nadd = ['night', 'day']\n[guards.day]\nopens = '9h'\n")
    of_platform = session(**{"spark.ebbflow.guards.add": "night", "spark.ebbflow.guards.night.opens": "7h"})
    mine = Nightly(opens_s=1.0)

    def added(spark: Any, **how: Any) -> list[float]:
        guards = parts_of(monkeypatch, spark, **how)["guards"]
        return [guard.opens_s for guard in guards if isinstance(guard, Nightly)]

    # A guard that two sources name applies once.
    assert added(of_platform, guards=[mine]) == [1.0, 7 * 3600.0, 9 * 3600.0]
    assert added(of_platform) == [7 * 3600.0, 9 * 3600.0]
    (folder / "ebbflow.toml").unlink()
    assert added(of_platform, guards=[mine]) == [1.0, 7 * 3600.0]
    assert added(session(), guards=[mine]) == [1.0]  # the others came from the platform


def test_custom_guards_run_before_bounds_and_missing_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EBBFLOW_GUARDS_COOL_DOWN_IN", "1m")
    guards = parts_of(monkeypatch, guards=[Nightly()])["guards"]
    assert [guard.name for guard in guards] == [
        "backlog", "cool-down", "step cap", "nightly", "bounds", "missing data",
    ]  # fmt: skip
    assert guards[1]._in_s == 60.0
    guards = parts_of(monkeypatch, guards=[Nightly()], strategy="flink")["guards"]
    assert [guard.name for guard in guards] == ["nightly", "bounds", "missing data"]


@pytest.mark.parametrize(
    ("opened", "how", "words"),
    [
        (session(**{"spark.ebbflow.sloo": "x"}), {}, "spark.ebbflow.sloo: there is no such option"),
        (session(**{"spark.ebbflow.slo": "soon"}), {}, "spark.ebbflow.slo: 'soon' is not an SLO"),
        (SESSION, {"strategy": "capacity(budget=1)"}, "attach(strategy=…): strategy capacity has no"),
        (SESSION, {"strategy": "hpa", "policy": "a.toml"}, "attach(policy=…) and attach(strategy=…) contradict"),
        (SESSION, {"options": {"shrink.deadline": "soon"}}, "'soon' is not a duration"),
        (SESSION, {"config": "none.toml"}, "cannot read the configuration none.toml"),
        (SESSION, {"guards": [Nightly]}, "attach(guards=…): "),
        (SESSION, {"queries": ["words"]}, "cannot be restarted"),
    ],
)  # fmt: skip
def test_bad_configuration_raises_before_anything_is_touched(
    monkeypatch: pytest.MonkeyPatch, opened: Any, how: dict[str, Any], words: str
) -> None:
    def touched(*_: Any, **__: Any) -> None:
        raise AssertionError("the application was touched")

    monkeypatch.setattr("ebbflow.targets.spark.target.SparkTarget", touched)
    with pytest.raises(InputError) as error:
        module.attach(opened, **how)
    assert words in str(error.value)


def test_a_session_whose_configuration_cannot_be_read_is_scaled_with_the_other_sources(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise RuntimeError("the session has stopped")

    spark = session()
    spark.sparkContext.getConf = fail
    assert parts_of(monkeypatch, spark)["strategy"].name == "capacity"
    assert "cannot read spark.ebbflow.* settings" in caplog.text
