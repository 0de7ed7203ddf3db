"""What is used of the Cassandra driver: one session, queries to a given node, and errors in our own words."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ebbflow.errors import InputError, TargetError, UnreachableError

OLDEST = (4, 1)
"""The first release with gossip and streams in virtual tables."""
CONNECT_WITHIN_S = 10.0
QUERY_WITHIN_S = 5.0

Row = Mapping[str, Any]


def _driver() -> Any:
    try:
        import cassandra.cluster as driver
    except ImportError:
        raise InputError(
            "the target cassandra needs the driver of Cassandra; pip install 'ebbflow[cassandra]'"
        ) from None
    logging.getLogger("cassandra").setLevel(logging.CRITICAL)  # it logs every lost connection with a trace
    return driver


class Connection:
    """A session on a cluster."""

    def __init__(
        self,
        contacts: Sequence[str],
        *,
        port: int = 9042,
        data_center: str | None = None,
        user: str | None = None,
        password: str | None = None,
        executor_threads: int = 2,
    ) -> None:
        driver = _driver()
        from cassandra.auth import PlainTextAuthProvider
        from cassandra.policies import (
            ConstantReconnectionPolicy,
            DCAwareRoundRobinPolicy,
            RoundRobinPolicy,
            TokenAwarePolicy,
        )
        from cassandra.query import dict_factory

        self._driver = driver
        inner = DCAwareRoundRobinPolicy(data_center) if data_center else RoundRobinPolicy()
        # Without shuffling one replica of each range would coordinate all its requests.
        profile = driver.ExecutionProfile(
            load_balancing_policy=TokenAwarePolicy(inner, shuffle_replicas=True),
            row_factory=dict_factory,
            request_timeout=QUERY_WITHIN_S,
        )
        self._cluster = driver.Cluster(
            list(contacts),
            port=port,
            execution_profiles={driver.EXEC_PROFILE_DEFAULT: profile},
            auth_provider=PlainTextAuthProvider(user, password or "") if user else None,
            connect_timeout=CONNECT_WITHIN_S,
            control_connection_timeout=QUERY_WITHIN_S,
            reconnection_policy=ConstantReconnectionPolicy(1.0, max_attempts=None),
            executor_threads=executor_threads,
            protocol_version=5,
            schema_metadata_enabled=True,
        )
        try:
            self.session = self._cluster.connect()
        except Exception as error:  # NoHostAvailable and others, which have no common class
            self._cluster.shutdown()
            raise UnreachableError(
                f"no Cassandra answers at {', '.join(contacts)}, port {port}: {_first_cause(error)}"
            ) from None
        self._check_version(contacts)

    def _check_version(self, contacts: Sequence[str]) -> None:
        local = self.query("SELECT cluster_name, release_version FROM system.local")[0]
        self.version, self.cluster_name = str(local["release_version"]), str(local["cluster_name"])
        numbers = [int("".join(filter(str.isdigit, part)) or 0) for part in self.version.split(".")[:2]]
        if tuple(numbers) < OLDEST:
            self.close()
            raise InputError(
                f"{contacts[0]} runs Cassandra {self.version}; Ebbflow needs {'.'.join(map(str, OLDEST))} or later"
            )

    @property
    def replication_factor(self) -> int:
        """The largest replication factor of the user's keyspaces in one data centre; 1 without keyspaces."""
        factors = [1]
        for name, keyspace in self._cluster.metadata.keyspaces.items():
            if not name.startswith("system") and keyspace.replication_strategy is not None:
                factors += _factors(keyspace.replication_strategy)
        return max(factors)

    @property
    def keyspaces(self) -> list[str]:
        """The keyspaces of the user."""
        return [name for name in self._cluster.metadata.keyspaces if not name.startswith("system")]

    def query(self, cql: str, parameters: Sequence[Any] | None = None, host: str | None = None) -> list[Row]:
        """The rows of a query, by a given node or by any. Raises ``TargetError`` if it fails."""
        try:
            return list(self.session.execute(cql, parameters, host=self._host(host), timeout=QUERY_WITHIN_S))
        except TargetError:
            raise
        except Exception as error:
            where = host or "the cluster"
            raise TargetError(f"{where} does not answer: {_first_cause(error)}") from None

    def query_each(self, queries: Mapping[str, str], host: str) -> dict[str, list[Row]]:
        """Several queries to one node at once, by name. Raises ``TargetError`` if one fails."""
        try:
            asked = {
                name: self.session.execute_async(cql, host=self._host(host), timeout=QUERY_WITHIN_S)
                for name, cql in queries.items()
            }
            return {name: list(future.result()) for name, future in asked.items()}
        except TargetError:
            raise
        except Exception as error:
            raise TargetError(f"{host} does not answer: {_first_cause(error)}") from None

    def _host(self, address: str | None) -> Any:
        if address is None:
            return None
        found = self._cluster.metadata.get_host(address)
        if found is None:
            raise TargetError(f"the driver does not know {address} yet")
        return found

    def close(self) -> None:
        """End the session; the cluster runs on."""
        with contextlib.suppress(Exception):
            self._cluster.shutdown()


def _factors(strategy: Any) -> list[int]:
    by_center = getattr(strategy, "dc_replication_factors", None)
    if by_center:
        return [int(factor) for factor in by_center.values()]
    factor = getattr(strategy, "replication_factor", None)
    return [int(factor)] if factor else []


def _first_cause(error: Exception) -> str:
    """One line for an error of the driver, whose own text lists every host."""
    causes = getattr(error, "errors", None)
    first = next(iter(causes.values()), error) if isinstance(causes, dict) else error
    return " ".join(str(first).split())[:200] or type(first).__name__
