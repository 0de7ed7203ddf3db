"""How many more executors a standalone cluster has room for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from ebbflow.targets.spark.act import room as module
from ebbflow.targets.spark.act.room import ClusterRoom
from ebbflow.targets.spark.driver import ExecutorInfo


@dataclass
class FakeDriver:
    """Driver and monitor in one."""

    settings: dict[str, str]
    master: str = "spark://host:7077"
    present: list[ExecutorInfo] = field(
        default_factory=lambda: [ExecutorInfo("0", True, 2, 2, 0, 0, 0, 0, 0, 0, 0)]
    )

    def setting(self, key: str, default: str = "") -> str:
        return self.settings.get(key, default)


def room(monkeypatch: pytest.MonkeyPatch, free_cores: int = 100, **settings: Any) -> ClusterRoom:
    worker = {"state": "ALIVE", "coresfree": free_cores, "memoryfree": 10_000_000}
    monkeypatch.setattr(module, "read_master_state", lambda url, timeout_s: {"workers": [worker]})
    driver: Any = FakeDriver(
        {f"spark.{key.replace('_', '.')}": str(value) for key, value in settings.items()}
    )
    return ClusterRoom(driver, driver, "http://master")


def test_what_was_asked_for_counts_against_cores_max_before_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limited = room(monkeypatch, cores_max=12, executor_cores=2)
    assert limited.fits(4, held=2) == (4, "")
    assert limited.fits(4, held=4) == (2, "spark.cores.max allows 6 executors")
    assert limited.fits(4, held=9) == (0, "spark.cores.max allows 6 executors")


def test_free_cores_are_what_the_master_says(monkeypatch: pytest.MonkeyPatch) -> None:
    fit, why = room(monkeypatch, free_cores=5, executor_cores=2).fits(4, held=1)
    assert fit == 2
    assert "5 core(s) free" in why


def test_other_masters_keep_their_room_to_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    driver: Any = FakeDriver({"spark.cores.max": "2"}, master="yarn")
    assert ClusterRoom(driver, driver).fits(4, held=9) == (4, "")
