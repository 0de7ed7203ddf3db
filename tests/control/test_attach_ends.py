"""The attached job continues, even if Ebbflow fails."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_target import FakeTarget, ScriptedStrategy

from ebbflow.control import attach as module
from ebbflow.control.attached import Attached
from ebbflow.core.clock import SystemClock
from ebbflow.errors import StoreError, TargetError

Attach = Callable[..., Attached]


@pytest.fixture
def closed() -> list[str]:
    return []


@pytest.fixture
def attach(monkeypatch: pytest.MonkeyPatch, closed: list[str]) -> Attach:
    """``attach`` to an application without Spark."""

    class Target(FakeTarget):
        def close(self) -> None:
            closed.append("target")

    monkeypatch.setattr("ebbflow.targets.spark.target.SparkTarget", lambda *_, **__: Target(SystemClock(), 1))  # type: ignore[arg-type]
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(applicationId="app-ends"))
    return lambda **how: module.attach(session, strategy=ScriptedStrategy(), **how)


def fail(*_: Any, **__: Any) -> None:
    raise StoreError("store run.sqlite: database or disk is full")


def test_a_disk_that_is_full_at_the_end_is_logged_and_not_raised(
    attach: Attach, closed: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    attached = attach()
    assert attached.store is not None
    folder = attached.store.path.parent
    assert folder.exists()
    monkeypatch.setattr(attached.store, "flush", fail)
    with caplog.at_level(logging.WARNING):
        attached.stop()
    assert "disk is full" in caplog.text
    assert closed == ["target"]
    assert not folder.exists(), "the temporary store is removed all the same"
    attached.stop()
    assert closed == ["target"], "closed only once"


def test_an_internal_error_at_the_end_is_logged_and_not_raised(
    attach: Attach, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    attached = attach()
    monkeypatch.setattr(attached, "_close", lambda: {}["missing"])
    attached.stop()
    assert "the job is not affected" in caplog.text


def test_a_second_attach_takes_over_from_the_first(attach: Attach) -> None:
    first = attach()
    second = attach()
    assert (first.active, second.active) == (False, True)
    second.stop()


@pytest.mark.parametrize("what", ["target", "store", "terms"])
def test_a_second_attach_that_fails_leaves_the_first_running(
    attach: Attach, closed: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str
) -> None:
    first = attach()
    with monkeypatch.context() as patched:
        if what == "target":

            def refuse(*_: Any, **__: Any) -> None:
                raise TargetError("there is no driver")

            patched.setattr("ebbflow.targets.spark.target.SparkTarget", refuse)
        elif what == "store":
            patched.setattr(module, "Store", fail)
        else:
            patched.setattr(module.Store, "begin_run", fail)
        second = attach(store=tmp_path / "run.sqlite")
    assert (first.active, second.active) == (True, False)
    assert closed == ([] if what == "target" else ["target"]), "the second closes what it opened"
    first.stop()
