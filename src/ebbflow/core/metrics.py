"""The catalogue of metrics: every measured quantity, declared once with its unit.

The reference page ``docs/metrics.md`` is generated from here (``ebbflow metrics --markdown``).
"""

from __future__ import annotations

from enum import Enum, StrEnum

from ebbflow.errors import UnknownNameError


class Unit(StrEnum):
    """The unit of a value."""

    ROWS = "rows"
    ROWS_PER_S = "rows/s"
    REQUESTS_PER_S = "requests/s"
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
    """Members are singletons. Enum's own hash is Python code, and windows are looked up by metric all the time."""

    ARRIVAL_RATE = (
        "arrival-rate", Unit.ROWS_PER_S, SubjectKind.PIPELINE,
        "rows arriving at the sources per second, whether or not a batch has read them yet; of a datastore, requests "
        "offered per second",
    )  # fmt: skip
    THROUGHPUT = (
        "throughput", Unit.REQUESTS_PER_S, SubjectKind.PIPELINE,
        "requests that a datastore answered per second, counted at the clients",
    )  # fmt: skip
    RESPONSE_TIME = (
        "response-time", Unit.SECONDS, SubjectKind.PIPELINE,
        "mean time from when a request to a datastore was due to its answer, since the last observation",
    )  # fmt: skip
    RESPONSE_TIME_P95 = (
        "response-time-p95", Unit.SECONDS, SubjectKind.PIPELINE,
        "95th percentile of the same",
    )  # fmt: skip
    RESPONSE_TIME_P99 = (
        "response-time-p99", Unit.SECONDS, SubjectKind.PIPELINE,
        "99th percentile of the same",
    )  # fmt: skip
    DATA_SIZE = (
        "data-size", Unit.BYTES, SubjectKind.PIPELINE,
        "data in a datastore, one replica of each row",
    )  # fmt: skip
    QUEUE_LENGTH = (
        "queue-length", Unit.ROWS, SubjectKind.PIPELINE,
        "rows at the sources that no finished batch has processed: those counted from the last offsets, plus "
        "arrival rate × time since; not available if the source does not report its latest offset",
    )  # fmt: skip
    BACKLOG = (
        "backlog", Unit.ROWS, SubjectKind.PIPELINE,
        "rows that had arrived when the last batch started and that it left behind because of a read limit; not "
        "available if the source does not report its latest offset",
    )  # fmt: skip
    FRESHNESS = (
        "freshness", Unit.SECONDS, SubjectKind.PIPELINE,
        "now minus the arrival of the oldest row that is not processed yet",
    )  # fmt: skip
    BATCH_ROWS = ("batch-rows", Unit.ROWS, SubjectKind.PIPELINE, "source rows of a finished batch")
    BATCH_TIME = (
        "batch-time", Unit.SECONDS, SubjectKind.PIPELINE,
        "processing latency: duration of a finished batch, planning and commit included",
    )  # fmt: skip
    SCHEDULING_LATENCY = (
        "scheduling-latency", Unit.SECONDS, SubjectKind.PIPELINE,
        "how much later than its trigger a batch started because the one before still ran",
    )  # fmt: skip
    FIRST_BATCH_TIME = (
        "first-batch-time", Unit.SECONDS, SubjectKind.PIPELINE,
        "duration of the first batch of a query after a start or restart, in which state is loaded",
    )  # fmt: skip
    RESTART_STOP = (
        "restart-stop", Unit.SECONDS, SubjectKind.PIPELINE,
        "from the request for another parallelism until processing stopped, after the running batch or the queues",
    )  # fmt: skip
    RESTART_STATE = (
        "restart-state", Unit.SECONDS, SubjectKind.PIPELINE,
        "time spent repartitioning or moving state in that restart",
    )  # fmt: skip
    RESTART_START = (
        "restart-start", Unit.SECONDS, SubjectKind.PIPELINE,
        "from there until the pipeline ran again; the three readings are taken together at that time",
    )  # fmt: skip
    STATE_ROWS = ("state-rows", Unit.ROWS, SubjectKind.PIPELINE, "keys held by the stateful operators")
    STATE_SIZE = ("state-size", Unit.BYTES, SubjectKind.PIPELINE, "memory held by the state stores")
    ROWS_IN = ("rows-in", Unit.ROWS, SubjectKind.OPERATOR, "rows that entered the operator in a batch")
    ROWS_OUT = ("rows-out", Unit.ROWS, SubjectKind.OPERATOR, "rows that left the operator in a batch")
    OPERATOR_CPU = (
        "operator-cpu", Unit.SECONDS, SubjectKind.OPERATOR,
        "CPU seconds of all instances of an operator in a batch: measured around a Python step, including the JVM's "
        "part if it has keyed state; for other operators their share of the CPU time of their stage, by rows",
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
        "rows queued before an operator of a continuous engine",
    )  # fmt: skip
    INSTANCE_CPU = (
        "instance-cpu", Unit.SHARE, SubjectKind.OPERATOR,
        "share of one core that an instance of the operator used since the last observation, mean of its instances",
    )  # fmt: skip
    INSTANCE_BUSY = (
        "instance-busy", Unit.SHARE, SubjectKind.OPERATOR,
        "share of the time since the last observation in which an instance of the operator was processing rows, "
        "waiting for a core included, mean of its instances",
    )  # fmt: skip
    EVENT_RATE = (
        "event-rate", Unit.ROWS_PER_S, SubjectKind.OPERATOR,
        "events that arrive at an operator of a fleet per second (λ)",
    )  # fmt: skip
    TIME_PER_EVENT = (
        "time-per-event", Unit.SECONDS, SubjectKind.OPERATOR,
        "node seconds that an operator of a fleet takes for an event (p): task time of a batch ÷ rows ÷ slots a node",
    )  # fmt: skip
    FAILED_ROWS = (
        "failed-rows", Unit.ROWS, SubjectKind.PIPELINE,
        "source rows dropped so far because a queue between operators was full",
    )  # fmt: skip
    NODES = ("nodes", Unit.COUNT, SubjectKind.CLUSTER, "nodes running and ready to work")
    NODES_REQUESTED = (
        "nodes-requested",
        Unit.COUNT,
        SubjectKind.CLUSTER,
        "nodes requested and not cancelled",
    )
    NODES_HELD = (
        "nodes-held", Unit.COUNT, SubjectKind.CLUSTER,
        "nodes that are paid for: from the request until they are gone, those of all clusters together",
    )  # fmt: skip
    LOAD = (
        "load", Unit.SHARE, SubjectKind.CLUSTER,
        "load of a cluster of a fleet: Σ over its operators of event rate × time per event, ÷ nodes",
    )  # fmt: skip
    SLOTS = ("slots", Unit.COUNT, SubjectKind.CLUSTER, "tasks that can run at the same time")
    LEAD_TIME = (
        "lead-time",
        Unit.SECONDS,
        SubjectKind.NODE,
        "from the request for a node to its first finished work",
    )
    NODE_CPU = (
        "node-cpu",
        Unit.SHARE,
        SubjectKind.NODE,
        "share of the node's cores in use since the last observation; above 1 if nothing limits it to them",
    )
    ACTIVE_TASKS = ("active-tasks", Unit.COUNT, SubjectKind.NODE, "tasks running on the node now")
    TASK_TIME = ("task-time", Unit.SECONDS, SubjectKind.NODE, "task seconds of the node so far")
    NODE_MEMORY = (
        "node-memory", Unit.BYTES, SubjectKind.NODE,
        "resident memory of the node's processes; shared pages count once per process",
    )  # fmt: skip
    NODE_HEAP = ("node-heap", Unit.BYTES, SubjectKind.NODE, "Java heap in use, garbage included")
    NODE_HEAP_SHARE = (
        "node-heap-share", Unit.SHARE, SubjectKind.NODE,
        "Java heap in use ÷ its maximum size, garbage included",
    )  # fmt: skip
    NODE_DISK_READ = (
        "node-disk-read", Unit.BYTES_PER_S, SubjectKind.NODE,
        "disk reads of the node's processes since the last observation, without the page cache",
    )  # fmt: skip
    NODE_DISK_WRITE = (
        "node-disk-write", Unit.BYTES_PER_S, SubjectKind.NODE,
        "disk writes of the node's processes since the last observation",
    )  # fmt: skip
    NODE_NETWORK_IN = (
        "node-network-in", Unit.BYTES_PER_S, SubjectKind.NODE,
        "TCP payload the node's processes received since the last observation, except from each other",
    )  # fmt: skip
    NODE_NETWORK_OUT = (
        "node-network-out", Unit.BYTES_PER_S, SubjectKind.NODE,
        "TCP payload sent by the node's processes and acknowledged since the last observation, except to each other",
    )  # fmt: skip
    NODE_REQUESTS = (
        "node-requests", Unit.REQUESTS_PER_S, SubjectKind.NODE,
        "requests that a node of a datastore coordinated per second since the last observation",
    )  # fmt: skip
    PENDING_TASKS = (
        "pending-tasks", Unit.COUNT, SubjectKind.NODE,
        "tasks that wait for a thread of a node of a datastore now",
    )  # fmt: skip
    STREAMS = ("streams", Unit.COUNT, SubjectKind.NODE, "transfers of data that run from or to the node now")
    NODE_DATA = ("node-data", Unit.BYTES, SubjectKind.NODE, "data that a node of a datastore stores")
    JOIN_TIME = (
        "join-time", Unit.SECONDS, SubjectKind.NODE,
        "from the request for a node of a datastore until it is active",
    )  # fmt: skip
    LEAVE_TIME = (
        "leave-time", Unit.SECONDS, SubjectKind.NODE,
        "from the request to remove a node of a datastore until its data has moved",
    )  # fmt: skip
    CLEANUP_TIME = (
        "cleanup-time", Unit.SECONDS, SubjectKind.NODE,
        "how long a node took to drop the data that it handed over",
    )  # fmt: skip
    HOST_CPU = (
        "host-cpu",
        Unit.SHARE,
        SubjectKind.HOST,
        "share of the host's cores in use since the last observation",
    )
    HOST_MEMORY = (
        "host-memory",
        Unit.SHARE,
        SubjectKind.HOST,
        "share of the host's memory that is not available",
    )
    HOST_DISK_READ = (
        "host-disk-read", Unit.BYTES_PER_S, SubjectKind.HOST,
        "reads of all disks of the host since the last observation",
    )  # fmt: skip
    HOST_DISK_WRITE = (
        "host-disk-write", Unit.BYTES_PER_S, SubjectKind.HOST,
        "writes of all disks of the host since the last observation",
    )  # fmt: skip
    HOST_NETWORK_IN = (
        "host-network-in", Unit.BYTES_PER_S, SubjectKind.HOST,
        "bytes received on all interfaces but loopback since the last observation",
    )  # fmt: skip
    HOST_NETWORK_OUT = (
        "host-network-out", Unit.BYTES_PER_S, SubjectKind.HOST,
        "bytes sent on all interfaces but loopback since the last observation",
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
"""Shares that cannot exceed 1. A node may use more CPU than its own cores if nothing limits it."""

AT_LEAST_ONE = frozenset({Metric.NODES, Metric.NODES_REQUESTED, Metric.SLOTS})
"""Counts that are at least 1 while a pipeline runs."""
