"""Files of task events: what is read, what is dropped, what is kept aside and why."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ebbflow.errors import InputError
from ebbflow.workloads.google_cluster.events import COLUMNS
from ebbflow.workloads.google_cluster.part import first_time_us, read_part

GOOD = "600000001,,42,3,17,1,someone,2,9,0.0625,0.03,3.815e-05,0"
NOWHERE = "600000002,,42,4,,0,someone,2,9,0.0625,,,0"


def written(path: Path, *lines: str) -> Path:
    text = "".join(f"{line}\n" for line in lines)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["part.csv", "part.csv.gz"])
def test_events_with_a_machine_are_kept_and_the_others_counted(tmp_path, name) -> None:
    part = read_part(written(tmp_path / name, GOOD, NOWHERE, GOOD.replace("600000001", "600000003")))
    assert part.time_us.tolist() == [600_000_001, 600_000_003]
    assert part.row.tolist() == [0, 2]
    assert part.elsewhere_us.tolist() == [600_000_002]
    assert (part.job[0], part.task[0], part.machine[0], part.event[0]) == (42, 3, 17, 1)
    assert (part.cpu[0], part.memory[0], part.disk[0]) == (0.0625, 0.03, 3.815e-05)
    assert part.rejected == ()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("600000001,,42,3,17,1", "6 columns instead of 13"),
        (GOOD.replace("600000001", "soon"), "time 'soon' is not a whole number"),
        (GOOD.replace("600000001", "-5"), "time '-5' is not a whole number"),
        (GOOD.replace("600000001", ""), "no time"),
        (GOOD.replace("600000001", "9223372036854775807"), "after the end of the trace"),
        (GOOD.replace("600000001", "99999999999999999"), "more than a year"),
        (GOOD.replace(",42,", ",x,"), "job 'x' is not a whole number"),
        (GOOD.replace(",17,1,", ",17,9,"), "'9' is no event type; they are 0 to 8"),
        (GOOD.replace(",17,1,", ",17,,"), "no event"),
        (GOOD.replace(",17,", ",here,"), "machine 'here' is not a whole number"),
        (GOOD.replace("0.0625", "much"), "cpu 'much' is not a request of 0 or more"),
        (GOOD.replace("0.0625", "-0.5"), "cpu '-0.5' is not a request of 0 or more"),
        (GOOD.replace("0.0625", "nan"), "cpu 'nan' is not a request of 0 or more"),
        (GOOD.replace("0.0625", "1e999"), "endless request"),
        ("\x00\x01", "1 columns instead of 13"),
    ],
)
def test_a_row_that_is_no_event_is_kept_aside_with_its_reason(tmp_path, line, words) -> None:
    part = read_part(written(tmp_path / "part.csv", GOOD, line, GOOD))
    assert part.row.tolist() == [0, 2]
    (bad,) = part.rejected
    assert (bad.line, bad.text) == (2, line)
    assert words in bad.reason
    assert bad.time_us == 600_000_001


def test_a_file_without_events_is_no_error(tmp_path) -> None:
    assert read_part(written(tmp_path / "empty.csv")).last_us is None
    nothing = read_part(written(tmp_path / "bad.csv", "hello", "world"))
    assert [bad.line for bad in nothing.rejected] == [1, 2]
    assert nothing.last_us is None
    assert first_time_us(tmp_path / "bad.csv") is None


def test_time_never_goes_back_and_stays_within_the_bounds(tmp_path) -> None:
    times = ("700", "600", "800", "900", "1000")
    path = written(tmp_path / "part.csv", *(GOOD.replace("600000001", time) for time in times))
    assert read_part(path).time_us.tolist() == [700, 700, 800, 900, 1000]
    assert read_part(path, 750, 900).time_us.tolist() == [750, 750, 800, 900, 900]


def test_a_slice_by_time_takes_what_is_in_it_and_nothing_else(tmp_path) -> None:
    lines = [GOOD.replace("600000001", str(time)) for time in (1, 2, 2, 3)]
    part = read_part(written(tmp_path / "part.csv", *lines[:2], "bad", *lines[2:]))
    cut = part.between(2, 3)
    assert cut.row.tolist() == [1, 3]
    assert [bad.line for bad in cut.rejected] == [3]
    assert part.between(3, 10).row.tolist() == [4]


def test_a_broken_archive_is_an_error_that_names_the_file(tmp_path) -> None:
    path = tmp_path / "part.csv.gz"
    path.write_bytes(gzip.compress((GOOD + "\n").encode() * 5000)[:-20])
    with pytest.raises(InputError, match=r"part\.csv\.gz"):
        read_part(path)


# -- Parquet -----------------------------------------------------------------------------------------


def in_parquet(path: Path, *lines: str, names: tuple[str, ...] = COLUMNS, whole: bool = True) -> Path:
    """The lines as Parquet, of numbers as far as all of a column are."""
    columns = []
    for values in zip(*(line.split(",") for line in lines), strict=True):
        texts = pd.Series([value or None for value in values])
        numbers = pd.to_numeric(texts, errors="coerce")
        is_number = (numbers.notna() == texts.notna()).all()
        kind = pd.Int64Dtype() if whole and not any("." in v or "e" in v for v in values) else "float64"
        columns.append(pa.Array.from_pandas(numbers.astype(kind) if is_number else texts))
    pq.write_table(pa.table(columns, names=list(names)), path)
    return path


@pytest.mark.parametrize("whole", [True, False])
def test_parquet_is_read_as_csv_is_whatever_its_columns_are_called(tmp_path, whole) -> None:
    lines = (GOOD, NOWHERE, GOOD.replace("600000001", "600000003"))
    names = tuple(f"_c{i}" for i in range(13))
    path = in_parquet(tmp_path / "part.parquet", *lines, names=names, whole=whole)
    found, expected = read_part(path), read_part(written(tmp_path / "part.csv", *lines))
    for name in vars(expected):
        assert list(getattr(found, name)) == list(getattr(expected, name))
    assert first_time_us(path) == 600_000_001


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (GOOD.replace("600000001", ""), "no time"),
        (GOOD.replace("600000001", "soon"), "time 'soon' is not a whole number"),
        (GOOD.replace(",17,1,", ",17,9,"), "'9' is no event type"),
        (GOOD.replace("0.0625", "-0.5"), "cpu '-0.5' is not a request of 0 or more"),
        (GOOD.replace("600000001", "9223372036854775807"), "after the end of the trace"),
    ],
)
def test_a_row_of_parquet_that_is_no_event_is_kept_aside_with_its_reason(tmp_path, line, words) -> None:
    path = in_parquet(tmp_path / "part.parquet", line, GOOD, line)
    part = read_part(path)
    assert part.row.tolist() == [1]
    assert [bad.line for bad in part.rejected] == [1, 3]
    assert words in part.rejected[0].reason
    assert first_time_us(path) == 600_000_001


def test_parquet_that_holds_no_task_events_is_told(tmp_path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(InputError, match="it has 1 columns; task events have 13"):
        read_part(tmp_path / "other.parquet")
    lists = {name: pa.array([[1]]) for name in COLUMNS}
    pq.write_table(pa.table(lists), tmp_path / "lists.parquet")
    with pytest.raises(InputError, match=r"column 1 is the time, a number; here it is list"):
        read_part(tmp_path / "lists.parquet")
    (tmp_path / "text.parquet").write_text("no")
    with pytest.raises(InputError, match="cannot read"):
        first_time_us(tmp_path / "text.parquet")
