"""What the function of an operator gets: its session, its streams and its checkpoint.

::

    def count(context: QueryContext) -> DataStreamWriter:
        words = context.read("words", "word string, time timestamp")
        return context.write(words.groupBy("word").count(), mode="update")

A file stream is a folder. ``write`` uses Spark's file sink in every output mode: it lists the files of each batch in a
log, which readers follow. A batch is listed once; if it runs again, or runs in two places, the second is left out. So
rows go through file streams exactly once. Kafka's sink may repeat the rows of a batch that was cut off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ebbflow.errors import InputError, UnknownNameError
from ebbflow.targets.fleet.model import KAFKA, Fleet, Query, Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class QueryContext:
    """One query that is about to start."""

    def __init__(self, spark: SparkSession, fleet: Fleet, query: Query) -> None:
        self.spark = spark
        self._fleet = fleet
        self._query = query
        self.name = query.name
        """Name of the query, which is that of the operator unless it has shards."""
        self.checkpoint = str(query.checkpoint)
        self.shard = query.shard
        """Number of this shard, from 0; None without shards."""
        self.shards = query.operator.shards
        self.options: Mapping[str, str] = query.operator.options
        """The table ``options`` of the operator."""

    def read(
        self,
        stream: str | None = None,
        schema: str | None = None,
        options: Mapping[str, str | int] | None = None,
    ) -> DataFrame:
        """A stream as a streaming data frame; by default the only one that the operator reads.

        Files need a schema, except text. ``options`` are those of Spark's source, like ``maxFilesPerTrigger``.
        """
        found = self._stream(stream, self._query.operator.reads, "reads")
        reader = self.spark.readStream.options(**dict(options or {}))
        if found.kind == KAFKA:
            return (
                reader.format("kafka")
                .option("kafka.bootstrap.servers", found.servers)
                .option("subscribe", found.topic)
                .load()
            )
        if schema is not None:
            reader = reader.schema(schema)
        elif found.format != "text":
            raise InputError(
                f'stream \'{found.name}\' needs a schema: context.read("{found.name}", "key string")'
            )
        found.folder.mkdir(parents=True, exist_ok=True)
        return reader.format(found.format).load(str(found.folder))

    def write(
        self, rows: DataFrame, stream: str | None = None, *, mode: str = "append", trigger: str | None = None
    ) -> DataStreamWriter:
        """A writer to a stream, with the name and the checkpoint of the query; by default to the only stream that the
        operator writes.

        Return it from the function, with a trigger or other options if you like; the host starts it.
        """
        found = self._stream(stream, self._query.operator.writes, "writes")
        writer = self.writer(rows, mode=mode, trigger=trigger)
        if found.kind == KAFKA:
            return (
                writer.format("kafka")
                .option("kafka.bootstrap.servers", found.servers)
                .option("topic", found.topic)
            )
        folder = str(found.folder if self.shard is None else found.folder / f"shard={self.shard}")
        if mode == "append":
            return writer.format(found.format).option("path", folder)
        sink = _file_sink(self.spark, folder, found.format)

        def add_batch(batch: DataFrame, batch_id: int) -> None:
            sink.addBatch(batch_id, batch._jdf)

        return writer.foreachBatch(add_batch)

    def writer(
        self, rows: DataFrame, *, mode: str = "append", trigger: str | None = None
    ) -> DataStreamWriter:
        """A writer with the name and the checkpoint of the query, to a sink of your own.

        The sink must accept a batch that comes twice: the one that ran when a host was killed runs again.
        """
        writer = (
            rows.writeStream.queryName(self.name)
            .outputMode(mode)
            .option("checkpointLocation", self.checkpoint)
        )
        return writer if trigger is None else writer.trigger(processingTime=trigger)

    def _stream(self, name: str | None, known: tuple[str, ...], verb: str) -> Stream:
        if name is None:
            if len(known) != 1:
                raise InputError(
                    f"operator {self._query.operator.name} {verb} {len(known)} streams; name the one you mean"
                )
            name = known[0]
        if name not in known:
            raise UnknownNameError(f"stream that operator {self._query.operator.name} {verb}", name, known)
        return self._fleet.streams[name]


def _file_sink(spark: SparkSession, folder: str, format: str) -> Any:
    """Spark's file sink. ``writeStream`` offers it for append mode only; batches of any mode can be added to it."""
    jvm: Any = spark._jvm
    sinks = jvm.org.apache.spark.sql.execution.streaming.sinks
    sources = jvm.org.apache.spark.sql.execution.datasources
    file_format = {
        "json": sources.json.JsonFileFormat,
        "parquet": sources.parquet.ParquetFileFormat,
        "csv": sources.csv.CSVFileFormat,
        "orc": sources.orc.OrcFileFormat,
        "text": sources.text.TextFileFormat,
    }[format]()
    no_columns = jvm.PythonUtils.toSeq([])
    no_options = jvm.PythonUtils.toScalaMap(jvm.java.util.HashMap())
    return sinks.FileStreamSink(spark._jsparkSession, folder, file_format, no_columns, no_options)
