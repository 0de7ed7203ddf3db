"""A keyed operator as several queries, its *shards*, whose number changes while data flows (DoDo, §7.1.3).

::

                ┌─► shards/a/in ─► shard a ─┐
    input ─► router                          ├─► results
                └─► shards/b/in ─► shard b ─┘

The *router* is a query that writes each row into the folder of the shard that owns the row's key on the hash ring. A
*shard* is a query with the operator's ``StatefulProcessor`` on the rows of its folder. Adding or removing a shard
changes the ring from one batch of the router to the next, so at one offset of the input, and moves the state of the
keys whose shard changes:

1. The router stops between two batches, so all input up to there is in the folders of the old shards. Shards that give
   keys away process what is in their folders, and stop between two batches.
2. The state of the moving keys is read from the checkpoints of the stopped shards with Spark's state reader.
3. A new shard starts on a new checkpoint with this state as its initial state, and processes its first batch.
4. The file ``ring.json`` is replaced by one with the new ring and the batch of the router from which it holds. This is
   the point of no return.
5. Shards that continue on their checkpoints cannot be given an initial state. They get moved state as rows in their
   folders, which their processor takes before any other row (the paper moves state as events, too). Shards that gave
   keys away get rows that clear them. Then all queries run.

If a step before the fourth fails, the old queries start again and nothing has changed; if the process is killed, the
next ``start`` removes what is left. After it, the change is completed: at once, or by the next ``start``.

Every row reaches exactly one shard, exactly once: the router chooses the ring by the number of its batch, and writes
one file for each batch and shard. A batch that runs again writes only files that are missing, with the same rows.
Spark's file source takes a file once, and the checkpoint of a shard counts its rows once.
"""

from __future__ import annotations

import importlib.util
import logging
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import (
    ListState,
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
    ValueState,
)
from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from ebbflow.core.folders import replace_file
from ebbflow.core.ring import SLOT_BITS, HashRing
from ebbflow.errors import InputError, TargetError
from ebbflow.targets.spark.act.restart import await_batch, stop_between_batches, unfinished_batch
from ebbflow.targets.spark.driver import first_line

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ebbflow.targets.fleet.context import QueryContext

log = logging.getLogger(__name__)

STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
CONTROL, MOVED = "_control", "_moved"
"""Columns that the router adds: what a row is (null for rows of the input), and the state that it carries."""
STATE, CLEAR, OPEN = "state", "clear", "open"
_SHARD = "_shard"
_KINDS = {"value": "value", "list": "list_value", "map": "map_value"}
"""Kinds of state variables, and the column in which Spark's state reader returns each."""


# -- what is on disk ------------------------------------------------------------------------------------------------


class Epoch(msgspec.Struct, frozen=True, kw_only=True):
    """The ring that holds from one batch of the router on."""

    first_batch: int
    weights: dict[str, float]


class Routing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file ``ring.json``: all rings so far, and the move whose rows may not have been delivered yet."""

    epochs: tuple[Epoch, ...]
    created: dict[str, int]
    """For each shard the change that added it; 0 at the start."""
    changes: int = 0
    """Changes so far; also the number of the last one."""
    deliver: bool = False

    @property
    def ring(self) -> HashRing:
        """The current ring."""
        return HashRing(self.epochs[-1].weights)

    def ring_of(self, batch: int) -> HashRing:
        """The ring of a batch of the router."""
        return HashRing(next(each for each in reversed(self.epochs) if each.first_batch <= batch).weights)


@dataclass(frozen=True, kw_only=True)
class Change:
    """A shard that was added or removed."""

    shard: str
    first_batch: int
    """The first batch of the router with the new ring."""
    keys: Mapping[tuple[str, str], int]
    """Keys that moved, by giver and receiver."""
    stopped_s: float
    """How long no row was routed."""

    @property
    def moved_keys(self) -> int:
        """All keys that moved."""
        return sum(self.keys.values())


# -- routing --------------------------------------------------------------------------------------------------------


def shard_index(ring: HashRing, keys: Sequence[Column]) -> Column:
    """The position in ``ring.names`` of the shard of a key, computed without Python: one byte of the ring's table."""
    slot = F.shiftrightunsigned(F.xxhash64(*keys), 64 - SLOT_BITS).cast("int")
    byte = F.substring(F.lit(bytearray(ring.owners.tobytes())), slot + 1, F.lit(1))
    return F.conv(F.hex(byte), 16, 10).cast("int")


def own_rows(context: QueryContext, rows: DataFrame, *keys: str) -> DataFrame:
    """The rows whose keys belong to this shard of an operator with ``shards = N`` in a fleet file.

    Every shard reads the whole stream and keeps its part. The number of shards is fixed then; use ``ShardedOperator``
    to change it while data flows.
    """
    if context.shard is None or context.shards is None:
        return rows
    ring = HashRing.of(str(shard) for shard in range(context.shards))
    own = ring.names.index(str(context.shard))
    return rows.where(shard_index(ring, [F.col(key) for key in keys]) == own)


# -- state ----------------------------------------------------------------------------------------------------------


def declared_state(processor: StatefulProcessor) -> StructType:
    """The state variables that a processor declares in ``init``, as the fields of a struct.

    A value is its struct, a list an array of structs, a map a map of structs, as Spark's state reader returns them.
    """
    declared = _Declared()
    processor.init(declared)  # type: ignore[arg-type]
    if not declared.fields:
        raise InputError(
            f"{type(processor).__name__} declares no state in init; it needs no shards, only more tasks"
        )
    return StructType(declared.fields)


class _Declared:
    """Stands in for the handle of a processor, and takes down what it declares."""

    def __init__(self) -> None:
        self.fields: list[StructField] = []

    def _add(self, name: str, kind: Any, ttl_ms: int | None) -> None:
        if ttl_ms:
            raise InputError(
                f"state '{name}' has a time to live, which cannot be moved; keep the time in the state"
            )
        self.fields.append(StructField(name, kind))

    def getValueState(  # noqa: N802
        self,
        stateName: str,  # noqa: N803
        schema: StructType | str,
        ttlDurationMs: int | None = None,  # noqa: N803
    ) -> None:
        self._add(stateName, _struct(schema), ttlDurationMs)

    def getListState(  # noqa: N802
        self,
        stateName: str,  # noqa: N803
        schema: StructType | str,
        ttlDurationMs: int | None = None,  # noqa: N803
    ) -> None:
        self._add(stateName, ArrayType(_struct(schema)), ttlDurationMs)

    def getMapState(  # noqa: N802
        self,
        stateName: str,  # noqa: N803
        userKeySchema: StructType | str,  # noqa: N803
        valueSchema: StructType | str,  # noqa: N803
        ttlDurationMs: int | None = None,  # noqa: N803
    ) -> None:
        self._add(stateName, MapType(_struct(userKeySchema), _struct(valueSchema)), ttlDurationMs)


def _struct(schema: StructType | str) -> StructType:
    return schema if isinstance(schema, StructType) else StructType.fromDDL(schema)  # type: ignore[return-value]


def read_state(spark: SparkSession, checkpoint: Path, state: StructType) -> DataFrame:
    """All keys of a stopped query, as the columns ``key`` and ``MOVED``, both structs."""
    keyed: DataFrame | None = None
    for each in state.fields:
        kind = "list" if isinstance(each.dataType, ArrayType) else "value"
        kind = "map" if isinstance(each.dataType, MapType) else kind
        found = (
            spark.read.format("statestore")
            .option("stateVarName", each.name)
            .option("flattenCollectionTypes", "false")
            .load(str(checkpoint))
            .select("key", F.col(_KINDS[kind]).alias(each.name))
        )
        keyed = found if keyed is None else keyed.join(found, "key", "full")
    assert keyed is not None
    return keyed.select("key", F.struct(*state.fieldNames()).alias(MOVED))


class ShardProcessor(StatefulProcessor):
    """The operator's processor, which also takes state from another shard and gives state away.

    Rows that carry state come before all other rows of their key. Rows that clear a key come alone, because the key is
    routed to another shard by then.
    """

    def __init__(self, processor: StatefulProcessor, columns: Sequence[str]) -> None:
        self._processor = processor
        self._columns = tuple(columns)
        self._states: dict[str, ValueState | ListState | MapState] = {}

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Let the processor declare its state, and keep it by name."""
        self._states = {}
        self._processor.init(_Recording(handle, self._states))  # type: ignore[arg-type]

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Any]:
        """Take moved state first, then pass the rows of the input on."""
        from pyspark.sql import Row

        row_of = Row(*self._columns)
        own = []
        for row in rows:
            control = row[CONTROL]
            if control is None:
                own.append(row_of(*(row[name] for name in self._columns)))
            elif control == STATE:
                self._take(row[MOVED])
            elif control == CLEAR:
                for state in self._states.values():
                    state.clear()
        if own:
            yield from self._processor.handleInputRows(key, iter(own), timerValues)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: TimerValues) -> None:  # noqa: ARG002, N802, N803
        """Take the state of a key from another shard."""
        self._take(initialState[MOVED])

    def close(self) -> None:
        """Close the processor."""
        self._processor.close()

    def _take(self, moved: Any) -> None:
        values = moved if isinstance(moved, dict) else moved.asDict()
        for name, state in self._states.items():
            value = values.get(name)
            if value is None:
                continue
            if isinstance(state, ValueState):
                state.update(_fields(value))
            elif isinstance(state, ListState):
                state.put([_fields(each) for each in value])
            else:
                for key, own in value.items() if isinstance(value, dict) else value:
                    state.updateValue(_fields(key), _fields(own))


def _fields(struct: Any) -> tuple[Any, ...]:
    """Fields of a struct, which Spark passes to Python as a dict or as a row."""
    return tuple(struct.values()) if isinstance(struct, dict) else tuple(struct)


class _Recording:
    """The handle of a processor; remembers the state variables by name."""

    def __init__(self, handle: StatefulProcessorHandle, states: dict[str, Any]) -> None:
        self._handle = handle
        self._states = states

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._handle, name)
        if name not in ("getValueState", "getListState", "getMapState"):
            return found

        def declare(stateName: str, *args: Any, **options: Any) -> Any:  # noqa: N803
            self._states[stateName] = found(stateName, *args, **options)
            return self._states[stateName]

        return declare


# -- the operator ---------------------------------------------------------------------------------------------------

Sink = Callable[["DataFrame", str], "Any"]
"""From the results of a shard and its name to a ``DataStreamWriter``. The name has the number of the change that added
the shard, because Spark's file sink would take a new query in the folder of an old one for a repetition."""


class ShardedOperator:
    """A keyed operator as a router and several shards, in one Spark session.

    ``source`` makes the streaming data frame of the input, ``keys`` are columns of it. ``processor`` makes the
    ``StatefulProcessor`` for ``transformWithState``; ``output`` is the schema of its rows. Without ``sink``, results
    are Parquet files in ``folder/results/SHARD-CHANGE``. ``shards`` are those of the first start; later ones continue
    with the ring in the folder.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        *,
        source: Callable[[SparkSession], DataFrame],
        keys: Sequence[str],
        processor: Callable[[], StatefulProcessor],
        output: str,
        shards: Sequence[str] | Mapping[str, float],
        sink: Sink | None = None,
        trigger: str = "0 seconds",
        within_s: float = 60.0,
    ) -> None:
        """``within_s``: how long a shard may take to start, and a query to stop."""
        _check_session(spark)
        self._spark = spark
        self._folder = folder
        self._source = source
        self._processor = processor
        self._output = output
        self._sink = sink or self._to_files
        self._trigger = trigger
        self._within_s = within_s
        self._keys = tuple(keys)
        self._schema = source(spark).schema
        for key in keys:
            if key not in self._schema.fieldNames():
                raise InputError(
                    f"key {key} is not a column; the input has {', '.join(self._schema.fieldNames())}"
                )
        self._state = declared_state(processor())
        first = shards if isinstance(shards, Mapping) else dict.fromkeys(shards, 1.0)
        for name in first:
            _check_name(name)
        self._file = folder / "ring.json"
        if not self._file.exists():
            epoch = Epoch(first_batch=0, weights=dict(HashRing(first).weights))
            self._save(Routing(epochs=(epoch,), created=dict.fromkeys(first, 0)))
        self._routing = msgspec.json.decode(self._file.read_bytes(), type=Routing)
        self._router: StreamingQuery | None = None
        self._shards: dict[str, StreamingQuery] = {}

    @property
    def ring(self) -> HashRing:
        """The current ring."""
        return self._routing.ring

    @property
    def queries(self) -> Mapping[str, StreamingQuery]:
        """The queries of the shards by name."""
        return self._shards

    @property
    def router(self) -> StreamingQuery:
        """The query that routes."""
        if self._router is None:
            raise TargetError(f"the sharded operator in {self._folder} is not running; call start()")
        return self._router

    def start(self) -> None:
        """Start all queries that do not run. A change that was cut off is undone or completed first."""
        self._recover()
        self._start_missing()

    def stop(self) -> None:
        """Stop all queries, each between two batches."""
        for query in (self._router, *self._shards.values()):
            if query is not None:
                stop_between_batches(query, self._within_s)
        self._router, self._shards = None, {}

    def process_all_available(self) -> None:
        """Wait until everything in the input is in the results."""
        self.router.processAllAvailable()
        for query in self._shards.values():
            query.processAllAvailable()

    def add(self, name: str, weight: float = 1.0) -> Change:
        """Add a shard. Keys move to it from all others."""
        _check_name(name)
        return self._change(name, self.ring.with_shard(name, weight))

    def remove(self, name: str) -> Change:
        """Remove a shard. Its keys move to the others."""
        return self._change(name, self.ring.without_shard(name))

    # -- a change ---------------------------------------------------------------------------------------------------

    def _change(self, shard: str, after: HashRing) -> Change:
        before, number = self.ring, self._routing.changes + 1
        givers = {giver for giver, _ in before.moves_to(after)}
        began_s = time.monotonic()
        try:
            last_batch = self._stop_router()
            for giver in givers:
                self._stop_shard(giver)
            keys = self._write_moves(number, givers, after)
            if shard in after.names:
                self._start_shard(shard, number)
                self._await_first_batch(shard)
        except Exception as error:
            problem = (
                f"shard {shard} was not {'added' if shard in after.names else 'removed'}: {first_line(error)}"
            )
            try:
                self._roll_back(shard, number)
            except Exception as second:
                raise TargetError(
                    f"{problem}; restarting the old shards failed too: {first_line(second)}"
                ) from second
            raise TargetError(f"{problem}; the old shards run on") from error
        epoch = Epoch(first_batch=last_batch + 1, weights=dict(after.weights))
        created = {name: self._routing.created.get(name, number) for name in after.names}
        routing = Routing(
            epochs=(*self._routing.epochs, epoch), created=created, changes=number, deliver=True
        )
        self._save(routing)  # the point of no return
        self._routing = routing
        self._deliver()
        self._start_missing()
        stopped_s = time.monotonic() - began_s
        return Change(shard=shard, first_batch=epoch.first_batch, keys=keys, stopped_s=stopped_s)

    def _write_moves(self, number: int, givers: set[str], after: HashRing) -> dict[tuple[str, str], int]:
        """Write the state of the moving keys of each giver, and the rows that clear them; returns how many moved."""
        counts: dict[tuple[str, str], int] = {}
        for giver in sorted(givers):
            state = read_state(self._spark, self._checkpoint(giver), self._state)
            to = shard_index(after, [F.col(f"key.{key}") for key in self._keys])
            stays = F.lit(after.names.index(giver) if giver in after.names else -1)
            moving = state.withColumn(_SHARD, to).where(F.col(_SHARD) != stays)
            folder = self._moves(number) / giver
            moving.write.mode("overwrite").partitionBy(_SHARD).parquet(str(folder))
            for index, name in enumerate(after.names):
                files = folder / f"{_SHARD}={index}"
                if files.exists():
                    counts[giver, name] = self._spark.read.parquet(str(files)).count()
        return counts

    def _moved(self, number: int, giver: str, index: int) -> DataFrame | None:
        """Keys and state that go from one shard to another in a change; None if there are none."""
        files = self._moves(number) / giver / f"{_SHARD}={index}"
        return self._spark.read.parquet(str(files)).select("key", MOVED) if files.exists() else None

    def _deliver(self) -> None:
        """Hand the rows of the last change to shards that continue on their checkpoints. May run twice."""
        number = self._routing.changes
        before, after = (HashRing(epoch.weights) for epoch in self._routing.epochs[-2:])
        for giver, receiver in before.moves_to(after):
            moved = self._moved(number, giver, after.names.index(receiver))
            if moved is None:
                continue
            if receiver in before.names:
                self._put(receiver, f"move-{number:06d}-{giver}", self._rows(moved, STATE))
            if giver in after.names:
                self._put(giver, f"clear-{number:06d}-{receiver}", self._rows(moved, CLEAR))
        for name in set(before.names) - set(after.names):
            shutil.rmtree(self._shard_folder(name), ignore_errors=True)
        self._save(msgspec.structs.replace(self._routing, deliver=False))
        shutil.rmtree(self._moves(number), ignore_errors=True)

    def _roll_back(self, shard: str, number: int) -> None:
        if shard not in self.ring.names:
            started = self._shards.pop(shard, None)
            if started is not None:
                started.stop()
            self._forget(shard)
        shutil.rmtree(self._moves(number), ignore_errors=True)
        self._start_missing()

    def _recover(self) -> None:
        """Complete a change that passed the point of no return, and remove what is left of one that did not."""
        if self._routing.deliver:
            log.info("completing change %d of the shards in %s", self._routing.changes, self._folder)
            self._deliver()
        shutil.rmtree(self._folder / "moves", ignore_errors=True)
        known = set(self.ring.names)
        for each in (self._folder / "shards").glob("*"):
            if each.name not in known:
                self._forget(each.name)

    def _forget(self, shard: str) -> None:
        """Remove a shard that was started for a change that did not take place. It has no results yet."""
        shutil.rmtree(self._shard_folder(shard), ignore_errors=True)
        shutil.rmtree(self._folder / "results" / f"{shard}-{self._routing.changes + 1}", ignore_errors=True)

    # -- queries ----------------------------------------------------------------------------------------------------

    def _start_missing(self) -> None:
        """Start what is stopped or has failed."""
        for name in self.ring.names:
            if name not in self._shards or not self._shards[name].isActive:
                self._start_shard(name)
        if self._router is None or not self._router.isActive:
            self._start_router()

    def _start_router(self) -> None:
        source = self._source(self._spark)
        if source.schema != self._schema:
            raise InputError("the input has other columns than before; start on a new folder")
        self._router = (
            source.writeStream.queryName(f"{self._folder.name}-router")
            .option("checkpointLocation", str(self._folder / "router"))
            .trigger(processingTime=self._trigger)
            .foreachBatch(self._route)
            .start()
        )

    def _route(self, batch: DataFrame, batch_id: int) -> None:
        """Write the rows of a batch, one file for each shard. A batch that runs again writes only missing files."""
        ring = self._routing.ring_of(batch_id)
        routed = self._input_rows(batch).withColumn(_SHARD, shard_index(ring, [F.col(k) for k in self._keys]))
        staging = self._folder / "router-staging"
        shutil.rmtree(staging, ignore_errors=True)
        routed.repartition(_SHARD).write.partitionBy(_SHARD).parquet(str(staging))
        for index, name in enumerate(ring.names):
            files = list((staging / f"{_SHARD}={index}").glob("*.parquet"))
            if not files:
                continue
            assert len(files) == 1, "all rows of a shard are in one task"
            target = self._inbox(name) / f"batch-{batch_id:010d}.parquet"
            if not target.exists():
                files[0].replace(target)

    def _stop_router(self) -> int:
        """Stop the router with all its batches finished; returns the last one."""
        while True:
            router = self.router
            stop_between_batches(router, self._within_s, interrupt=False)
            self._router = None
            unfinished = unfinished_batch(router)
            if unfinished is None or unfinished < 0:
                break
            self._start_router()
            await_batch(self.router, unfinished, self._within_s)
            failure = self.router.exception()
            if failure is not None:
                raise failure
        commits = [int(each.name) for each in (self._folder / "router" / "commits").glob("[0-9]*")]
        return max(commits, default=-1)

    def _start_shard(self, name: str, change: int | None = None) -> None:
        """Start a shard; the new one of a change with the moved state as its initial state."""
        inbox = self._inbox(name)
        if not (
            inbox / "open.parquet"
        ).exists():  # so that every shard has a first batch, which creates its state
            self._put(name, "open", self._rows(None, OPEN))
        rows = self._spark.readStream.schema(self._shard_schema()).parquet(str(inbox))
        initial = None
        if change is not None:
            index = self.ring.with_shard(name).names.index(name)
            givers = [self._moved(change, giver, index) for giver in self.ring.names]
            moved = [each for each in givers if each is not None]
            if moved:
                state = moved[0]
                for each in moved[1:]:
                    state = state.unionByName(each)
                initial = state.select("key.*", MOVED).groupBy(*self._keys)
        results = rows.groupBy(*self._keys).transformWithState(
            ShardProcessor(self._processor(), self._schema.fieldNames()),
            self._output,
            "Append",
            "None",
            initialState=initial,
        )
        self._shards[name] = (
            self._sink(results, f"{name}-{self._routing.created.get(name, change)}")
            .queryName(f"{self._folder.name}-{name}")
            .outputMode("append")
            .option("checkpointLocation", str(self._checkpoint(name)))
            .trigger(processingTime=self._trigger)
            .start()
        )

    def _await_first_batch(self, name: str) -> None:
        query = self._shards[name]
        if not await_batch(query, 0, self._within_s):
            raise TargetError(f"it did not process its first batch within {self._within_s:g} s")
        failure = query.exception()
        if failure is not None:
            raise failure

    def _stop_shard(self, name: str) -> None:
        """Let a shard process everything in its folder, and stop it between two batches."""
        query = self._shards[name]
        query.processAllAvailable()
        stop_between_batches(query, self._within_s, interrupt=False)
        del self._shards[name]

    # -- rows and files ---------------------------------------------------------------------------------------------

    def _shard_schema(self) -> StructType:
        """Columns of the rows of a shard, all nullable."""
        own = [StructField(each.name, each.dataType) for each in self._schema.fields]
        text = StructType.fromDDL(f"{CONTROL} string")
        return StructType([*own, *text.fields, StructField(MOVED, self._state)])  # type: ignore[attr-defined]

    def _input_rows(self, rows: DataFrame) -> DataFrame:
        nothing = F.lit(None)
        return rows.withColumns({CONTROL: nothing.cast("string"), MOVED: nothing.cast(self._state)})

    def _rows(self, moved: DataFrame | None, control: str) -> DataFrame:
        """Rows for a shard that carry or clear the state of keys, or open it."""
        schema = self._shard_schema()
        if moved is None:
            empty = [None] * (len(schema.fields) - 2)
            return self._spark.createDataFrame([(*empty, control, None)], schema)
        own = [
            (F.col(f"key.{each.name}") if each.name in self._keys else F.lit(None).cast(each.dataType)).alias(
                each.name
            )
            for each in self._schema.fields
        ]
        state = F.col(MOVED) if control == STATE else F.lit(None).cast(self._state).alias(MOVED)
        return moved.select(*own, F.lit(control).alias(CONTROL), state)

    def _put(self, shard: str, name: str, rows: DataFrame) -> None:
        """Write rows as one file that appears in the folder of a shard at once, unless it is there already."""
        target = self._inbox(shard) / f"{name}.parquet"
        if target.exists():
            return
        staging = self._folder / "staging"
        shutil.rmtree(staging, ignore_errors=True)
        rows.coalesce(1).write.parquet(str(staging))
        for written in staging.glob("*.parquet"):
            written.replace(target)
        shutil.rmtree(staging, ignore_errors=True)

    def _save(self, routing: Routing) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        replace_file(self._file, msgspec.json.encode(routing).decode())
        self._routing = routing

    def _to_files(self, results: DataFrame, name: str) -> Any:
        return results.writeStream.format("parquet").option("path", str(self._folder / "results" / name))

    def _shard_folder(self, name: str) -> Path:
        return self._folder / "shards" / name

    def _checkpoint(self, name: str) -> Path:
        return self._shard_folder(name) / "checkpoint"

    def _inbox(self, name: str) -> Path:
        folder = self._shard_folder(name) / "in"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _moves(self, number: int) -> Path:
        return self._folder / "moves" / f"{number:06d}"


def _check_session(spark: SparkSession) -> None:
    store = str(spark.conf.get(STATE_STORE, "") or "")
    if "RocksDB" not in store:
        raise InputError(
            f"sharded operators need the RocksDB state store; set {STATE_STORE}="
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        )
    if importlib.util.find_spec("google.protobuf.descriptor") is None:
        raise InputError("transformWithState needs protobuf; install it with pip install 'ebbflow[shards]'")


def _check_name(name: str) -> None:
    if not name or not all(each.isalnum() or each in "-_" for each in name):
        raise InputError(f"'{name}' is not a name of a shard; use letters, digits, - and _")
