"""Guard times continue after a restart, from the acts in the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbflow.control.policy_file import PolicyInForce, recall_acts
from ebbflow.core.clock import ManualClock
from ebbflow.core.decision import Decision, LedgerEntry, Outcome
from ebbflow.core.layout import Layout
from ebbflow.monitoring.store import Store
from ebbflow.policy.model import NODES, Policy


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    kept = Store(tmp_path / "run.sqlite", ManualClock(1000.0))
    yield kept
    kept.close()


def act(store: Store, time_s: float, before: Layout, after: Layout) -> None:
    entry = LedgerEntry(
        entry_id=0,
        time_s=time_s,
        strategy="rules",
        verdict="act",
        before=before,
        decision=Decision(wanted=after, reason="r"),
        outcome=Outcome(requested=after),
    )
    store.append_ledger(time_s, "act", entry.to_json())


def test_the_last_changes_of_each_size_are_recalled(store: Store) -> None:
    act(store, 900.0, Layout.of(2, enrich=1), Layout.of(3, enrich=2))
    act(store, 950.0, Layout.of(3, enrich=2), Layout.of(4, enrich=2))
    act(store, 960.0, Layout.of(4, enrich=2), Layout.of(4, enrich=1))
    policy = PolicyInForce(Policy())
    recall_acts(policy, store, now_s=1000.0)
    sizes = policy.rules._sizes
    assert sizes.last_out_s == {NODES: 950.0, "enrich": 900.0}
    assert sizes.last_in_s == {"enrich": 960.0}


def test_an_act_from_before_the_clock_was_set_back_counts_as_just_done(store: Store) -> None:
    act(store, 900.0, Layout.of(2), Layout.of(3))
    act(store, 5000.0, Layout.of(3), Layout.of(4))
    policy = PolicyInForce(Policy())
    recall_acts(policy, store, now_s=1000.0)
    assert policy.rules._sizes.last_out_s == {NODES: 1000.0}


def test_an_unreadable_ledger_is_reported_and_recalls_nothing(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.append_ledger(900.0, "act", {"reason": "of another version"})
    policy = PolicyInForce(Policy())
    recall_acts(policy, store, now_s=1000.0)
    assert policy.rules._sizes.last_out_s == {}
    assert "guard times restart" in caplog.text
