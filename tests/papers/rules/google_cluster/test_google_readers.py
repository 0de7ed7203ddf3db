"""Files of task events: which rows are read, dropped or rejected, and why."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ebbflow.errors import InputError
from ebbflow.papers.rules.google_cluster.events import TRACE_COLUMNS
from ebbflow.papers.rules.google_cluster.folder import first_time_us, read_part

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
def test_events_with_a_machine_are_read_and_the_others_counted(tmp_path, name) -> None:
    part = read_part(written(tmp_path / name, GOOD, NOWHERE, GOOD.replace("600000001", "600000003")))
    assert part.time_us.tolist() == [600_000_001, 600_000_003]
    assert part.row.tolist() == [0, 2]
    assert part.without_machine_us.tolist() == [600_000_002]
    assert (part.job[0], part.task[0], part.machine[0], part.event[0]) == (42, 3, 17, 1)
    assert (part.cpu[0], part.memory[0], part.disk[0]) == (0.0625, 0.03, 3.815e-05)
    assert part.rejected == ()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("600000001,,42,3,17,1", "6 columns instead of 13"),
        (GOOD.replace("600000001", "soon"), "time 'soon' is not a whole number"),
        (GOOD.replace("600000001", "-5"), "time '-5' is not a whole number of 0 or more"),
        (GOOD.replace("600000001", "5.5"), "time '5.5' is not a whole number of 0 or more"),
        (
            GOOD.replace(",42,", ",9223372036854775808,"),
            "job '9223372036854775808' is too large; the largest",
        ),
        (GOOD.replace(",42,", ",9223372036854775807.5,"), "is not a whole number"),
        (GOOD.replace(",17,", ",-1,"), "machine '-1' is not a whole number of 0 or more"),
        (GOOD.replace("600000001", ""), "no time"),
        (GOOD.replace("600000001", "9223372036854775807"), "after the end of the trace"),
        (GOOD.replace("600000001", "99999999999999999"), "more than a year"),
        (GOOD.replace(",42,", ",x,"), "job 'x' is not a whole number"),
        (GOOD.replace(",17,1,", ",17,9,"), "'9' is not an event type; valid are 0 to 8"),
        (GOOD.replace(",17,1,", ",17,,"), "no event"),
        (GOOD.replace(",17,", ",here,"), "machine 'here' is not a whole number"),
        (GOOD.replace("0.0625", "much"), "cpu 'much' is not a request of 0 or more"),
        (GOOD.replace("0.0625", "-0.5"), "cpu '-0.5' is not a request of 0 or more"),
        (GOOD.replace("0.0625", "nan"), "cpu 'nan' is not a request of 0 or more"),
        (GOOD.replace("0.0625", "inf"), "cpu inf is more than 100; the largest machine has 1"),
        (GOOD.replace("0.0625", "1e999"), "cpu inf is more than 100"),
        (GOOD.replace("0.0625", "10000000"), "cpu 10000000.0 is more than 100"),
        (GOOD.replace("0.03", "100.5"), "memory 100.5 is more than 100"),
        (GOOD.replace("600000001", "9600000001000"), "time is more than 2 days after the rows around it"),
        ("\x00\x01", "1 columns instead of 13"),
    ],
)
def test_an_invalid_row_is_rejected_with_its_reason(tmp_path, line, words) -> None:
    part = read_part(written(tmp_path / "part.csv", GOOD, line, GOOD))
    assert part.row.tolist() == [0, 2]
    (bad,) = part.rejected
    assert (bad.line, bad.text) == (2, line)
    assert words in bad.reason
    assert bad.time_us == 600_000_001


def test_a_file_without_events_is_not_an_error(tmp_path) -> None:
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


def test_a_slice_by_time_has_exactly_the_rows_of_that_time(tmp_path) -> None:
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


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        ("time", ("0600000001", " 600000001\t", "0x23C34601")),
        ("job", ("9223372036854775807", "007", "-0", "0x1F", " 5 ", "000000000000000000000000000042")),
        ("machine", ("9223372036854775807", "0")),
        ("event", ("08", " 8", "0x8")),
        ("cpu", ("100", "5.", ".5", "1E-3", "-0.0", "+0.5", "1e-400", " 0.5 ")),
    ],
)
def test_a_row_is_read_the_same_beside_an_invalid_one(tmp_path, column, texts) -> None:
    for text in texts:
        fields = GOOD.split(",")
        fields[TRACE_COLUMNS.index(column)] = text
        line = ",".join(fields)
        alone = read_part(written(tmp_path / "part.csv", GOOD, line))
        beside = read_part(written(tmp_path / "part.csv", GOOD, line, "no event"))
        assert not alone.rejected, text
        assert [bad.line for bad in beside.rejected] == [3]
        for name in ("time_us", "job", "task", "machine", "event", "cpu", "memory", "disk"):
            assert getattr(alone, name).tolist() == getattr(beside, name).tolist(), text


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_part_begins_with_its_first_valid_event(tmp_path, ending) -> None:
    bad = GOOD.replace("600000001", "77000000000").replace(",17,1,", ",17,9,")
    huge = GOOD.replace("600000001", "88000000000").replace("0.0625", "1e7")
    ahead = GOOD.replace("600000001", "9600000001000")
    first = GOOD.replace("600000001", "600000009")
    for lines in (
        (bad, first),
        (*(huge,) * 50, first),
        (ahead, first, first),
        (*(bad,) * 31, ahead, first, first),
    ):
        path = tmp_path / f"part{ending}"
        (in_parquet if ending == ".parquet" else written)(path, *lines)
        assert first_time_us(path) == 600_000_009
        assert read_part(path).time_us.tolist() == [600_000_009] * lines.count(first)


def test_a_trace_may_pause_for_days(tmp_path) -> None:
    late = GOOD.replace("600000001", "9600000001000")
    part = read_part(written(tmp_path / "part.csv", GOOD, late, late))
    assert part.rejected == ()
    assert first_time_us(written(tmp_path / "one.csv", late)) == 9_600_000_001_000


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_the_last_row_of_a_part_is_checked_against_the_next_part(tmp_path, ending) -> None:
    late = GOOD.replace("600000001", "9600000001000")
    path = (in_parquet if ending == ".parquet" else written)(tmp_path / f"part{ending}", GOOD, late)
    for next_us, rejected in ((None, []), (9_600_000_001_001, []), (600_000_002, [2])):
        part = read_part(path, next_us=next_us)
        assert [bad.line for bad in part.rejected] == rejected
    alone = (in_parquet if ending == ".parquet" else written)(tmp_path / f"one{ending}", late)
    assert first_time_us(alone, 600_000_002) is None
    assert read_part(alone, next_us=600_000_002).last_us is None


def test_line_ends_are_the_same_beside_an_invalid_row(tmp_path) -> None:
    second = GOOD.replace("600000001", "600000002")
    for end in ("\n", "\r\n", "\r", "\r\r\n"):
        path = tmp_path / "part.csv"
        for more in ("", f"bad{end}"):
            path.write_bytes(f"{GOOD}{end}{second}{end}{more}".encode())
            part = read_part(path)
            assert part.time_us.tolist() == [600_000_001, 600_000_002]
            assert [bad.text for bad in part.rejected] == (["bad"] if more else [])
            assert first_time_us(path) == 600_000_001


def test_many_invalid_rows_and_very_long_lines_take_only_seconds(tmp_path) -> None:
    began_s = time.process_time()
    different = (GOOD.replace("600000001", f"x{number}") for number in range(20_000))
    part = read_part(written(tmp_path / "part.csv", *different, *(GOOD.replace("0.0625", "no"),) * 20_000))
    assert time.process_time() - began_s < 3.0, "a cast for each took 5 s"
    assert len(part.rejected) == 40_000
    assert part.rejected[7].reason == "time 'x7' is not a whole number of 0 or more"
    long = GOOD.replace("someone", "y" * 70_000_000)
    assert len(read_part(written(tmp_path / "long.csv", GOOD, long, GOOD)).row) == 3


# -- Parquet -----------------------------------------------------------------------------------------


def in_parquet(path: Path, *lines: str, names: tuple[str, ...] = TRACE_COLUMNS, whole: bool = True) -> Path:
    """The lines as Parquet; a column has numbers if all of its values are."""
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
def test_parquet_is_read_like_csv_whatever_its_column_names(tmp_path, whole) -> None:
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
        (GOOD.replace(",17,1,", ",17,9,"), "'9' is not an event type"),
        (GOOD.replace("0.0625", "-0.5"), "cpu '-0.5' is not a request of 0 or more"),
        (GOOD.replace("600000001", "9223372036854775807"), "after the end of the trace"),
    ],
)
def test_an_invalid_row_of_parquet_is_rejected_with_its_reason(tmp_path, line, words) -> None:
    path = in_parquet(tmp_path / "part.parquet", line, GOOD, line)
    part = read_part(path)
    assert part.row.tolist() == [1]
    assert [bad.line for bad in part.rejected] == [1, 3]
    assert words in part.rejected[0].reason
    assert first_time_us(path) == 600_000_001


def test_parquet_without_task_events_is_an_error(tmp_path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(InputError, match="it has 1 columns; task events have 13"):
        read_part(tmp_path / "other.parquet")
    lists = {name: pa.array([[1]]) for name in TRACE_COLUMNS}
    pq.write_table(pa.table(lists), tmp_path / "lists.parquet")
    with pytest.raises(InputError, match=r"column 1 is the time, a whole number, but has type list"):
        read_part(tmp_path / "lists.parquet")
    (tmp_path / "text.parquet").write_text("no")
    with pytest.raises(InputError, match="cannot read"):
        first_time_us(tmp_path / "text.parquet")


ROWS = 100


def columns_of(path: Path, names: list[str] | None = None, **other: Callable[[Any], Any]) -> Path:
    """A part of a hundred events, 30 s apart, each of another task; ``other`` replaces columns."""
    whole = {
        "time": [600_000_001 + 30_000_000 * row for row in range(ROWS)],
        "job": [42] * ROWS,
        "task": list(range(ROWS)),
        "machine": [4_155_527_081 + row % 3 for row in range(ROWS)],
        "event": [1] * ROWS,
    }
    columns: dict[str, Any] = {name: pa.array([0] * ROWS) for name in TRACE_COLUMNS}
    columns |= {name: pa.array(values) for name, values in whole.items()}
    columns |= {name: pa.array([0.1] * ROWS) for name in ("cpu", "memory", "disk")}
    columns |= {name: change(columns[name]) for name, change in other.items()}
    pq.write_table(pa.table(list(columns.values()), names=names or list(columns)), path)
    return path


def with_one(value: Any) -> Callable[[Any], Any]:
    """As floats, with another value in the middle."""
    return lambda column: pa.array([*column.to_pylist()[:50], value, *column.to_pylist()[51:]], pa.float64())


@pytest.mark.parametrize(
    ("column", "change", "kind"),
    [
        ("time", lambda c: c.cast(pa.timestamp("us")), r"column 1 is the time, a whole number, but has type timestamp"),
        ("time", lambda c: c.cast(pa.duration("us")), r"but has type duration\[us\]; write it as integers"),
        ("time", lambda c: c.cast(pa.decimal128(22, 2)), r"but has type decimal128\(22, 2\)"),
        ("machine", lambda c: c.cast(pa.float32(), safe=False), "column 5 is the machine, .* but has type float"),
        ("event", lambda c: pa.array([True] * ROWS), "column 6 is the event, a whole number, but has type bool"),
        ("cpu", lambda c: pa.array([True] * ROWS), "column 10 is the cpu, a number, but has type bool; .* floats"),
    ],
)  # fmt: skip
def test_a_parquet_column_of_the_wrong_type_is_an_error_that_names_it(tmp_path, column, change, kind) -> None:
    path = columns_of(tmp_path / "part.parquet", **{column: change})
    for read in (read_part, first_time_us):
        with pytest.raises(InputError, match=rf"cannot read .*part\.parquet: .*{kind}"):
            read(path)


@pytest.mark.parametrize(
    ("column", "change", "rejected"),
    [
        ("time", lambda c: c.cast(pa.float64()), 0),
        ("time", with_one(600_000_001.5), 1),
        ("machine", with_one(17.5), 1),
        ("machine", with_one(float("nan")), 1),
        ("machine", with_one(None), 0),
        ("machine", lambda c: c.cast(pa.decimal128(20, 0)), 0),
        ("machine", lambda c: c.cast(pa.uint64()), 0),
        ("job", lambda c: c.cast(pa.large_string()), 0),
        ("job", lambda c: c.cast(pa.string()).dictionary_encode(), 0),
        ("job", lambda c: c.dictionary_encode(), 0),
        ("job", lambda c: pa.array([b"\xff", *[b"42"] * (ROWS - 1)]), 1),
        ("job", lambda c: pa.array(["42\n", *["42"] * (ROWS - 1)]), 1),
        ("event", lambda c: c.cast(pa.int8()), 0),
        ("event", lambda c: pa.array([1] * 50 + [300] + [1] * 49), 1),
        ("cpu", lambda c: c.cast(pa.float32()), 0),
        ("cpu", lambda c: pa.array([Decimal("0.1")] * ROWS), 0),
        ("cpu", lambda c: pa.array([1] * ROWS), 0),
        ("missing_info", lambda c: pa.array([True] * ROWS), 0),
    ],
)  # fmt: skip
def test_a_row_of_parquet_is_read_the_same_alone_at_the_beginning_and_beside_an_invalid_one(
    tmp_path, column, change, rejected
) -> None:
    """Read in one go, as the first rows, and line by line."""
    path = columns_of(tmp_path / "part.parquet", **{column: change})
    whole = read_part(path)
    assert len(whole.row) + len(whole.without_machine_us) == ROWS - rejected
    assert len(whole.rejected) == rejected
    assert first_time_us(path) == min(whole.time_us)
    bad = columns_of(
        tmp_path / "bad.parquet", **{column: change, "task": lambda c: pa.array([*range(ROWS - 1), -1])}
    )
    beside = read_part(bad)
    assert len(beside.rejected) == rejected + 1
    for name in ("row", "time_us", "job", "task", "machine", "event", "cpu", "memory", "disk"):
        assert getattr(whole, name)[:-1].tolist() == getattr(beside, name).tolist()
    assert first_time_us(bad) == first_time_us(path)


@pytest.mark.parametrize("names", [["a"] * 13, ["a", *(f"a.{i}" for i in range(12))]])
def test_names_of_parquet_columns_need_not_be_unique(tmp_path, names) -> None:
    path = columns_of(tmp_path / "part.parquet", names)
    assert read_part(path).task.tolist() == list(range(ROWS))
    assert first_time_us(path) == 600_000_001
