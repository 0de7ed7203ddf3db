"""Coordination in ZooKeeper: for several controllers, and hosts on any machine.

::

    ROOT/FLEET/hosts/APPLICATION       ephemeral: the host of an application
    ROOT/FLEET/leader                  ephemeral: the controller that leads
    ROOT/FLEET/records/QUERY           the record; its version is that of the node
    ROOT/FLEET/wish

Ephemeral nodes end with the session of their process. While ZooKeeper does not answer, nobody starts or moves a query,
and every query that runs goes on.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from ebbflow.errors import InputError, OutdatedError, TargetError
from ebbflow.targets.fleet.coordination import Member, Record, Wish

SESSION_S = 10.0
ANSWER_WITHIN_S = 5.0
T = TypeVar("T")


def connect(address: str, fleet: str, *, session_s: float = SESSION_S) -> ZooKeeperCoordination:
    """Connect to ``zookeeper://HOST:PORT,…/path``, for the fleet of a name. Returns at once, connected or not."""
    try:
        from kazoo.client import KazooClient
        from kazoo.retry import KazooRetry
    except ImportError:
        raise InputError(
            "coordination in ZooKeeper needs kazoo; run pip install 'ebbflow[zookeeper]'"
        ) from None
    servers, _, root = address.removeprefix("zookeeper://").partition("/")
    logging.getLogger("kazoo").setLevel(logging.ERROR)  # it logs every attempt to reconnect
    forever = KazooRetry(max_tries=-1, delay=0.1, backoff=1.5, max_delay=2.0)
    client = KazooClient(
        hosts=servers, timeout=session_s, connection_retry=forever, command_retry=KazooRetry(max_tries=0)
    )
    client.start_async()
    return ZooKeeperCoordination(client, f"/{root}/{fleet}" if root else f"/ebbflow/{fleet}")


class ZooKeeperCoordination:
    """The port, in ZooKeeper."""

    def __init__(self, client: Any, root: str) -> None:
        self._client = client
        self._root = re.sub(r"/+", "/", root)

    # -- members -------------------------------------------------------------------------------

    def join(self, host: Member) -> None:
        """Announce a host that has started."""
        self._take(f"hosts/{host.name}", host)

    def stay(self, host: Member) -> bool:
        """Announce that a host is still there; False if another has taken its place."""
        found = self._read(f"hosts/{host.name}", Member)
        if found is None:  # the session had expired, and nobody has taken its place
            return self._create(f"hosts/{host.name}", host)
        return found.boot == host.boot

    def leave(self, host: Member) -> None:
        """Withdraw a host, unless another has taken its place."""
        self._drop(f"hosts/{host.name}", host.boot)

    def hosts(self) -> Mapping[str, Member]:
        """Hosts that are there, by application."""
        found = {name: self._read(f"hosts/{name}", Member) for name in self._children("hosts")}
        return {name: member for name, member in found.items() if member is not None}

    def lead(self, controller: Member) -> bool:
        """Ask for leadership, or keep it; whether this controller leads."""
        leader = self.leader()
        return self._create("leader", controller) if leader is None else leader.boot == controller.boot

    def leader(self) -> Member | None:
        """The controller that leads."""
        return self._read("leader", Member)

    def resign(self, controller: Member) -> None:
        """Give leadership up."""
        self._drop("leader", controller.boot)

    def _take(self, path: str, member: Member) -> None:
        """Put an ephemeral node of this session in place of any other."""
        for _ in range(5):
            if self._create(path, member):
                return
            found = self._read(path, Member)
            if found is not None and found.boot == member.boot:
                return
            if found is not None:
                self._drop(path, found.boot)
        raise TargetError(f"ZooKeeper: others keep taking {self._root}/{path}")

    def _create(self, path: str, member: Member) -> bool:
        from kazoo.exceptions import NodeExistsError

        try:
            self._answer("create", path, msgspec.json.encode(member), ephemeral=True, makepath=True)
        except NodeExistsError:
            return False
        return True

    def _drop(self, path: str, boot: str) -> None:
        from kazoo.exceptions import BadVersionError, NoNodeError

        found = self._get(path)
        if found is not None and msgspec.json.decode(found[0], type=Member).boot == boot:
            with contextlib.suppress(NoNodeError, BadVersionError):
                self._answer("delete", path, version=found[1].version)

    # -- records -------------------------------------------------------------------------------

    def records(self) -> Mapping[str, Record]:
        """Records by query."""
        found = {name: self.record(name) for name in sorted(self._children("records"))}
        return {name: record for name, record in found.items() if record is not None}

    def record(self, query: str) -> Record | None:
        """The record of a query."""
        found = self._get(f"records/{query}")
        if found is None:
            return None
        record = msgspec.json.decode(found[0], type=Record)
        return msgspec.structs.replace(record, version=found[1].version)

    def change(self, before: Record | None, after: Record) -> Record:
        """Replace a record; ``OutdatedError`` if it is no longer ``before``."""
        from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

        path, body = f"records/{after.query}", msgspec.json.encode(after)
        try:
            if before is None:
                self._answer("create", path, body, makepath=True)
                return msgspec.structs.replace(after, version=0)
            stat = self._answer("set", path, body, version=before.version)
        except (BadVersionError, NodeExistsError, NoNodeError):
            raise OutdatedError(f"someone else has changed the record of query {after.query}") from None
        return msgspec.structs.replace(after, version=stat.version)

    def remove(self, record: Record) -> None:
        """Remove the record of a query."""
        from kazoo.exceptions import BadVersionError, NoNodeError

        with contextlib.suppress(NoNodeError, BadVersionError):
            self._answer("delete", f"records/{record.query}", version=record.version)

    # -- wishes --------------------------------------------------------------------------------

    def wish(self) -> Wish:
        """What users asked for."""
        found = self._get("wish")
        return Wish.RUN if found is None else Wish(found[0].decode())

    def set_wish(self, wish: Wish) -> None:
        """Ask for something."""
        from kazoo.exceptions import NodeExistsError

        with contextlib.suppress(NodeExistsError):
            self._answer("create", "wish", wish.value.encode(), makepath=True)
        self._answer("set", "wish", wish.value.encode())

    def close(self) -> None:
        """End the session, and with it what was announced."""
        self._client.stop()
        self._client.close()

    # -- calls ---------------------------------------------------------------------------------

    def _answer(self, what: str, path: str, *arguments: Any, **options: Any) -> Any:
        """Call ZooKeeper and wait for its answer, for a limited time: the client itself waits for a connection."""
        with _target_errors():
            call = getattr(self._client, f"{what}_async")
            return call(f"{self._root}/{path}", *arguments, **options).get(timeout=ANSWER_WITHIN_S)

    def _get(self, path: str) -> Any:
        from kazoo.exceptions import NoNodeError

        try:
            return self._answer("get", path)
        except NoNodeError:
            return None

    def _read(self, path: str, kind: type[T]) -> T | None:
        found = self._get(path)
        with _target_errors():
            return None if found is None else msgspec.json.decode(found[0], type=kind)

    def _children(self, path: str) -> list[str]:
        from kazoo.exceptions import NoNodeError

        try:
            return list(self._answer("get_children", path))
        except NoNodeError:
            return []


@contextlib.contextmanager
def _target_errors() -> Iterator[None]:
    """Turn failures of the connection into ``TargetError``; answers like "no such node" pass."""
    from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError
    from kazoo.handlers.threading import KazooTimeoutError

    try:
        yield
    except (BadVersionError, NodeExistsError, NoNodeError):
        raise
    except (KazooException, KazooTimeoutError, OSError, msgspec.MsgspecError) as error:
        raise TargetError(f"ZooKeeper does not answer: {type(error).__name__} {error}".rstrip()) from error
