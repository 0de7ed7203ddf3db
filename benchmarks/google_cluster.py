"""The Google cluster query end to end on two cores, compared with plain pandas and a plain Spark batch job.

All read the same generated trace as Parquet, the query also as gzip CSV, and write the same two tables, which are
compared. Each runs in its own process, timed from its first read to its last write. Both Spark jobs warm up on a
few parts first, as a job that runs permanently is warm; the cost of a cold start is shown separately. Memory is
that of the whole process tree: driver, JVM, Python workers. The state has 12,000 machines and 150,000 running
tasks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.figures import Figure

EVENTS = int(os.environ.get("EBBFLOW_BENCH_EVENTS", "5000000"))
CORES = 2
MACHINES, TASKS = 12_000, 150_000
QUANTITIES = ("tasks", "cpu", "memory", "disk")
PERCENTS = {"median": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99}
COLUMNS = ["time", "job", "task", "machine", "event", "cpu", "memory", "disk"]
QUARTER_US, START_US = 900_000_000, 600_000_000
SCHEDULE, UPDATE, SUBMIT, PENDING = 1, 8, 0, 7


def measure() -> list[Figure]:
    figures, found = [], {}
    with tempfile.TemporaryDirectory(prefix="ebbflow-bench-") as scratch:
        traces = {name: Path(scratch) / f"trace-{name}" for name in ("parquet", "csv")}
        for name, folder in traces.items():
            made = _run(f"make-{name}", folder, Path(scratch))
            figures.append(_figure(f"generator, {name} written", made))
        for kind in ("streaming", "streaming-csv", "pandas", "spark"):
            output = Path(scratch) / kind
            found[kind] = _run(kind, traces["csv" if kind == "streaming-csv" else "parquet"], output)
            if kind != "streaming":
                _same_tables(Path(scratch) / "streaming", output)
    ours, from_csv = found["streaming"], found["streaming-csv"]
    return [
        *figures,
        _figure("Structured Streaming from Parquet, state included", ours, bar=200_000),
        Figure(what="  its median batch", value=ours["median_batch"], unit="events/s"),
        _figure("  including Spark's start and warm-up", {"seconds": ours["process_s"]}),
        Figure(what="  peak memory of all processes", value=ours["peak_gb"], unit="GB", bar=4.0),
        _figure("Structured Streaming from gzip CSV, state included", from_csv),
        Figure(what="  peak memory of all processes", value=from_csv["peak_gb"], unit="GB", bar=4.0),
        _figure("plain pandas from Parquet", found["pandas"]),
        Figure(what="  peak memory", value=found["pandas"]["peak_gb"], unit="GB"),
        _figure("plain Spark batch from Parquet", found["spark"]),
        Figure(what="  peak memory", value=found["spark"]["peak_gb"], unit="GB"),
    ]


def _figure(what: str, run: dict[str, Any], bar: float | None = None) -> Figure:
    return Figure(what=what, value=EVENTS / run["seconds"], unit="events/s", bar=bar, at_least=True)


def _run(kind: str, folder: Path, output: Path) -> dict[str, Any]:
    began_s = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.google_cluster", kind, str(folder), str(output)],
        stdout=subprocess.PIPE,
    )
    peak = [0.0]
    watch = threading.Thread(target=_watch, args=(process, peak), daemon=True)
    watch.start()
    result, _ = process.communicate()
    assert process.returncode == 0, f"{kind} failed"
    return {
        **json.loads(result.splitlines()[-1]),
        "peak_gb": peak[0],
        "process_s": time.perf_counter() - began_s,
    }


def _watch(process: subprocess.Popen[bytes], peak: list[float]) -> None:
    """Peak of the summed memory of the processes; a page shared by n of them counts an n-th in each (PSS)."""
    pause = threading.Event()
    while process.poll() is None:
        try:
            tree = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        except psutil.Error:
            return
        peak[0] = max(peak[0], sum(pss_bytes(each.pid) for each in tree) / 1e9)
        pause.wait(0.2)


def pss_bytes(pid: int) -> int:
    """PSS from ``/proc/PID/smaps_rollup``; 0 for a process that has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _same_tables(ours: Path, other: Path) -> None:
    """Compare the outputs of two implementations: every machine at every report, and the cluster."""
    import pandas as pd

    for name, key in (("machines", ["trace_s", "machine"]), ("cluster", ["trace_s"])):
        one, two = (pd.read_parquet(folder / name) for folder in (ours, other))
        if "report" in two:
            two = two.rename(columns={"report": "trace_s"}).assign(
                trace_s=lambda table: table["trace_s"] * 900
            )
        one, two = (table.sort_values(key).reset_index(drop=True) for table in (one, two))
        two = two[list(one.columns)]
        pd.testing.assert_frame_equal(one, two, check_dtype=False, rtol=1e-9, atol=1e-9)


# -- the three implementations, each in a process --------------------------------------------------------------------


def streaming(folder: Path, output: Path) -> dict[str, float]:
    """The query, as `ebbflow google-cluster stats` runs it."""
    from ebbflow.papers.rules.google_cluster.job import WARM_UP_BATCHES, run_job

    found = run_job(
        input=folder,
        output=output,
        master=f"local[{CORES}]",
        instances=CORES,
        conf={"spark.ui.enabled": "false"},
        warm_up_parts=WARM_UP_BATCHES,
    )
    return {"seconds": found.seconds, "median_batch": found.rates_per_s[0]}


def pandas_version(folder: Path, output: Path) -> dict[str, float]:
    """Everything in memory in one process: sort, difference, sum, accumulate."""
    import numpy as np
    import pandas as pd

    began_s = time.perf_counter()
    files = sorted(folder.glob("*.parquet"))
    events = pd.concat([pd.read_parquet(file, columns=COLUMNS) for file in files], ignore_index=True)
    last_us = int(events["time"].max())
    events = events[events["machine"].notna()].fillna(0.0)
    events["machine"] = events["machine"].astype("int64")
    reports = max(1, (last_us - START_US) // QUARTER_US + 1)
    due = np.maximum(1, (events["time"] - START_US) // QUARTER_US + 1)
    first = due.groupby(events["machine"]).min()
    events["report"] = due
    events["tasks"] = 1.0
    events = events[~events["event"].isin((SUBMIT, PENDING))]
    key = ["machine", "job", "task"]
    events = events.sort_values(key, kind="stable")
    said = events["event"].where(events["event"] != UPDATE)
    runs = said.groupby([events[k] for k in key]).ffill() == SCHEDULE
    level = events[list(QUANTITIES)].where(runs, 0.0)
    before = level.groupby([events[k] for k in key]).shift(fill_value=0.0)
    change = (level - before).groupby([events["report"], events["machine"]]).sum()
    index = pd.RangeIndex(1, reports + 1, name="report")
    result = {}
    for name in QUANTITIES:
        wide = change[name].unstack(fill_value=0.0).reindex(index, fill_value=0.0)
        wide = wide.reindex(columns=first.index, fill_value=0.0).cumsum()
        result[name] = wide.where(wide.index.to_numpy()[:, None] >= first.to_numpy()[None, :])
    machines = pd.concat({name: wide.stack() for name, wide in result.items()}, axis=1).reset_index()
    cluster = pd.DataFrame({"trace_s": index * 900, "machines": result["tasks"].count(axis=1).to_numpy()})
    for name, wide in result.items():
        cluster[f"{name}_total"] = wide.sum(axis=1).to_numpy()
        cluster[f"{name}_mean"] = wide.mean(axis=1).to_numpy()
        for label, q in PERCENTS.items():
            cluster[f"{name}_{label}"] = wide.quantile(q, axis=1).to_numpy()
    _written(output, machines, cluster)
    return {"seconds": time.perf_counter() - began_s}


def _written(output: Path, machines: Any, cluster: Any) -> None:
    for name, table in (("machines", machines), ("cluster", cluster)):
        (output / name).mkdir(parents=True)
        table.to_parquet(output / name / "all.parquet")


def spark_batch(folder: Path, output: Path) -> dict[str, float]:
    """The same with DataFrames, after a warm-up on a few parts."""
    from ebbflow.papers.rules.google_cluster.job import WARM_UP_BATCHES
    from ebbflow.targets.spark.launch.session import local_session

    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": str(4 * CORES)}
    with (
        local_session(f"local[{CORES}]", settings, name="batch") as spark,
        tempfile.TemporaryDirectory(prefix="ebbflow-bench-") as scratch,
    ):
        few = Path(scratch) / "few"
        few.mkdir()
        for path in sorted(folder.iterdir())[:WARM_UP_BATCHES]:
            (few / path.name).symlink_to(path)
        _batch_query(spark, few, Path(scratch) / "out")
        began_s = time.perf_counter()
        _batch_query(spark, folder, output)
        return {"seconds": time.perf_counter() - began_s}


def _batch_query(spark: Any, folder: Path, output: Path) -> None:
    """Window functions over the task, then over the machine."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    events = spark.read.parquet(str(folder)).select(*COLUMNS)
    events = events.withColumn("row", F.monotonically_increasing_id())
    due = F.greatest(F.lit(1), F.floor((F.col("time") - START_US) / QUARTER_US) + 1)
    on_machines = events.where("machine is not null").withColumn("report", due).fillna(0.0)
    last_us = events.agg(F.max("time")).first()[0]
    reports = spark.range(1, max(1, (last_us - START_US) // QUARTER_US + 1) + 1).toDF("report")
    first = on_machines.groupBy("machine").agg(F.min("report").alias("first"))
    task = Window.partitionBy("machine", "job", "task").orderBy("time", "row")
    said = F.last(F.when(F.col("event") != UPDATE, F.col("event")), ignorenulls=True).over(task)
    matter = on_machines.where(~F.col("event").isin(SUBMIT, PENDING))
    level = matter.withColumn("runs", F.coalesce(said, F.lit(-1)) == SCHEDULE).withColumn("tasks", F.lit(1.0))
    for name in QUANTITIES:
        level = level.withColumn(name, F.when(F.col("runs"), F.col(name)).otherwise(0.0))
    changes = level.select(
        "report", "machine",
        *((F.col(n) - F.coalesce(F.lag(n).over(task), F.lit(0.0))).alias(n) for n in QUANTITIES),
    ).groupBy("report", "machine").agg(*(F.sum(n).alias(n) for n in QUANTITIES))  # fmt: skip
    grid = first.crossJoin(reports)
    over = Window.partitionBy("machine").orderBy("report")
    levels = (
        grid.join(changes, ["machine", "report"], "left")
        .fillna(0.0, list(QUANTITIES))
        .select("report", "machine", "first", *(F.sum(n).over(over).alias(n) for n in QUANTITIES))
        .where("report >= first").drop("first")
    )  # fmt: skip
    levels.write.parquet(str(output / "machines"))
    machines = spark.read.parquet(str(output / "machines"))
    aggregates = [F.count(F.lit(1)).alias("machines")]
    for n in QUANTITIES:
        aggregates += [F.sum(n).alias(f"{n}_total"), F.mean(n).alias(f"{n}_mean")]
        aggregates += [F.percentile(n, q).alias(f"{n}_{label}") for label, q in PERCENTS.items()]
    result = machines.groupBy((F.col("report") * 900).alias("trace_s")).agg(*aggregates)
    result.write.parquet(str(output / "cluster"))


def make(folder: Path, ending: str) -> dict[str, float]:
    from ebbflow.papers.rules.google_cluster.generator import TraceSpec
    from ebbflow.papers.rules.google_cluster.job import make_trace

    began_s = time.perf_counter()
    spec = TraceSpec(events=EVENTS, machines=MACHINES, first_tasks=TASKS, last_tasks=TASKS)
    make_trace(spec, folder, cores=CORES, suffix=ending)
    return {"seconds": time.perf_counter() - began_s}


if __name__ == "__main__":
    kind, trace, target = sys.argv[1:4]
    if kind.startswith("make-"):
        result = make(Path(trace), {"make-csv": ".csv.gz", "make-parquet": ".parquet"}[kind])
    elif kind.startswith("streaming"):
        result = streaming(Path(trace), Path(target))
    else:
        result = {"pandas": pandas_version, "spark": spark_batch}[kind](Path(trace), Path(target))
    print(json.dumps(result))
