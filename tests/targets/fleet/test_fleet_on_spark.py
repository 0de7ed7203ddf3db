"""Two real hosts: queries move between them under load, exactly once; a start that fails is rolled back."""

from __future__ import annotations

import threading

import pytest
from fleet_rows import Feeder, account_of_copies, account_of_counts, rows_of, write_fleet

from ebbflow.control.fleet import FleetController, shut_down
from ebbflow.core.clock import SystemClock
from ebbflow.core.slo import Slo
from ebbflow.monitoring.store import Store
from ebbflow.strategies.static import Static
from ebbflow.targets.fleet.dispatch import request_move
from ebbflow.targets.fleet.file import load_fleet

pytestmark = pytest.mark.spark


def test_queries_move_between_applications_and_every_row_is_counted_once(tmp_path, wait) -> None:
    fleet = load_fleet(write_fleet(tmp_path))
    feeder = Feeder(fleet.streams["numbers"].folder)
    controller = FleetController(
        fleet, strategy=Static(), guards=(), slo=Slo.parse("freshness p95 <= 30s"), cycle_s=0.5
    )
    thread = threading.Thread(target=controller.run, daemon=True)
    thread.start()
    coordination = controller.coordination

    def move(query: str, application: str) -> None:
        request_move(fleet, coordination, query, application, SystemClock().now_s())
        wait(lambda: not coordination.record(query).is_moving, f"{query} to move", 60.0)

    try:
        wait(lambda: rows_of(fleet.streams["counts"].folder), "the first counts", 120.0)
        wait(lambda: rows_of(fleet.streams["copies"].folder), "the first copies", 60.0)
        for application in ("right", "left"):
            move("count", application)
            assert coordination.record("count").application == application
        (tmp_path / "broken").write_text("left")
        move("copy", "left")
        record = coordination.record("copy")
        assert record.application == "right", "it comes back when it cannot start elsewhere"
        assert "this application lacks a table" in record.why
        fed = feeder.stop()
        counts, copies = fleet.streams["counts"].folder, fleet.streams["copies"].folder
        wait(lambda: account_of_counts(counts, fed).lost == 0, "every row to be counted", 60.0)
        wait(lambda: account_of_copies(copies, fed).lost == 0, "every row to be copied", 60.0)
        notes = lambda: [e for e in Store.read_ledger(fleet.store) if "down_s" in e["inputs"]]  # noqa: E731
        wait(lambda: len(notes()) >= 3, "the moves to be in the ledger", 20.0)
    finally:
        feeder.stop()
        assert shut_down(fleet, SystemClock()) == []
        thread.join(20.0)
        controller.close()
    assert account_of_counts(counts, fed).exact
    assert account_of_copies(copies, fed).exact
    by_operator = [(e["inputs"]["operator"], e["inputs"].get("given_up") is None) for e in notes()]
    assert by_operator == [("count", True), ("count", True), ("copy", False)]
    assert all(0 < e["inputs"]["down_s"] < 60 for e in notes()), [e["inputs"] for e in notes()]


@pytest.mark.parametrize(("seeded", "lost", "repeated"), [("loss", 1, 0), ("repeat", 0, 1), ("none", 0, 0)])
def test_the_accounting_detects_a_seeded_loss_and_a_seeded_repeat(tmp_path, seeded, lost, repeated) -> None:
    """The negative control of the accounting, on a stream as Spark's file sink writes it."""
    rows = list(range(20)) + ([5] if seeded == "repeat" else [])
    if seeded == "loss":
        rows.remove(5)
    for name, lines in {
        "copies": [f'{{"row": {row}}}' for row in rows],
        "counts": [
            f'{{"key": {k}, "rows": {len(own)}, "total": {sum(own)}}}'
            for k in range(7)
            for own in [[row for row in rows if row % 7 == k]]
        ],
    }.items():
        log = tmp_path / name / "_spark_metadata"
        log.mkdir(parents=True)
        (tmp_path / name / "part-0.json").write_text("\n".join(lines))
        (tmp_path / name / "part-uncommitted.json").write_text(lines[0])
        (log / "0").write_text(f'v1\n{{"path":"file://{tmp_path}/{name}/part-0.json","size":1}}')
    for account in (account_of_copies(tmp_path / "copies", 20), account_of_counts(tmp_path / "counts", 20)):
        assert (account.lost, account.repeated) == (lost, repeated)
