"""``ebbflow.attach``: run the control loop in a thread of its own, on a Spark session that exists already."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ebbflow.control.attached import Attached, take_over
from ebbflow.control.loop import ControlLoop, CycleReport
from ebbflow.control.policy_file import PolicyFile, PolicyInForce, recall_acts
from ebbflow.control.upkeep import with_upkeep
from ebbflow.core.clock import Clock, SystemClock
from ebbflow.core.folders import scratch_folder
from ebbflow.core.limits import Limits
from ebbflow.core.ports import Guard, Strategy, Target
from ebbflow.core.slo import Slo
from ebbflow.errors import EbbflowError, InputError, TargetError
from ebbflow.monitoring.addresses import check
from ebbflow.monitoring.buffered_store import BufferedStore
from ebbflow.monitoring.collector import Collector, WithAgents
from ebbflow.monitoring.keys import CollectorKeys, collector_keys
from ebbflow.monitoring.store import Store
from ebbflow.options import Configuration, from_arguments
from ebbflow.policy.model import Policy
from ebbflow.profiling.estimator import Estimator, estimators_on_spark, read_profiles
from ebbflow.profiling.profile import SPARK, Profile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ebbflow.targets.spark.act.restart import ManagedQuery

log = logging.getLogger(__name__)

TEMPORARY_S = 2 * 3600.0
"""How long a temporary store keeps readings, batches and holds: it is deleted with the job."""


def attach(
    spark: SparkSession,
    *,
    executors: tuple[int, int] | str | Limits | None = None,
    slo: str | Slo | None = None,
    strategy: str | Strategy | None = None,
    fallback: str | Strategy | None = None,
    policy: str | Path | Policy | None = None,
    profiles: str | Path | Profile | Sequence[str | Path | Profile] | None = None,
    queries: Sequence[ManagedQuery] = (),
    guards: Sequence[Guard | str] | None = None,
    store: str | Path | None = None,
    dry_run: bool | None = None,
    agents: Sequence[str] | None = None,
    agent_keys: str | Path | None = None,
    cycle_s: float | None = None,
    options: Mapping[str, Any] | None = None,
    config: str | Path | Configuration | None = None,
    clock: Clock | None = None,
    on_cycle: Callable[[CycleReport], None] | None = None,
    master_web_url: str | None = None,
) -> Attached:
    """Scale the executors of a Spark application between two bounds, for an objective.

    An argument that is left out is taken from the Spark configuration (``spark.ebbflow.slo``), the environment
    (``EBBFLOW_SLO``) or the file ``config`` (else ``ebbflow.toml`` in the working directory); docs/options.md lists
    them with their defaults. ``options`` sets any other option by its key, like ``{"shrink.deadline": "60s"}``.

    Invalid configuration raises ``InputError`` before anything is touched. Any other failure (a master without
    executors, a full disk) is logged and leaves the job as it is; the result is then not ``active``.

    ``strategy``: a name, an expression like ``"capacity(budget_out=0.5)"`` or a ``Strategy``. With a ``policy`` its
    rules decide instead. A policy file is watched: a valid change applies from the next cycle on.

    ``fallback``: the strategy that decides after repeated failures of the chosen one (``decide.fallback_after``).

    ``guards``: guards of your own, applied besides the built-in ones and those that ``guards.add`` names elsewhere.

    ``profiles``: from `ebbflow profile`, for proactive, symbiotic and symbiotic-proactive; each is for the query of
    its name. docs/profiles.md says what Spark uses of them.

    ``queries``: queries that may be restarted with another parallelism of their operators.

    A strategy with a ``state_file`` (``learner(table=t.json)``) continues from it, and keeps its state there while the
    job runs.

    ``store``: SQLite file for readings, batches and ledger, by default a temporary one. In the store of an earlier run,
    the guard times of a policy continue from its ledger.

    ``agents``: addresses of agents on the worker hosts. Beyond this machine they need ``agent_keys``, the folder
    ``DIR/collector`` of `ebbflow agent keys DIR`.

    ``config``: a configuration file, or a ``Configuration`` that was read already. ``clock``: where the loop takes the
    time from, for tests. ``on_cycle``: called in the thread of the loop after each cycle, with its report; it must be
    quick. ``master_web_url``: web address of a standalone master, where it cannot be derived from the master's URL.
    """
    _check_arguments(spark, queries, options, config, on_cycle)
    given = from_arguments(
        {
            "executors": executors, "slo": slo, "strategy": strategy, "fallback": fallback, "policy": policy,
            "profiles": profiles,
            "guards": guards, "store": store, "dry_run": dry_run, "agents": agents, "agent_keys": agent_keys,
            "cycle_s": cycle_s,
        },
        options,
    )  # fmt: skip
    configured = config if isinstance(config, Configuration) else Configuration.read(config)
    problem = session_problem(spark)
    configured = configured.plus(given).with_spark({} if problem else spark_settings(spark))
    followed, chosen = decider(configured)
    limits, objective = configured["executors"], configured["slo"]
    chosen_guards, instead = configured.make_guards(chosen), configured.make_fallback(chosen)
    check_queries(queries)
    addresses, stored = configured["agents"], configured["store"]
    _check_folder(stored, configured.setting("store").where)
    keys = check_agents(addresses, configured["agent_keys"])
    time = clock or SystemClock()
    opened = ExitStack()
    try:
        if problem:
            raise TargetError(problem)
        from ebbflow.targets.spark.target import SparkTarget

        application = str(spark.sparkContext.applicationId)
        collector = None
        target: Target = SparkTarget(
            spark,
            time,
            managed=tuple(queries),
            min_nodes=limits.min_nodes,
            master_web_url=master_web_url,
            grow_times=configured.grow_times,
            shrink_times=configured.shrink_times,
        )
        if addresses:
            collector = Collector(addresses, application=application, keys=keys)
            target = WithAgents(target, collector, lambda: chosen.needed_series)
        opened.callback(target.close)
        if stored is None:
            folder = opened.enter_context(scratch_folder("store"))
            path = Path(folder) / "run.sqlite"
            ledger = Store(path, time, keep_readings_s=TEMPORARY_S, keep_holds_s=TEMPORARY_S)
            opened.callback(ledger.close)
        else:
            ledger = Store(stored, time)
            opened.callback(ledger.close)
            ledger.begin_run(
                {
                    "slo": str(objective),
                    "nodes": str(limits),
                    "target": SPARK,
                    "strategy": chosen.name,
                    "started_s": repr(time.now_s()),
                }
            )
        take_over(application)  # last: a running loop must not end for one that cannot start
        if followed is not None and stored is not None:
            recall_acts(followed, ledger, time.now_s())
    except EbbflowError as error:
        log.warning("not scaling: %s", error)
        return _not_scaling(opened, str(error))
    except Exception as error:
        log.exception("not scaling because of an internal error; the job is not affected")
        return _not_scaling(opened, f"internal error: {error}")
    loop = ControlLoop(
        target=target,
        strategy=chosen,
        guards=chosen_guards,
        store=BufferedStore(ledger, time),
        clock=time,
        limits=limits,
        slo=objective,
        cycle_s=configured["cycle"],
        dry_run=configured["dry_run"],
        failures=configured.failure_limits,
        fallback=instead,
        on_cycle=with_upkeep(chosen, time, opened, on_cycle),
        before_cycle=followed.refresh if followed is not None else None,
    )
    log.info("scaling %s executors for %s with %s", limits, objective, chosen.name)
    return Attached(loop, ledger, opened.close, policy=followed, collector=collector, application=application)


def _check_arguments(
    spark: object, queries: object, options: object, config: object, on_cycle: object
) -> None:
    """Raise ``InputError`` for an argument of the wrong kind that is not an option."""
    if spark is None or isinstance(spark, str | int | float | dict | list | tuple):
        raise InputError(
            f"attach({spark!r}): that is no Spark session; pass one, like SparkSession.builder.getOrCreate()"
        )
    for name, valid, value, must in (
        ("queries", isinstance(queries, Sequence), queries, "a list of ebbflow.ManagedQuery objects"),
        ("options", options is None or isinstance(options, Mapping), options, "a dictionary by key"),
        (
            "config",
            config is None or isinstance(config, str | Path | Configuration),
            config,
            "a file or a Configuration",
        ),
        ("on_cycle", on_cycle is None or callable(on_cycle), on_cycle, "a function"),
    ):
        if not valid:
            raise InputError(f"attach({name}=…): {value!r} is invalid; it must be {must}")


def _check_folder(store: Path | None, where: str) -> None:
    if store is not None and not store.absolute().parent.is_dir():
        raise InputError(
            f"{where}: there is no folder {store.absolute().parent} for the store; make it first"
        )


def session_problem(spark: SparkSession) -> str:
    """Why the executors of a session cannot be set from here; empty if they can."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return (
            "a Spark Connect session has no driver in this process; attach in the server's driver, or run the job with "
            "a session of its own"
        )
    context = spark.sparkContext
    if getattr(context, "_jsc", context) is None:
        return "this Spark session has stopped; attach to a running one"
    return ""


def spark_settings(spark: SparkSession) -> dict[str, str]:
    """The configuration of a session; empty if it cannot be read, as of one that has stopped."""
    try:
        return dict(spark.sparkContext.getConf().getAll())
    except Exception as error:
        log.warning("cannot read spark.ebbflow.* settings: %s", error)
        return {}


def decider(configured: Configuration) -> tuple[PolicyInForce | None, Strategy]:
    """The policy, if one decides, and the strategy that carries it out."""
    estimators, policy = estimators_of(configured["profiles"]), configured.existing_policy()
    if policy is None:
        made = configured.make_strategy(estimators)
        configured.check_others(made.name)
        return None, made
    configured.check_others()
    if estimators:
        raise InputError("rules do not size by profiles; leave the policy or the profiles out")
    followed = PolicyInForce(policy) if isinstance(policy, Policy) else PolicyFile(policy)
    return followed, followed.rules


def estimators_of(profiles: Sequence[Path | Profile]) -> dict[str, Estimator]:
    """The estimators of profiles, given as files or objects, by query."""
    named = {f"profiles[{number}]": each for number, each in enumerate(profiles) if isinstance(each, Profile)}
    return estimators_on_spark(
        read_profiles(each for each in profiles if not isinstance(each, Profile)) | named
    )


def check_queries(queries: Sequence[ManagedQuery]) -> None:
    """Raise ``InputError`` for a query that cannot be restarted."""
    if not queries:
        return
    from ebbflow.targets.spark.act.restart import ManagedQuery

    for query in queries:
        if not isinstance(query, ManagedQuery):
            raise InputError(
                f"attach(queries=…): {query!r} cannot be restarted; pass ebbflow.ManagedQuery objects"
            )


def check_agents(addresses: Sequence[str], keys_folder: str | Path | None) -> CollectorKeys | None:
    """The keys for these agents. Raises ``InputError`` for an address or a key that cannot be used."""
    keys = None if keys_folder is None else collector_keys(Path(keys_folder))
    for address in addresses:
        check(address, has_keys=keys is not None, option="--agent-keys (in Python agent_keys=)")
    return keys


def _not_scaling(opened: ExitStack, why: str) -> Attached:
    """The result of a failure, after closing what was opened."""
    with suppress(Exception):  # the failure is logged already
        opened.close()
    return Attached(None, None, lambda: None, reason=why)
