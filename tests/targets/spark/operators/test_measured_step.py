"""A measured Python step gives the same result as without measuring, and its measures."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql.conversion import ArrowBatchTransformer, PandasToArrowConversion
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from pyspark.worker import verify_pandas_result

from ebbflow.targets.spark.operators import measured_step
from ebbflow.targets.spark.operators.measured_step import MEASURE
from ebbflow.targets.spark.operators.operator import _with_measures

ZONE = "America/Los_Angeles"
ROW = StructType().add("row", LongType())
COLUMNS = (
    StructType()
    .add("row", LongType())
    .add("at", TimestampType())
    .add("local", TimestampNTZType())
    .add("day", DateType())
    .add("price", DecimalType(10, 2))
    .add("word", StringType())
    .add("raw", BinaryType())
    .add("flag", BooleanType())
    .add("some", ArrayType(IntegerType()))
    .add("pair", StructType().add("a", IntegerType()).add("b", StringType()))
)
Frames = Iterator[pd.DataFrame]


def batches() -> list[pa.RecordBatch]:
    """Two batches as Spark sends them: the rows as one struct, timestamps in the session's time zone."""
    schema = to_arrow_schema(COLUMNS, timezone=ZONE)
    summer, winter = dt.datetime(2026, 7, 1, 12, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    local = dt.datetime(2026, 3, 8, 2, 30)  # noqa: DTZ001
    full: list[Any] = [
        1, summer, local, dt.date(2026, 1, 2), Decimal("1.50"), "a", b"\x00", True, [1, 2], {"a": 1, "b": "x"},
    ]  # fmt: skip
    rows = [[full, [2, winter, *full[2:]]], [[3, *[None] * 9]]]
    made = []
    for each in rows:
        columns = [pa.array([row[i] for row in each], type=field.type) for i, field in enumerate(schema)]
        struct = pa.StructArray.from_arrays(columns, fields=list(schema))
        made.append(pa.RecordBatch.from_arrays([struct], ["_0"]))
    return made


def by_spark(function: Callable[[Frames], Any], schema: StructType) -> list[pa.RecordBatch]:
    """What Spark's worker does with a ``mapInPandas`` function (``worker.py``)."""
    frames = (
        ArrowBatchTransformer.to_pandas(batch, timezone=ZONE, df_for_struct=True)[0] for batch in batches()
    )
    out = []
    for frame in function(frames):
        verify_pandas_result(frame, schema, assign_cols_by_name=True, truncate_return_schema=True)
        whole = StructType([StructField("_0", schema)])
        converted = PandasToArrowConversion.convert(
            [frame], whole, timezone=ZONE, arrow_cast=True, assign_cols_by_name=True
        )
        out.append(ArrowBatchTransformer.flatten_struct(converted))
    return out


def plain(function: Callable[[Frames], Any], columns: StructType) -> list[dict[str, Any]]:
    out = by_spark(function, columns)
    return [row for batch in out for row in batch.to_pylist()]


def named(function: Callable[[Frames], Any], columns: StructType) -> tuple[list[dict[str, Any]], list[float]]:
    """The rows of the result, and the measures: rows in, rows out, CPU seconds."""
    width = len(columns.fields)
    out = by_spark(lambda f: measured_step.over_pandas(function, f, width), _with_measures(columns))
    rows = [row for batch in out for row in batch.to_pylist()]
    measures = [row.pop(MEASURE) for row in rows]
    kept = [row for row, measure in zip(rows, measures, strict=True) if measure is None]
    return kept, [measure for measure in measures if measure is not None]


def as_it_is(frames: Frames) -> Frames:
    yield from frames


def an_hour_later(frames: Frames) -> Frames:
    for frame in frames:
        yield frame.assign(at=frame["at"] + pd.Timedelta("1h"))


def turned_round(frames: Frames) -> Frames:
    for frame in frames:
        yield frame[list(reversed(frame.columns))]


def in_a_category(frames: Frames) -> Frames:
    for frame in frames:
        yield frame.assign(word=frame["word"].astype("category"))


def with_more_columns(frames: Frames) -> Frames:
    for frame in frames:
        yield frame.assign(more=1, still_more=2)


def without_names(frames: Frames) -> Frames:
    for frame in frames:
        yield pd.DataFrame(frame.to_numpy())


@pytest.mark.parametrize(
    "function", [as_it_is, an_hour_later, turned_round, in_a_category, with_more_columns, without_names]
)
def test_the_result_is_that_of_spark_alone(function: Callable[[Frames], Any]) -> None:
    rows, measures = named(function, COLUMNS)
    assert rows == plain(function, COLUMNS)
    assert [row["row"] for row in rows] == [1, 2, 3]
    rows_in, rows_out, cpu_s = measures
    assert (rows_in, rows_out) == (3.0, 3.0)
    assert cpu_s >= 0


def test_timestamps_are_converted_to_and_from_the_time_zone_of_the_session() -> None:
    frames_in: list[pd.DataFrame] = []

    def keep(frames: Frames) -> Frames:
        for frame in frames:
            frames_in.append(frame)
            yield frame

    rows, _ = named(keep, COLUMNS)
    assert str(frames_in[0].dtypes["at"]) == "datetime64[ns]", "without a time zone, as in Spark"
    assert frames_in[0]["at"].tolist() == [pd.Timestamp("2026-07-01 05:00"), pd.Timestamp("2026-01-01 04:00")]
    assert rows[0]["at"] == dt.datetime(2026, 7, 1, 12, tzinfo=dt.UTC)
    assert rows[0]["local"] == dt.datetime(2026, 3, 8, 2, 30), "an hour that the zone left out"  # noqa: DTZ001


@pytest.mark.parametrize("out", [pd.DataFrame(), pd.DataFrame({"row": []})])
def test_a_step_without_output_reports_its_measures(out: pd.DataFrame) -> None:
    rows, measures = named(lambda frames: (out for _ in frames), ROW)
    assert rows == []
    assert measures[:2] == [3.0, 0.0]


def test_a_wrong_column_gives_sparks_own_error() -> None:
    def wrong(frames: Frames) -> Frames:
        for frame in frames:
            yield frame.rename(columns={"row": "line"})[["line"]]

    for run in (plain, named):
        with pytest.raises(PySparkRuntimeError, match=r"Missing: row. Unexpected: line"):
            run(wrong, ROW)


def test_a_frame_that_the_function_keeps_is_not_changed() -> None:
    kept: list[pd.DataFrame] = []

    def keeping(frames: Frames) -> Frames:
        for frame in frames:
            kept.append(frame)
            yield frame

    named(keeping, COLUMNS)
    assert [frame.columns[0] for frame in kept] == ["row", "row"]


def test_a_step_over_arrow_does_not_import_pandas() -> None:
    code = """
import sys
import pyarrow as pa
sys.path.insert(0, sys.argv[1])
import measured_step
batch = pa.RecordBatch.from_arrays([pa.nulls(2, pa.int64())], ["row"])
*_, last = measured_step.over_arrow(lambda batches: batches, iter([batch]), batch.schema)
print(last.num_rows, "pandas" in sys.modules)
"""
    home = str(Path(measured_step.__file__).parent)
    process = subprocess.run(
        [sys.executable, "-I", "-c", code, home], capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == ["3", "False"], "each new executor would import it"


def test_the_measures_of_a_step_over_arrow_follow_its_rows() -> None:
    def burn(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            until_s = time.process_time() + 0.02
            while time.process_time() < until_s:
                pass
            yield batch.slice(0, 1)

    flat = [ArrowBatchTransformer.flatten_struct(batch) for batch in batches()]
    *results, last = measured_step.over_arrow(burn, iter(flat), flat[0].schema)
    for out, given in zip(results, flat, strict=True):
        assert out.schema.names == [MEASURE, *given.schema.names]
        assert out.select(given.schema.names).equals(given.slice(0, 1))
        assert out.column(MEASURE).null_count == 1
    rows = last.to_pylist()
    rows_in, rows_out, cpu_s = [row.pop(MEASURE) for row in rows]
    assert (rows_in, rows_out) == (3.0, 2.0)
    assert 0.04 <= cpu_s < 5.0
    assert all(set(row.values()) == {None} for row in rows)
    assert last.schema.types[1:] == flat[0].schema.types
