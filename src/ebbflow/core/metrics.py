"""The catalogue of metrics: every number that travels through Ebbflow, declared once with its unit.

The reference page ``docs/metrics.md`` is generated from here (``ebbflow metrics --markdown``).
"""

from __future__ import annotations

from enum import Enum, StrEnum

from ebbflow.errors import UnknownNameError


class Unit(StrEnum):
    """What a value counts."""

    ROWS = "rows"
    ROWS_PER_S = "rows/s"
    SECONDS = "s"
    COUNT = "count"
    SHARE = "share of 1"
    BYTES = "bytes"
    BYTES_PER_S = "bytes/s"


class SubjectKind(StrEnum):
    """What a reading is about."""

    PIPELINE = "pipeline"
    OPERATOR = "operator"
    CLUSTER = "cluster"
    NODE = "node"
    HOST = "host"


class Metric(Enum):
    """A metric: its key in files and rules, its unit, what it is about, what it means.

    >>> Metric.FRESHNESS.key, Metric.FRESHNESS.unit.value
    ('freshness', 's')
    >>> Metric.of("queue-length") is Metric.QUEUE_LENGTH
    True
    """

    key: str
    unit: Unit
    about: SubjectKind
    meaning: str

    def __init__(self, key: str, unit: Unit, about: SubjectKind, meaning: str) -> None:
        self.key = key
        self.unit = unit
        self.about = about
        self.meaning = meaning

    __hash__ = object.__hash__
    """Members are single objects; the hash of Enum is a call into Python at every look-up of a window."""

    ARRIVAL_RATE = (
        "arrival-rate", Unit.ROWS_PER_S, SubjectKind.PIPELINE,
        "rows that arrive at the sources, per second, whether or not a batch took them yet",
    )  # fmt: skip
    QUEUE_LENGTH = (
        "queue-length", Unit.ROWS, SubjectKind.PIPELINE,
        "rows at the sources that no finished batch has processed: those counted from the last offsets, "
        "plus what the arrival rate has brought since; not read where the source does not tell",
    )  # fmt: skip
    BACKLOG = (
        "backlog", Unit.ROWS, SubjectKind.PIPELINE,
        "rows that had arrived when the last batch started and that it left behind (read limits); not read where "
        "the source does not tell its latest offset",
    )  # fmt: skip
    FRESHNESS = (
        "freshness", Unit.SECONDS, SubjectKind.PIPELINE,
        "now minus the arrival of the oldest row that is not processed yet",
    )  # fmt: skip
    BATCH_ROWS = ("batch-rows", Unit.ROWS, SubjectKind.PIPELINE, "source rows of a finished batch")
    BATCH_TIME = (
        "batch-time", Unit.SECONDS, SubjectKind.PIPELINE,
        "processing latency: how long a finished batch took, planning and commit included",
    )  # fmt: skip
    SCHEDULING_LATENCY = (
        "scheduling-latency", Unit.SECONDS, SubjectKind.PIPELINE,
        "how much later than its trigger a batch started because the one before still ran",
    )  # fmt: skip
    FIRST_BATCH_TIME = (
        "first-batch-time", Unit.SECONDS, SubjectKind.PIPELINE,
        "how long the first batch of a query took after it was started or restarted: state is loaded in it",
    )  # fmt: skip
    RESTART_STOP = (
        "restart-stop", Unit.SECONDS, SubjectKind.PIPELINE,
        "from asking for another parallelism until nothing ran: the batch or the queues under way were finished",
    )  # fmt: skip
    RESTART_STATE = (
        "restart-state", Unit.SECONDS, SubjectKind.PIPELINE,
        "how long state was repartitioned or moved in that restart",
    )  # fmt: skip
    RESTART_START = (
        "restart-start", Unit.SECONDS, SubjectKind.PIPELINE,
        "from there until the pipeline was started again; the three are read together, when it was",
    )  # fmt: skip
    STATE_ROWS = ("state-rows", Unit.ROWS, SubjectKind.PIPELINE, "keys held by the stateful operators")
    STATE_SIZE = ("state-size", Unit.BYTES, SubjectKind.PIPELINE, "memory held by the state stores")
    ROWS_IN = ("rows-in", Unit.ROWS, SubjectKind.OPERATOR, "rows that entered the operator in a batch")
    ROWS_OUT = ("rows-out", Unit.ROWS, SubjectKind.OPERATOR, "rows that left the operator in a batch")
    OPERATOR_CPU = (
        "operator-cpu", Unit.SECONDS, SubjectKind.OPERATOR,
        "CPU seconds of all instances of an operator in a batch: measured around a Python step, of one with keyed "
        "state also what the JVM did for it; of the others their part of the CPU time of their stage, by rows",
    )  # fmt: skip
    BUSIEST_INSTANCE_CPU = (
        "busiest-instance-cpu", Unit.SECONDS, SubjectKind.OPERATOR,
        "CPU seconds of the busiest instance of a Python operator in a batch",
    )  # fmt: skip
    INSTANCES = (
        "instances",
        Unit.COUNT,
        SubjectKind.OPERATOR,
        "instances of an operator; on Spark, its tasks in a batch",
    )
    OPERATOR_QUEUE = (
        "operator-queue", Unit.ROWS, SubjectKind.OPERATOR,
        "rows that wait before an operator of a continuous engine",
    )  # fmt: skip
    INSTANCE_CPU = (
        "instance-cpu", Unit.SHARE, SubjectKind.OPERATOR,
        "part of one core that an instance of the operator used since the last look, mean of its instances",
    )  # fmt: skip
    INSTANCE_BUSY = (
        "instance-busy", Unit.SHARE, SubjectKind.OPERATOR,
        "part of the time since the last look in which an instance of the operator had rows in hand, waiting for a "
        "core included, mean of its instances",
    )  # fmt: skip
    FAILED_ROWS = (
        "failed-rows", Unit.ROWS, SubjectKind.PIPELINE,
        "source rows given up so far because a queue between operators was full",
    )  # fmt: skip
    NODES = ("nodes", Unit.COUNT, SubjectKind.CLUSTER, "nodes that are there and can work")
    NODES_REQUESTED = ("nodes-requested", Unit.COUNT, SubjectKind.CLUSTER, "nodes asked for")
    NODES_HELD = (
        "nodes-held", Unit.COUNT, SubjectKind.CLUSTER,
        "nodes that are paid for: from the request until they are gone, those of all clusters together",
    )  # fmt: skip
    SLOTS = ("slots", Unit.COUNT, SubjectKind.CLUSTER, "tasks that can run at the same time")
    LEAD_TIME = (
        "lead-time",
        Unit.SECONDS,
        SubjectKind.NODE,
        "from asking for a node to its first finished work",
    )
    NODE_CPU = (
        "node-cpu",
        Unit.SHARE,
        SubjectKind.NODE,
        "part of the node's cores in use since the last look; more than 1 where nothing confines it to them",
    )
    ACTIVE_TASKS = ("active-tasks", Unit.COUNT, SubjectKind.NODE, "tasks running on the node now")
    TASK_TIME = ("task-time", Unit.SECONDS, SubjectKind.NODE, "task seconds the node has worked so far")
    NODE_MEMORY = (
        "node-memory", Unit.BYTES, SubjectKind.NODE,
        "resident memory of the node's processes; pages they share count once for each",
    )  # fmt: skip
    NODE_HEAP = ("node-heap", Unit.BYTES, SubjectKind.NODE, "Java heap in use, garbage included")
    NODE_HEAP_SHARE = (
        "node-heap-share", Unit.SHARE, SubjectKind.NODE,
        "Java heap in use ÷ the largest it may become, garbage included",
    )  # fmt: skip
    NODE_DISK_READ = (
        "node-disk-read", Unit.BYTES_PER_S, SubjectKind.NODE,
        "what the node's processes made disks read since the last look; the page cache does not count",
    )  # fmt: skip
    NODE_DISK_WRITE = (
        "node-disk-write", Unit.BYTES_PER_S, SubjectKind.NODE,
        "what the node's processes gave disks to write since the last look",
    )  # fmt: skip
    NODE_NETWORK_IN = (
        "node-network-in", Unit.BYTES_PER_S, SubjectKind.NODE,
        "TCP payload the node's processes received since the last look, not from each other",
    )  # fmt: skip
    NODE_NETWORK_OUT = (
        "node-network-out", Unit.BYTES_PER_S, SubjectKind.NODE,
        "TCP payload others acknowledged to the node's processes since the last look",
    )  # fmt: skip
    HOST_CPU = (
        "host-cpu",
        Unit.SHARE,
        SubjectKind.HOST,
        "part of all the host's cores in use since the last look",
    )
    HOST_MEMORY = (
        "host-memory",
        Unit.SHARE,
        SubjectKind.HOST,
        "part of the host's memory that cannot be had any more",
    )
    HOST_DISK_READ = (
        "host-disk-read", Unit.BYTES_PER_S, SubjectKind.HOST,
        "what all disks of the host read since the last look",
    )  # fmt: skip
    HOST_DISK_WRITE = (
        "host-disk-write", Unit.BYTES_PER_S, SubjectKind.HOST,
        "what all disks of the host wrote since the last look",
    )  # fmt: skip
    HOST_NETWORK_IN = (
        "host-network-in", Unit.BYTES_PER_S, SubjectKind.HOST,
        "bytes that came in over all interfaces but loopback since the last look",
    )  # fmt: skip
    HOST_NETWORK_OUT = (
        "host-network-out", Unit.BYTES_PER_S, SubjectKind.HOST,
        "bytes that went out over all interfaces but loopback since the last look",
    )  # fmt: skip

    @classmethod
    def of(cls, key: str) -> Metric:
        """The metric with this key."""
        try:
            return _BY_KEY[key]
        except KeyError:
            raise UnknownNameError("metric", key, _BY_KEY) from None


_BY_KEY = {metric.key: metric for metric in Metric}

AT_MOST_ONE = frozenset(
    {
        Metric.INSTANCE_CPU,
        Metric.INSTANCE_BUSY,
        Metric.NODE_HEAP_SHARE,
        Metric.HOST_CPU,
        Metric.HOST_MEMORY,
    }
)
"""Shares that cannot be more than the whole. A node may use more CPU than its own where nobody confines it."""

AT_LEAST_ONE = frozenset({Metric.NODES, Metric.NODES_REQUESTED, Metric.SLOTS})
"""Counts of what no pipeline runs without."""
