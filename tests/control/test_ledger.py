"""The ledger: acts and holds, what was expected and what was achieved."""

from __future__ import annotations

from ebbflow.control.ledger import ACT, HOLD, Ledger
from ebbflow.core.decision import Decision, Effect, Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading, Windows
from ebbflow.monitoring.store import MemoryStore


def decision(nodes: int, expected_at_s: float | None = None) -> Decision:
    effect = expected_at_s and Effect(metric=Metric.FRESHNESS, value=3.0, at_s=expected_at_s)
    return Decision(wanted=Layout.of(nodes), reason="r", expected=effect or None)


def freshness(*points: tuple[float, float]) -> Windows:
    windows = Windows()
    windows.add(Reading(t, "words", Metric.FRESHNESS, v) for t, v in points)
    return windows


def test_a_decision_that_changes_the_layout_is_an_act_and_any_other_a_hold() -> None:
    ledger = Ledger(MemoryStore(keep=True))
    assert ledger.open(1.0, "s", Layout.of(2), decision(3)).verdict == ACT
    assert ledger.open(2.0, "s", Layout.of(2), decision(2)).verdict == HOLD


def test_only_granted_changes_are_reconfigurations() -> None:
    ledger = Ledger(MemoryStore(keep=True))
    entry = ledger.open(1.0, "s", Layout.of(2), decision(3))
    ledger.close(entry, Outcome(requested=Layout.of(2), infeasible_nodes=1, note="no free cores"))
    assert ledger.reconfigurations == 0
    ledger.close(ledger.open(2.0, "s", Layout.of(2), decision(3)), Outcome(requested=Layout.of(3)))
    assert ledger.reconfigurations == 1


def test_another_parallelism_is_an_act_as_well() -> None:
    ledger = Ledger(MemoryStore(keep=True))
    wish = Decision(wanted=Layout.of(2, split=8), reason="r")
    assert ledger.open(1.0, "s", Layout.of(2, split=4), wish).verdict == ACT


def test_an_entry_is_in_the_store_as_soon_as_it_is_open() -> None:
    store = MemoryStore(keep=True)
    entry = Ledger(store).open(1.0, "s", Layout.of(2), decision(3))
    assert entry.entry_id == 1
    assert store.ledger()[0]["wanted"]["nodes"] == {"main": 3}
    assert store.ledger()[0]["outcome"] is None


def test_the_outcome_is_written_beside_the_decision() -> None:
    store = MemoryStore(keep=True)
    ledger = Ledger(store)
    entry = ledger.open(1.0, "s", Layout.of(2), decision(4))
    ledger.close(entry, Outcome(requested=Layout.of(3), infeasible_nodes=1, note="no free cores"))
    assert store.ledger()[0]["outcome"] == {
        "requested": {"nodes": {"main": 3}, "parallelism": {}, "placement": {}},
        "infeasible_nodes": 1,
        "note": "no free cores",
    }
    assert ledger.last is not None
    assert ledger.last.outcome is not None


def test_the_measured_effect_is_the_first_reading_at_or_after_the_expected_time() -> None:
    store = MemoryStore(keep=True)
    ledger = Ledger(store)
    entry = ledger.open(1.0, "s", Layout.of(2), decision(3, expected_at_s=20.0))
    ledger.close(entry, Outcome(requested=Layout.of(3)))
    assert ledger.settle(19.0, "words", freshness((5.0, 50.0), (19.0, 19.0))) == []
    assert store.ledger()[0]["achieved"] is None
    settled = ledger.settle(22.0, "words", freshness((19.0, 19.0), (20.0, 4.5), (21.0, 9.9)))
    assert [e.achieved for e in settled] == [4.5]
    assert store.ledger()[0]["achieved"] == 4.5
    assert store.ledger()[0]["outcome"] is not None  # settling takes nothing away
    assert ledger.entries[0].achieved == 4.5


def test_an_entry_is_settled_once() -> None:
    ledger = Ledger(MemoryStore(keep=True))
    ledger.open(1.0, "s", Layout.of(2), decision(3, expected_at_s=20.0))
    windows = freshness((20.0, 4.5))
    assert len(ledger.settle(21.0, "words", windows)) == 1
    assert ledger.settle(22.0, "words", windows) == []


def test_the_effect_of_a_hold_is_measured_too() -> None:
    store = MemoryStore(keep=True)
    ledger = Ledger(store)
    ledger.open(1.0, "s", Layout.of(2), decision(2, expected_at_s=20.0))
    ledger.settle(21.0, "words", freshness((20.5, 4.5)))
    assert store.ledger()[0]["achieved"] == 4.5


def test_each_entry_gets_its_own_effect_in_any_order() -> None:
    store = MemoryStore(keep=True)
    ledger = Ledger(store)
    ledger.open(1.0, "s", Layout.of(2), decision(3, expected_at_s=40.0))
    ledger.open(2.0, "s", Layout.of(3), decision(4, expected_at_s=20.0))
    ledger.settle(41.0, "words", freshness((21.0, 2.1), (41.0, 4.1)))
    assert [row["achieved"] for row in store.ledger()] == [4.1, 2.1]


def test_an_effect_never_measured_stays_unknown() -> None:
    store = MemoryStore(keep=True)
    ledger = Ledger(store)
    ledger.open(1.0, "s", Layout.of(2), decision(3, expected_at_s=20.0))
    assert ledger.settle(1e6, "words", Windows()) == []
    assert ledger.settle(1e6 + 1, "words", freshness((1e6, 5.0))) == []
    assert store.ledger()[0]["achieved"] is None


def test_a_reading_long_after_the_expected_time_is_not_the_effect() -> None:
    store = MemoryStore(keep=True)
    ledger = Ledger(store)
    ledger.open(1.0, "s", Layout.of(2), decision(2, expected_at_s=20.0))
    ledger.open(2.0, "s", Layout.of(2), decision(2, expected_at_s=21.0))
    settled = ledger.settle(80.0, "words", freshness((51.0, 4.5)), within_s=30.0)
    assert [(entry.time_s, entry.achieved) for entry in settled] == [(2.0, 4.5)]
    assert [row["achieved"] for row in store.ledger()] == [None, 4.5]
    assert ledger.settle(81.0, "words", freshness((20.5, 3.0)), within_s=30.0) == [], "nor is it waited for"


def test_effects_due_together_are_written_together() -> None:
    store = MemoryStore(keep=True)
    ledger = Ledger(store)
    for k in range(50):
        ledger.open(float(k), "s", Layout.of(2), decision(2, expected_at_s=60.0 + k))
    settled = ledger.settle(120.0, "words", freshness((112.0, 4.5)))
    assert len(settled) == 50
    assert store.amendments == 1
    assert all(row["achieved"] == 4.5 for row in store.ledger())
    assert all(entry.achieved == 4.5 for entry in ledger.entries)


def test_settling_an_entry_no_longer_in_memory_keeps_its_outcome() -> None:
    store = MemoryStore(keep=True)
    ledger = Ledger(store, keep=2)
    entry = ledger.open(1.0, "s", Layout.of(2), decision(3, expected_at_s=20.0))
    ledger.close(entry, Outcome(requested=Layout.of(3)))
    for t in range(2, 8):
        ledger.open(float(t), "s", Layout.of(3), decision(3))
    ledger.settle(21.0, "words", freshness((20.0, 4.5)))
    assert store.ledger()[0]["achieved"] == 4.5
    assert store.ledger()[0]["outcome"] is not None
    assert len(ledger.entries) == 2
