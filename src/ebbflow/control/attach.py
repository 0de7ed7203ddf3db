"""``ebbflow.attach``: the loop, in a thread of its own, on a Spark session that is already there."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ebbflow.control.ledger import ACT
from ebbflow.control.loop import ControlLoop, CycleReport
from ebbflow.control.policy_file import PolicyFile
from ebbflow.control.policy_in_force import PolicyInForce
from ebbflow.core.clock import Clock, SystemClock
from ebbflow.core.decision import LedgerEntry
from ebbflow.core.limits import Limits
from ebbflow.core.ports import Strategy, Target
from ebbflow.core.scratch import scratch_folder
from ebbflow.core.slo import Slo
from ebbflow.errors import EbbflowError, InputError
from ebbflow.guards import guards_for
from ebbflow.monitoring.addresses import check
from ebbflow.monitoring.collector import Collector
from ebbflow.monitoring.keys import CollectorKeys, collector_keys
from ebbflow.monitoring.store import Store
from ebbflow.monitoring.with_agents import WithAgents
from ebbflow.policy.files import load_policy
from ebbflow.policy.model import Policy
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.given_profiles import estimators_on_spark, read_profiles
from ebbflow.profiling.profile import Profile
from ebbflow.strategies import make_strategy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ebbflow.targets.spark.restart import ManagedQuery

log = logging.getLogger("ebbflow")

TEMPORARY_S = 2 * 3600.0
"""How long readings and holds stay in a store that goes with the job: nobody reads it later."""
DEFAULT_SLO = "freshness p95 <= 30s"


@dataclass(frozen=True, kw_only=True)
class History:
    """The ledger of a run as far as it is told."""

    entries: Sequence[LedgerEntry]
    """Every act, and the newest holds, oldest first."""
    left_out: int
    """Older holds that are not among them."""


class Attached:
    """A running loop. Stop it with ``stop``, or leave it: it ends with the application."""

    def __init__(
        self,
        loop: ControlLoop | None,
        store: Store | None,
        close: Callable[[], None],
        *,
        policy: PolicyInForce | None = None,
        collector: Collector | None = None,
        application: str | None = None,
    ) -> None:
        self._loop = loop
        self._application = application
        self.store = store
        self._close = close
        self._policy = policy
        self._collector = collector
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if loop is not None:
            if application is not None:
                _RUNNING[application] = self
            # Daemon: a job that ends must never wait for us.
            self._thread = threading.Thread(target=self._run, args=(loop,), name="ebbflow-loop", daemon=True)
            self._thread.start()

    def _run(self, loop: ControlLoop) -> None:
        try:
            loop.run(self._stop)
        finally:
            if self._application is not None and _RUNNING.get(self._application) is self:
                _RUNNING.pop(self._application, None)

    @property
    def active(self) -> bool:
        """Whether anything is being scaled."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def decisions(self) -> Sequence[LedgerEntry]:
        """The newest entries of the ledger of this run; ``history`` has every act."""
        return [] if self._loop is None else self._loop.ledger.entries

    def history(self) -> History:
        """Every act of this run, from the store where they are no longer at hand, and the newest holds."""
        if self._loop is None or self.store is None:
            return History(entries=[], left_out=0)
        ledger = self._loop.ledger
        written, recent = ledger.written, ledger.entries
        older: list[LedgerEntry] = []
        if written > len(recent) and ledger.first_id is not None:
            try:
                acts = self.store.ledger(ledger.first_id - 1, verdict=ACT)
                older = [LedgerEntry.from_json(act) for act in acts if act["id"] < recent[0].entry_id]
            except EbbflowError as error:
                log.warning("only the newest decisions can be told: %s", error)
        return History(entries=[*older, *recent], left_out=max(0, written - len(older) - len(recent)))

    @property
    def reconfigurations(self) -> int:
        """How often the layout was changed."""
        return 0 if self._loop is None else self._loop.ledger.reconfigurations

    @property
    def agents(self) -> dict[str, int] | None:
        """How many messages of agents were heard, and dropped for what; None where no agent was named."""
        return None if self._collector is None else self._collector.counts.to_json()

    def use(self, policy: str | Path | Policy) -> None:
        """Let another policy decide from the next cycle on; rules that are the same keep their histories.

        One that cannot be meant is an error and changes nothing. A policy file that is followed is followed
        on: what is written there later takes over again.
        """
        if self._policy is None:
            raise InputError("no policy decides here; attach with policy=… to be able to replace it")
        self._policy.use(policy if isinstance(policy, Policy) else load_policy(policy))

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
        check(address, has_keys=keys is not None, option="--agent-keys (in Python agent_keys=)")
    return keys


def recall_acts(policy: PolicyInForce, store: Store, now_s: float) -> None:
    """Guard times that began before this start, from the ledger of the store; where that cannot be read, from now."""
    try:
        acts = [LedgerEntry.from_json(act) for act in store.ledger(verdict=ACT)]
    except (EbbflowError, LookupError, TypeError) as error:  # of another version, or damaged
        log.warning("guard times start afresh, the ledger before cannot be read: %s", error)
        return
    policy.rules.recall(act for act in acts if act.time_s <= now_s)


def attach(
    spark: SparkSession,
    *,
    executors: tuple[int, int] = (1, 10),
    slo: str | Slo = DEFAULT_SLO,
    strategy: str | Strategy = "capacity",
    policy: str | Path | Policy | None = None,
    profiles: str | Path | Profile | Sequence[str | Path | Profile] = (),
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

    ``profiles``, as `ebbflow profile` writes them, are for the strategies symbiotic and symbiotic-proactive; each is
    of the query of its name. docs/profiles.md says what is taken from it on Spark.

    With ``dry_run`` everything is decided and written to the ledger, and nothing is done: to see first.
    ``agents`` are the addresses of agents on the worker hosts; only what the policy looks at is heard from them.
    Beyond this machine that needs ``agent_keys``, the folder ``DIR/collector`` of `ebbflow agent keys DIR`.
    ``queries`` may be restarted with another parallelism of their operators. ``store`` is the SQLite file
    for readings and ledger; without one they go to a temporary file that goes with the job and keeps two hours.
    In one of an earlier run the guard times of a policy go on from its ledger; else they begin with the run.
    """
    limits, objective = _limits(executors), _objective(slo)
    chosen = _strategy(strategy, _estimators(profiles))
    if not (isinstance(cycle_s, int | float) and 0.05 <= cycle_s < math.inf):
        raise InputError(f"cycle_s={cycle_s!r} is no time between two looks; write seconds, like cycle_s=1.0")
    for query in queries:
        if not hasattr(query, "restart"):
            raise InputError(
                f"queries={query!r} cannot be restarted; give ebbflow.ManagedQuery objects, or none"
            )
    followed: PolicyInForce | None = None
    if policy is not None:
        if profiles:
            raise InputError("rules do not size by profiles; leave policy=… or profiles=… out")
        followed = PolicyInForce(policy) if isinstance(policy, Policy) else PolicyFile(policy)
        chosen = followed.rules
    keys = check_agents(agents, agent_keys)
    time = clock or SystemClock()
    try:
        from ebbflow.targets.spark.target import SparkTarget

        application = str(spark.sparkContext.applicationId)
        _take_over(application)
        collector = None
        target: Target = SparkTarget(
            spark,
            time,
            managed=tuple(queries),
            min_nodes=limits.min_nodes,
            master_web_url=master_web_url,
        )
        if agents:
            collector = Collector(agents, application=application, keys=keys)
            target = WithAgents(target, collector, lambda: getattr(chosen, "needed_series", ()))
        folder = None if store else scratch_folder("store")
        if folder is not None:
            path = Path(folder.name) / "run.sqlite"
            kept = Store(path, time, keep_readings_s=TEMPORARY_S, keep_holds_s=TEMPORARY_S)
        else:
            kept = Store(Path(store or ""), time)
            kept.set_terms({"slo": str(objective), "nodes": str(limits)})
            if followed is not None:
                recall_acts(followed, kept, time.now_s())
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
    return Attached(loop, kept, close, policy=followed, collector=collector, application=application)


_RUNNING: dict[str, Attached] = {}
"""The loop of each application while it runs, by its id: two would undo each other's work."""


def _take_over(application: str) -> None:
    """End the loop that runs on the application already: a cell of a notebook is run again, a script has its own."""
    before = _RUNNING.pop(application, None)
    if before is not None and before.active:
        log.warning(
            "this application was being scaled already; that loop is ended, and the new one takes over"
        )
        before.stop()


def _limits(executors: tuple[int, int]) -> Limits:
    try:
        fewest, most = executors
        if {type(fewest), type(most)} != {int}:
            raise TypeError
    except (TypeError, ValueError):
        raise InputError(f"executors={executors!r} is not (fewest, most); write executors=(1, 20)") from None
    return Limits(min_nodes=fewest, max_nodes=most)


def _objective(slo: str | Slo) -> Slo:
    if isinstance(slo, Slo):
        return slo
    if not isinstance(slo, str):
        raise InputError(f"slo={slo!r} is no objective; write slo='freshness p95 <= 30s'")
    return Slo.parse(slo)


def _estimators(profiles: str | Path | Profile | Sequence[str | Path | Profile]) -> dict[str, Estimator]:
    given = [profiles] if isinstance(profiles, str | Path | Profile) else list(profiles)
    named = {f"profiles[{number}]": each for number, each in enumerate(given) if isinstance(each, Profile)}
    files = [each for each in given if not isinstance(each, Profile)]
    for each in files:
        if not isinstance(each, str | Path):
            raise InputError(
                f"profiles={each!r} is no profile; give the name of a file, or an ebbflow Profile"
            )
    return estimators_on_spark(read_profiles(files) | named)


def _strategy(strategy: str | Strategy, estimators: Mapping[str, Estimator]) -> Strategy:
    if isinstance(strategy, str):
        return make_strategy(strategy, estimators)
    if estimators:
        raise InputError(
            "profiles=… is for a strategy by its name; give yours its estimators when you make it"
        )
    if isinstance(strategy, type) or not isinstance(strategy, Strategy):
        raise InputError(
            f"strategy={strategy!r} cannot decide; give a name like 'capacity', or an object with a name and decide()"
        )
    return strategy
