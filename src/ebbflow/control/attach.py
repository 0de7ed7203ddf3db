"""``ebbflow.attach``: the loop, in a thread of its own, on a Spark session that is already there."""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ebbflow.control.loop import ControlLoop, CycleReport
from ebbflow.control.policy_file import PolicyFile
from ebbflow.core.clock import Clock, SystemClock
from ebbflow.core.decision import LedgerEntry
from ebbflow.core.limits import Limits
from ebbflow.core.ports import Strategy, Target
from ebbflow.core.slo import Slo
from ebbflow.errors import EbbflowError, InputError
from ebbflow.guards import guards_for
from ebbflow.monitoring.addresses import check
from ebbflow.monitoring.collector import Collector
from ebbflow.monitoring.keys import CollectorKeys, collector_keys
from ebbflow.monitoring.store import Store
from ebbflow.monitoring.with_agents import WithAgents
from ebbflow.policy.model import Policy
from ebbflow.strategies import Rules, make_strategy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ebbflow.targets.spark.restart import ManagedQuery

log = logging.getLogger("ebbflow")

DEFAULT_SLO = "freshness p95 <= 30s"


class Attached:
    """A running loop. Stop it with ``stop``, or leave it: it ends with the application."""

    def __init__(self, loop: ControlLoop | None, store: Store | None, close: Callable[[], None]) -> None:
        self._loop = loop
        self.store = store
        self._close = close
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if loop is not None:
            # Daemon: a job that ends must never wait for us.
            self._thread = threading.Thread(
                target=loop.run, args=(self._stop,), name="ebbflow-loop", daemon=True
            )
            self._thread.start()

    @property
    def active(self) -> bool:
        """Whether anything is being scaled."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def decisions(self) -> Sequence[LedgerEntry]:
        """The ledger of this run so far."""
        return [] if self._loop is None else self._loop.ledger.entries

    @property
    def reconfigurations(self) -> int:
        """How often the layout was changed."""
        return 0 if self._loop is None else self._loop.ledger.reconfigurations

    def stop(self, within_s: float = 40.0) -> None:
        """End the loop; the application goes on as it is."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(within_s)
            self._thread = None
            self._close()


def check_agents(addresses: Sequence[str], keys_folder: str | Path | None) -> CollectorKeys | None:
    """The keys to call these agents with; an error where an address or a key cannot be used."""
    keys = None if keys_folder is None else collector_keys(Path(keys_folder))
    for address in addresses:
        check(address, has_keys=keys is not None)
    return keys


def attach(
    spark: SparkSession,
    *,
    executors: tuple[int, int] = (1, 10),
    slo: str | Slo = DEFAULT_SLO,
    strategy: str | Strategy = "capacity",
    policy: str | Path | Policy | None = None,
    queries: Sequence[ManagedQuery] = (),
    store: str | Path | None = None,
    dry_run: bool = False,
    agents: Sequence[str] = (),
    agent_keys: str | Path | None = None,
    cycle_s: float = 1.0,
    clock: Clock | None = None,
    on_cycle: Callable[[CycleReport], None] | None = None,
    master_web_url: str | None = None,
) -> Attached:
    """Scale the executors of this session's application between two bounds, for an objective.

    What a person got wrong (a strategy that does not exist, an SLO that does not parse) is an error at once.
    What the world got wrong (a master without executors, a disk that is full) is logged and leaves the job
    as it was: the answer then is not ``active``.

    With a ``policy`` its rules decide, whatever ``strategy`` says. One in a file is followed while the job
    runs: what is written there, and can be meant, holds from the next cycle on.

    With ``dry_run`` everything is decided and written to the ledger, and nothing is done: to see first.
    ``agents`` are the addresses of agents on the worker hosts; only what the policy looks at is heard from them.
    Beyond this machine that needs ``agent_keys``, the folder ``DIR/collector`` of `ebbflow agent keys DIR`.
    ``queries`` may be restarted with another parallelism of their operators. ``store`` is the SQLite file
    for readings and ledger; without one they go to a temporary file that goes with the job.
    """
    try:
        limits = Limits(min_nodes=executors[0], max_nodes=executors[1])
    except (TypeError, IndexError):
        raise InputError(f"executors={executors!r} is not (fewest, most); write executors=(1, 20)") from None
    objective = slo if isinstance(slo, Slo) else Slo.parse(slo)
    chosen = make_strategy(strategy) if isinstance(strategy, str) else strategy
    followed = PolicyFile(policy) if isinstance(policy, str | Path) else None
    if followed is not None:
        chosen = followed.rules
    elif isinstance(policy, Policy):
        chosen = Rules(policy)
    keys = check_agents(agents, agent_keys)
    time = clock or SystemClock()
    try:
        from ebbflow.targets.spark.target import SparkTarget

        target: Target = SparkTarget(spark, time, managed=tuple(queries), master_web_url=master_web_url)
        if agents:
            application = str(spark.sparkContext.applicationId)
            collector = Collector(agents, application=application, keys=keys)
            target = WithAgents(target, collector, lambda: getattr(chosen, "needed_series", ()))
        folder = None if store else tempfile.TemporaryDirectory(prefix="ebbflow-", ignore_cleanup_errors=True)
        kept = Store(Path(folder.name) / "run.sqlite" if folder else Path(store or ""), time)
    except EbbflowError as error:
        log.warning("not scaling: %s", error)
        return Attached(None, None, lambda: None)
    except Exception:
        log.exception("not scaling, because of a fault of ours; the job goes on untouched")
        return Attached(None, None, lambda: None)
    loop = ControlLoop(
        target=target,
        strategy=chosen,
        guards=guards_for(chosen),  # as in the simulator
        store=kept,
        clock=time,
        limits=limits,
        slo=objective,
        cycle_s=cycle_s,
        dry_run=dry_run,
        on_cycle=on_cycle,
        between=followed.look if followed is not None else None,
    )

    def close() -> None:
        target.close()
        kept.close()
        if folder is not None:
            folder.cleanup()

    log.info("scaling %s:%s executors for %s with %s", *executors, objective, chosen.name)
    return Attached(loop, kept, close)
