"""``ebbflow submit`` resolves its options before anything starts, and again when the session is known."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ebbflow.cli import submit as module
from ebbflow.options import Configuration, from_spark


@pytest.fixture
def attached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Submits a script whose session has some Spark settings; returns the arguments of each ``attach``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.py").write_text("")
    for name in ("check_java", "check_master_to_scale", "use_this_python"):
        monkeypatch.setattr(module, name, lambda *_: None)

    def submit(session: dict[str, str], **options: Any) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = []
        conf = SimpleNamespace(getAll=lambda: list(session.items()))
        spark = SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: conf))

        def attach(_: Any, **arguments: Any) -> Any:
            calls.append(arguments)
            return SimpleNamespace(agents=None, stop=lambda within_s: None)

        def run_script(*_: Any, on_session: Any, **__: Any) -> int:
            on_session(spark)
            return 0

        monkeypatch.setattr(module, "attach", attach)
        monkeypatch.setattr(module, "run_script", run_script)
        assert module.submit(tmp_path / "job.py", master="spark://h:7077", **options) == 0
        return calls

    return submit


def test_attach_gets_command_line_environment_and_file(
    attached: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ebbflow.toml").write_text("policy = 'rules.toml'\nslo = 'freshness p95 <= 9s'\n")
    monkeypatch.setenv("EBBFLOW_CYCLE", "2s")
    settings = {"spark.ebbflow.slo": "freshness p95 <= 8s", "spark.ebbflow.cycle": "3s"}
    (call,) = attached(
        settings,
        executors="2:4",
        strategy="capacity(hold_in=1m)",
        set=["shrink.deadline=9s"],
        agent=["ipc:///a"],
    )
    configured: Configuration = call["config"]
    configured = configured.plus(from_spark(settings))
    assert str(configured["executors"]) == "2:4"
    assert configured.strategy_expression == "capacity(hold_in=1m)", "the policy of the file is weaker"
    assert (configured["slo"].freshness_s, configured["cycle"]) == (8.0, 3.0)
    assert configured.shrink_times.deadline_s == 9.0
    assert configured["agents"] == ("ipc:///a",)


def test_a_session_with_invalid_settings_is_not_scaled_and_the_job_runs_on(
    attached: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert attached({"spark.ebbflow.sloo": "x"}) == []
    assert "not scaling: spark.ebbflow.sloo: there is no such option" in caplog.text


def test_paths_are_taken_from_the_folder_of_the_command(attached: Any, tmp_path: Path) -> None:
    (call,) = attached({}, store="run.sqlite")
    assert call["store"] == tmp_path / "run.sqlite"
