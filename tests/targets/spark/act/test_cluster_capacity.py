"""How many more executors a standalone cluster has capacity for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from ebbflow.targets.spark.act import cluster_capacity as module
from ebbflow.targets.spark.act.cluster_capacity import ClusterCapacity
from ebbflow.targets.spark.driver import ExecutorInfo


@dataclass
class FakeDriver:
    """Driver and monitor in one."""

    settings: dict[str, str]
    master: str = "spark://host:7077"
    live_executors: list[ExecutorInfo] = field(
        default_factory=lambda: [ExecutorInfo("0", True, 2, 2, 0, 0, 0, 0, 0, 0)]
    )

    def setting(self, key: str, default: str = "") -> str:
        return self.settings.get(key, default)


def capacity(monkeypatch: pytest.MonkeyPatch, free_cores: int = 100, **settings: Any) -> ClusterCapacity:
    worker = {"state": "ALIVE", "coresfree": free_cores, "memoryfree": 10_000_000}
    monkeypatch.setattr(module, "read_master_state", lambda url, timeout_s: {"workers": [worker]})
    driver: Any = FakeDriver(
        {f"spark.{key.replace('_', '.')}": str(value) for key, value in settings.items()}
    )
    return ClusterCapacity(driver, driver, "http://master")


def test_pending_executors_count_against_cores_max(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limited = capacity(monkeypatch, cores_max=12, executor_cores=2)
    assert limited.fit(4, held=2) == (4, "")
    assert limited.fit(4, held=4) == (2, "spark.cores.max allows 6 executors")
    assert limited.fit(4, held=9) == (0, "spark.cores.max allows 6 executors")


def test_free_cores_are_read_from_the_master(monkeypatch: pytest.MonkeyPatch) -> None:
    fit, why = capacity(monkeypatch, free_cores=5, executor_cores=2).fit(4, held=1)
    assert fit == 2
    assert "5 free cores" in why


def test_other_masters_do_not_limit_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    driver: Any = FakeDriver({"spark.cores.max": "2"}, master="yarn")
    assert ClusterCapacity(driver, driver).fit(4, held=9) == (4, "")
