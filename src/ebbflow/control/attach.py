"""``ebbflow.attach``: the loop, in a thread of its own, on a Spark session that is already there."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ebbflow.control.attached import Attached, take_over
from ebbflow.control.loop import ControlLoop, CycleReport
from ebbflow.control.policy_file import PolicyFile, PolicyInForce, recall_acts
from ebbflow.core.clock import Clock, SystemClock
from ebbflow.core.folders import scratch_folder
from ebbflow.core.limits import Limits
from ebbflow.core.ports import Strategy, Target
from ebbflow.core.slo import DEFAULT_SLO, Slo
from ebbflow.errors import EbbflowError, InputError
from ebbflow.guards import guards_for
from ebbflow.monitoring.addresses import check
from ebbflow.monitoring.collector import Collector, WithAgents
from ebbflow.monitoring.keys import CollectorKeys, collector_keys
from ebbflow.monitoring.store import Store
from ebbflow.policy.model import Policy
from ebbflow.profiling.estimator import Estimator, estimators_on_spark, read_profiles
from ebbflow.profiling.profile import SPARK, Profile
from ebbflow.strategies import make_strategy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ebbflow.targets.spark.act.restart import ManagedQuery


# What a person gives ``attach``, checked before anything is touched: what cannot be meant is an error at once.


def limits_of(executors: tuple[int, int]) -> Limits:
    """Fewest and most executors."""
    try:
        fewest, most = executors
        if {type(fewest), type(most)} != {int}:
            raise TypeError
    except (TypeError, ValueError):
        raise InputError(f"executors={executors!r} is not (fewest, most); write executors=(1, 20)") from None
    return Limits(min_nodes=fewest, max_nodes=most)


def objective_of(slo: str | Slo) -> Slo:
    """The objective, however it was given."""
    if isinstance(slo, Slo):
        return slo
    if not isinstance(slo, str):
        raise InputError(f"slo={slo!r} is no objective; write slo='freshness p95 <= 30s'")
    return Slo.parse(slo)


def estimators_of(profiles: str | Path | Profile | Sequence[str | Path | Profile]) -> dict[str, Estimator]:
    """What profiles know, by the name of the query; of files or of profiles, of one or of several."""
    given = [profiles] if isinstance(profiles, str | Path | Profile) else list(profiles)
    named = {f"profiles[{number}]": each for number, each in enumerate(given) if isinstance(each, Profile)}
    files = [each for each in given if not isinstance(each, Profile)]
    for each in files:
        if not isinstance(each, str | Path):
            raise InputError(
                f"profiles={each!r} is no profile; give the name of a file, or an ebbflow Profile"
            )
    return estimators_on_spark(read_profiles(files) | named)


def strategy_of(strategy: str | Strategy, estimators: Mapping[str, Estimator]) -> Strategy:
    """Who decides, by a name or as an object."""
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


def check_cycle(cycle_s: float) -> None:
    """An error where a loop cannot look so often, or so seldom."""
    if not (isinstance(cycle_s, int | float) and 0.05 <= cycle_s < math.inf):
        raise InputError(f"cycle_s={cycle_s!r} is no time between two looks; write seconds, like cycle_s=1.0")


def check_queries(queries: Sequence[ManagedQuery]) -> None:
    """An error where one of them cannot be restarted."""
    for query in queries:
        if not hasattr(query, "restart"):
            raise InputError(
                f"queries={query!r} cannot be restarted; give ebbflow.ManagedQuery objects, or none"
            )


def check_agents(addresses: Sequence[str], keys_folder: str | Path | None) -> CollectorKeys | None:
    """The keys to call these agents with; an error where an address or a key cannot be used."""
    keys = None if keys_folder is None else collector_keys(Path(keys_folder))
    for address in addresses:
        check(address, has_keys=keys is not None, option="--agent-keys (in Python agent_keys=)")
    return keys


log = logging.getLogger("ebbflow")

TEMPORARY_S = 2 * 3600.0
"""How long readings, batches and holds stay in a store that goes with the job: nobody reads it later."""


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
    for readings, batches and ledger; without one they go to a temporary file that goes with the job and keeps two
    hours. In one of an earlier run the guard times of a policy go on from its ledger; else they begin with the run.
    """
    limits, objective = limits_of(executors), objective_of(slo)
    chosen = strategy_of(strategy, estimators_of(profiles))
    check_cycle(cycle_s)
    check_queries(queries)
    followed: PolicyInForce | None = None
    if policy is not None:
        if profiles:
            raise InputError("rules do not size by profiles; leave policy=… or profiles=… out")
        followed = PolicyInForce(policy) if isinstance(policy, Policy) else PolicyFile(policy)
        chosen = followed.rules
    keys = check_agents(agents, agent_keys)
    time = clock or SystemClock()
    opened = ExitStack()
    try:
        from ebbflow.targets.spark.target import SparkTarget

        application = str(spark.sparkContext.applicationId)
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
            target = WithAgents(target, collector, lambda: chosen.needed_series)
        opened.callback(target.close)
        if not store:
            folder = opened.enter_context(scratch_folder("store"))
            path = Path(folder) / "run.sqlite"
            kept = Store(path, time, keep_readings_s=TEMPORARY_S, keep_holds_s=TEMPORARY_S)
            opened.callback(kept.close)
        else:
            kept = Store(Path(store), time)
            opened.callback(kept.close)
            kept.begin_run(
                {
                    "slo": str(objective),
                    "nodes": str(limits),
                    "target": SPARK,
                    "strategy": chosen.name,
                    "started_s": repr(time.now_s()),
                }
            )
        take_over(application)  # not before all is there: a loop must not be ended for one that cannot begin
        if followed is not None and store:
            recall_acts(followed, kept, time.now_s())
    except EbbflowError as error:
        log.warning("not scaling: %s", error)
        return _not_scaling(opened)
    except Exception:
        log.exception("not scaling, because of a fault of ours; the job goes on untouched")
        return _not_scaling(opened)
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
    log.info("scaling %s:%s executors for %s with %s", *executors, objective, chosen.name)
    return Attached(loop, kept, opened.close, policy=followed, collector=collector, application=application)


def _not_scaling(opened: ExitStack) -> Attached:
    """The answer where the world was in the way, with what was opened by then put away."""
    with suppress(Exception):  # of a disk that is full, the first word was enough
        opened.close()
    return Attached(None, None, lambda: None)
