"""The configuration and command line of a Cassandra node on this machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

JMX_USER = "ebbflow"
CQL_PORT = 9042
DATA_CENTER = "dc1"

_EXPORTS = (
    "java.base/java.lang.ref",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.management/com.sun.jmx.remote.security",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
)
_OPENS = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "java.rmi/sun.rmi.transport.tcp",
    "jdk.management/com.sun.management.internal",
)
_MODULE_OPTIONS = (
    *(each for name in _EXPORTS for each in ("--add-exports", f"{name}=ALL-UNNAMED")),
    *(each for name in _OPENS for each in ("--add-opens", f"{name}=ALL-UNNAMED")),
)
"""What Cassandra needs of the JVM's own packages on Java 17."""

_LOGBACK = """<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%-5level %date{ISO8601} %F:%L - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="OUT"/></root>
</configuration>
"""


@dataclass(frozen=True, kw_only=True)
class NodeFiles:
    """The files of one node: configuration, data and log in a folder of its own."""

    folder: Path
    jars: Path
    java: str
    cluster_name: str
    address: str
    seeds: Sequence[str]
    rack: str
    jmx_port: int
    jmx_password: str
    replication_factor: int
    ring_delay_s: float
    heap_mb: int
    requests_per_s: int | None = None
    """Limit of the requests that the node coordinates; None for no limit."""
    bootstrap: bool = True
    """Whether it takes over data when it joins."""
    wait_for_gossip: bool = True
    """Whether it waits until gossip settles, as in production."""

    @property
    def data(self) -> Path:
        """The data, removed before the node joins anew."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """What the node writes."""
        return self.folder / "node.log"

    @property
    def _passwords(self) -> Path:
        return self.folder / "jmx.password"

    def write(self) -> None:
        """Write the configuration."""
        self.folder.mkdir(parents=True, exist_ok=True)
        settings: dict[str, object] = {
            "cluster_name": self.cluster_name,
            "num_tokens": 16,
            "allocate_tokens_for_local_replication_factor": self.replication_factor,
            "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
            "endpoint_snitch": "GossipingPropertyFileSnitch",
            "listen_address": self.address,
            "rpc_address": self.address,
            "native_transport_port": CQL_PORT,
            "seed_provider": [
                {
                    "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                    "parameters": [{"seeds": ",".join(self.seeds)}],
                }
            ],
            "commitlog_sync": "periodic",
            "commitlog_sync_period": "1000ms",
            "commitlog_segment_size": "8MiB",
            "commitlog_total_space": "64MiB",
            "memtable_heap_space": "64MiB",
            "concurrent_compactors": 1,
            "auto_bootstrap": self.bootstrap,
            "auto_snapshot": False,
            "hinted_handoff_enabled": True,
            "read_request_timeout": "10s",
            "write_request_timeout": "10s",
        }
        if self.requests_per_s is not None:
            settings["native_transport_max_requests_per_second"] = self.requests_per_s
            settings["native_transport_rate_limiting_enabled"] = True
        # JSON is YAML.
        (self.folder / "cassandra.yaml").write_text(json.dumps(settings, indent=1))
        (self.folder / "logback.xml").write_text(_LOGBACK)
        (self.folder / "cassandra-rackdc.properties").write_text(f"dc={DATA_CENTER}\nrack={self.rack}\n")
        self._write_private(self._passwords, f"{JMX_USER} {self.jmx_password}\n")
        self._write_private(self.folder / "jmx.access", f"{JMX_USER} readwrite\n")

    @staticmethod
    def _write_private(path: Path, text: str) -> None:
        path.touch(mode=0o600)  # the JVM refuses a password file that others can read
        path.write_text(text)

    def command(self) -> list[str]:
        """The command that runs the node in the foreground."""
        jamm = next(self.jars.glob("jamm-*.jar"))
        return [
            self.java,
            f"-Xmx{self.heap_mb}m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",  # nodes on one machine share its cores with their own compilers
            "-XX:+ExitOnOutOfMemoryError",
            f"-javaagent:{jamm}",
            "-Djdk.attach.allowAttachSelf=true",
            *_MODULE_OPTIONS,
            "-Dcassandra-foreground=yes",
            f"-Dcassandra.config={(self.folder / 'cassandra.yaml').as_uri()}",
            f"-Dcassandra.storagedir={self.data}",
            f"-Dcassandra.ring_delay_ms={round(self.ring_delay_s * 1000)}",
            *([] if self.wait_for_gossip else ["-Dcassandra.skip_wait_for_gossip_to_settle=0"]),
            f"-Dcassandra.jmx.local.port={self.jmx_port}",
            "-Dcom.sun.management.jmxremote.authenticate=true",
            f"-Dcom.sun.management.jmxremote.password.file={self._passwords}",
            f"-Dcom.sun.management.jmxremote.access.file={self.folder / 'jmx.access'}",
            f"-Djava.io.tmpdir={self.folder}",
            "-cp",
            f"{self.folder}:{self.jars}/*",
            "org.apache.cassandra.service.CassandraDaemon",
        ]

    def nodetool(self) -> list[str]:
        """The command of ``nodetool`` for this node, before its arguments."""
        return [
            self.java,
            "-Xmx64m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            *_MODULE_OPTIONS,
            "-Dcom.sun.jndi.rmiURLParsing=legacy",
            f"-Duser.home={self.folder}",  # its history goes there
            f"-Dcassandra.config={(self.folder / 'cassandra.yaml').as_uri()}",
            f"-Dlogback.configurationFile={self.folder / 'logback.xml'}",
            "-cp",
            f"{self.jars}/*",
            "org.apache.cassandra.tools.NodeTool",
            *("-h", "127.0.0.1", "-p", str(self.jmx_port), "-u", JMX_USER, "-pwf", str(self._passwords)),
        ]
