"""A sharded operator on real Spark: shards come and go under load, and every row counts once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from ebbflow.core.ring import HashRing
from ebbflow.errors import InputError, TargetError
from ebbflow.targets.fleet.sharding import (
    STATE_STORE,
    ShardedOperator,
    declared_state,
    own_rows,
    read_state,
    shard_index,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

cloudpickle.register_pickle_by_value(sys.modules[__name__])

KEYS = 600
RESULTS = "key long, rows long, total long, kinds long"
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class CountRows(StatefulProcessor):
    """Counts rows and remembers the last ones and the kinds: a value, a list and a map of state."""

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "rows long")
        self.last = handle.getListState("last", "value long")
        self.kinds = handle.getMapState("kinds", "kind string", "rows long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        values = [row.value for row in rows]
        before = self.count.get()[0] if self.count.exists() else 0
        self.count.update((before + len(values),))
        self.last.put([(value,) for value in values[-2:]])
        for value in values:
            kind = (str(value % 2),)
            known = self.kinds.getValue(kind)[0] if self.kinds.containsKey(kind) else 0
            self.kinds.updateValue(kind, (known + 1,))
        kinds = sum(rows for (rows,) in self.kinds.values())
        yield Row(key=key[0], rows=len(values), total=before + len(values), kinds=kinds)

    def close(self) -> None:
        pass


class Feed:
    """Writes files with rows of random keys until it is stopped, and counts what it wrote."""

    def __init__(self, folder: Path, *, rows: int = 150) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.rows, self.fed = folder, rows, Counter[int]()
        self._rng = np.random.default_rng(1)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._files = 0

    def write(self, keys: np.ndarray[Any, Any]) -> None:
        hidden = self.folder / f".{self._files}.parquet"
        values = np.arange(len(keys)) + 1_000_000 * self._files
        pq.write_table(pa.table({"key": keys, "value": values}), hidden)
        hidden.replace(self.folder / f"rows-{self._files:06d}.parquet")
        self._files += 1
        self.fed.update(keys.tolist())

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(0.5):
            self.write(self._rng.integers(0, KEYS, self.rows))

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[Feed]:
    made = Feed(tmp_path / "input")
    made.write(np.arange(KEYS))  # every key at least once
    yield made
    made._ended.set()


def operator(spark: SparkSession, tmp_path: Path, **changed: Any) -> ShardedOperator:
    settings: dict[str, Any] = {
        "source": lambda spark: spark.readStream.schema("key long, value long").parquet(
            str(tmp_path / "input")
        ),
        "keys": ["key"],
        "processor": CountRows,
        "output": RESULTS,
        "shards": ["a", "b"],
    }
    return ShardedOperator(spark, tmp_path / "sharded", **(settings | changed))


def results(spark: SparkSession, tmp_path: Path) -> list[Any]:
    folders = [str(each) for each in (tmp_path / "sharded" / "results").iterdir()]
    return [row for folder in folders for row in spark.read.schema(RESULTS).parquet(folder).collect()]


def check_counts(spark: SparkSession, tmp_path: Path, fed: Counter[int]) -> None:
    """Every row of the input is in exactly one result, and totals went on where they were."""
    counted, totals, kinds = Counter[int](), Counter[int](), Counter[int]()
    for row in results(spark, tmp_path):
        counted[row.key] += row.rows
        totals[row.key] = max(totals[row.key], row.total)
        kinds[row.key] = max(kinds[row.key], row.kinds)
    assert counted == fed
    assert totals == fed
    assert kinds == fed


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_shards_come_and_go_under_load_and_every_row_counts_once(
    spark: SparkSession, tmp_path: Path, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    sharded = operator(spark, tmp_path)
    sharded.start()
    try:
        sharded.process_all_available()
        feed.start()
        added = sharded.add("c")
        assert {receiver for _, receiver in added.keys} == {"c"}
        assert added.moved_keys == pytest.approx(KEYS / 3, rel=0.2)

        # A step that fails is rolled back.
        with monkeypatch.context() as patched:
            patched.setattr(ShardedOperator, "_await_first_batch", fails)
            with pytest.raises(
                TargetError, match="shard d was not added: no executor; the old shards run on"
            ):
                sharded.add("d")
        assert sharded.ring == HashRing.of("abc")
        assert not (tmp_path / "sharded" / "shards" / "d").exists()

        removed = sharded.remove("a")
        assert {giver for giver, _ in removed.keys} == {"a"}
        assert removed.moved_keys == pytest.approx(KEYS / 3, rel=0.3)  # the keys of a shard, not an estimate
        feed.stop()
        sharded.process_all_available()
        assert sorted(sharded.queries) == ["b", "c"]
    finally:
        sharded.stop()
    check_counts(spark, tmp_path, feed.fed)

    # Old shards dropped what they gave away: each key has state on one shard, the one the ring says.
    held = Counter[int]()
    for index, name in enumerate(sharded.ring.names):
        checkpoint = tmp_path / "sharded" / "shards" / name / "checkpoint"
        state = read_state(spark, checkpoint, declared_state(CountRows()))
        owner = shard_index(sharded.ring, [state["key.key"]])
        rows = state.select(state["key.key"].alias("key"), owner.alias("owner")).collect()
        assert {row.owner for row in rows} == {index}
        held.update(row.key for row in rows)
    assert set(held) == set(range(KEYS))
    assert set(held.values()) == {1}


def fails(*_: Any) -> None:
    raise TargetError("no executor")


STEPS = ("_stop_router", "_write_moves", "_await_first_batch", "_save", "_deliver")


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("shard", ["c", "a"], ids=["adding", "removing"])
@pytest.mark.parametrize("step", STEPS)
def test_a_process_killed_after_any_step_loses_and_repeats_nothing(
    spark: SparkSession, tmp_path: Path, feed: Feed, step: str, shard: str
) -> None:
    if (step, shard) == ("_await_first_batch", "a"):
        pytest.skip("a removal starts no shard")
    killed = subprocess.run([sys.executable, __file__, tmp_path, shard, step], timeout=600)
    assert killed.returncode == -signal.SIGKILL
    feed.write(np.arange(0, KEYS, 2))
    sharded = operator(spark, tmp_path)
    passed = step in ("_save", "_deliver")
    assert (shard in sharded.ring.names) is ((shard == "c") is passed)
    sharded.start()
    try:
        sharded.process_all_available()
        again = sharded.add("e" if "a" in sharded.ring.names else "a")  # also a name that was used before
        feed.write(np.arange(0, KEYS, 3))
        sharded.process_all_available()
    finally:
        sharded.stop()
    assert again.moved_keys > 0
    check_counts(spark, tmp_path, feed.fed)


def main(folder: Path, shard: str, step: str) -> None:
    """Add or remove a shard in a process that kills itself after a step."""
    from ebbflow.targets.spark.launch.session import local_session

    settings = {
        "spark.sql.shuffle.partitions": "2",
        STATE_STORE: ROCKS_DB,
        "spark.ui.enabled": "false",
        "spark.python.authenticate.socketTimeout": "60s",  # a busy machine starts Python workers slowly
    }
    with local_session("local[2]", settings, name="killed") as spark:
        sharded = operator(spark, folder)
        sharded.start()
        sharded.process_all_available()
        real: Callable[..., Any] = getattr(ShardedOperator, step)

        def then_killed(*arguments: Any) -> None:
            real(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(ShardedOperator, step, then_killed)
        sharded.add(shard) if shard == "c" else sharded.remove(shard)


@pytest.mark.spark
def test_spark_routes_like_the_ring_and_shards_of_a_fleet_share_all_rows(spark: SparkSession) -> None:
    rows = spark.range(2_000).selectExpr(
        "id", "concat('user ', id) as name", "xxhash64(id, concat('user ', id)) as hash"
    )
    ring = HashRing({"a": 1.0, "b": 2.0, "c": 0.5})
    found = rows.withColumn("shard", shard_index(ring, [rows["id"], rows["name"]])).toPandas()
    assert found["shard"].tolist() == ring.indices_of(found["hash"].to_numpy().astype(np.uint64)).tolist()

    def context(shard: int | None) -> Any:
        return SimpleNamespace(shard=shard, shards=None if shard is None else 3)

    parts = [{row.id for row in own_rows(context(shard), rows, "id").collect()} for shard in range(3)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 2_000
    assert min(map(len, parts)) > 400
    assert own_rows(context(None), rows, "id") is rows


@pytest.mark.spark
def test_state_that_cannot_be_moved_is_refused(spark: SparkSession) -> None:
    class Forgets(CountRows):
        def init(self, handle: Any) -> None:
            handle.getValueState("count", "rows long", 1000)

    class Stateless(CountRows):
        def init(self, handle: Any) -> None:
            pass

    with pytest.raises(InputError, match="state 'count' has a time to live"):
        declared_state(Forgets())
    with pytest.raises(InputError, match="Stateless declares no state in init"):
        declared_state(Stateless())
    assert declared_state(CountRows()).simpleString() == (
        "struct<count:struct<rows:bigint>,last:array<struct<value:bigint>>,"
        "kinds:map<struct<kind:string>,struct<rows:bigint>>>"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
