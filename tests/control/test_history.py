"""The history of a run that is longer than the entries in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_target import FakeTarget, ScriptedStrategy, a_batch

from ebbflow.control.attached import Attached
from ebbflow.control.loop import ControlLoop
from ebbflow.core.clock import ManualClock
from ebbflow.core.limits import Limits
from ebbflow.core.slo import Slo
from ebbflow.errors import TargetGoneError
from ebbflow.monitoring.store import Store


@pytest.fixture
def ran(tmp_path: Path) -> Attached:
    """Sixty decisions, of which every tenth but the first is an act and the last ten are in memory."""
    clock, strategy = ManualClock(100.0), ScriptedStrategy()
    store = Store(tmp_path / "run.sqlite", clock)
    store.append_ledger(50.0, "act", {"reason": "of an earlier run in the same file"})
    target = FakeTarget(clock)
    loop = ControlLoop(
        target=target, strategy=strategy, guards=(), store=store, clock=clock, limits=Limits.parse("1:20"),
        slo=Slo(freshness_s=30.0), remember_decisions=10,
    )  # fmt: skip
    for k in range(60):
        clock.advance(1.0)
        strategy.nodes = 1 + k // 10
        target.show(batches=[a_batch(k)])
        loop.cycle()
    target.error = TargetGoneError("over")
    return Attached(loop, store, store.close)


def test_the_history_has_every_act_and_counts_omitted_holds(ran: Attached) -> None:
    assert len(ran.decisions) == 10
    assert ran.store is not None
    history, rows = ran.history(), ran.store.ledger(verdict="act")[1:]
    assert [entry.to_json() for entry in history.entries if entry.verdict == "act"] == rows
    assert [row["wanted"]["nodes"]["main"] for row in rows] == [2, 3, 4, 5, 6]
    assert ran.reconfigurations == 5
    assert len(history.entries) == 4 + 10
    assert history.left_out == 46
    assert [entry.time_s for entry in history.entries] == sorted(entry.time_s for entry in history.entries)
    ran.stop()


def test_without_the_store_only_old_acts_are_missing(ran: Attached) -> None:
    assert ran.store is not None
    ran.store.close()
    assert len(ran.history().entries) == 10
    assert ran.history().left_out == 50


def test_without_a_loop_the_history_is_empty() -> None:
    history = Attached(None, None, lambda: None).history()
    assert (list(history.entries), history.left_out) == ([], 0)
