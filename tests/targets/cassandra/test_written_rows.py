"""What was written is what must be read: the negative controls of the check, and the open loop's response times."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebbflow.errors import InputError
from ebbflow.targets.cassandra.load.response import Responses
from ebbflow.targets.cassandra.load.rows import COLUMNS, check_keyspace, fields_of, key_of
from ebbflow.targets.cassandra.load.written import ACKNOWLEDGED, SENT, WriteLog, Written, judge

OLD, NEW, NEWER = 1_000, 2_000, 3_000


def row(version: int, **changes: str) -> dict[str, str]:
    key = key_of(1)
    return {"key": key, **dict(zip(COLUMNS, fields_of(key, version), strict=True)), **changes}


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        (row(NEW), ""),
        (row(NEWER), ""),  # sent, not acknowledged: it may be there
        (None, "lost"),
        (row(OLD), "stale"),
        (row(NEWER + 1), "damaged"),  # nobody wrote it
        (row(NEW, field7="x" * 20), "damaged"),
        (row(NEW, field1="not a version"), "damaged"),
        ({**row(NEW), "key": key_of(2)}, "damaged"),
    ],
)
def test_a_row_is_judged_by_what_was_acknowledged_and_sent(found: dict[str, str] | None, wrong: str) -> None:
    assert judge(found, acknowledged=NEW, sent=NEWER) == wrong


def test_the_files_of_all_processes_count_and_a_cut_line_does_not(tmp_path: Path) -> None:
    logs = [WriteLog(tmp_path / name) for name in ("0", "1")]
    logs[0].add(SENT, 1, NEW)
    logs[0].add(ACKNOWLEDGED, 1, NEW)
    logs[1].add(SENT, 1, NEWER)
    for each in logs:
        each.close()
    with (tmp_path / "1").open("a") as file:
        file.write("a 1 30")
    written = Written()
    written.fill(range(3), OLD)
    for name in ("0", "1"):
        written.read(tmp_path / name)
    assert written.acknowledged == {0: OLD, 1: NEW, 2: OLD}
    assert written.sent == {1: NEWER}


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("hello world\n")
    with pytest.raises(InputError, match="line 1 is not a line of a load generator"):
        Written().read(tmp_path / "a")


@pytest.mark.parametrize("name", ["Orders", "a-b", "a; DROP", "", "1a"])
def test_a_keyspace_that_would_need_quotes_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="is not a keyspace name"):
        check_keyspace(name)


def test_histograms_of_processes_add_up() -> None:
    one, other, both = Responses(), Responses(), Responses()
    for ms in range(1, 1001):
        (one if ms % 3 else other).add(ms / 1000)
        both.add(ms / 1000)
    one.merge(Responses.of_message(other.to_message()))
    assert one.count == 1000
    assert one.mean_s == pytest.approx(both.mean_s)
    assert one.deviation_s == pytest.approx(0.2887, rel=0.01)
    for share in (0.5, 0.95, 0.99):
        assert one.quantile_s(share) == both.quantile_s(share) == pytest.approx(share, rel=0.03)
