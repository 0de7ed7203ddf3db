"""A local cluster gets capacity for executors as large as the script asks for."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ebbflow.cli import submit as module


class Cluster:
    """As much of a local cluster as ``submit`` uses."""

    master_url, web_url, agent_address = "spark://h:1", "http://h:2", "ipc:///agent"
    settings_file = Path("session.conf")

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[int] = []

    def ensure_cores(self, cores: int) -> None:
        self.asked.append(cores)
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("error", [None, OSError("no process can be started")])
def test_the_local_cluster_grows_for_the_scripts_executors_and_scaling_starts_even_if_that_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception | None
) -> None:
    script, cluster, attached = tmp_path / "job.py", Cluster(error), []
    script.write_text("")
    settings = [("spark.executor.cores", "4"), ("spark.app.name", "job")]
    context = SimpleNamespace(getConf=lambda: SimpleNamespace(getAll=lambda: settings))

    def attach(*_: Any, **__: Any) -> Any:
        attached.append(len(cluster.asked))
        raise RuntimeError("not scaled here")

    def run_script(*_: Any, on_session: Any, defaults: Any, **__: Any) -> int:
        assert defaults["spark.executor.cores"] == "1"
        with pytest.raises(RuntimeError, match="not scaled here"):
            on_session(SimpleNamespace(sparkContext=context))
        return 0

    for name in ("check_java", "use_loopback", "use_this_python"):
        monkeypatch.setattr(module, name, lambda: None)
    monkeypatch.setattr(module, "LocalCluster", lambda **_: nullcontext(cluster))
    monkeypatch.setattr(module, "attach", attach)
    monkeypatch.setattr(module, "run_script", run_script)
    assert module.submit(script, executors="1:3") == 0
    assert cluster.asked == [12]
    assert attached == [1], "after the cluster grew, or failed to"
