"""``ebbflow submit``: runs a PySpark script that was not changed in any way, and scales it."""

from __future__ import annotations

import json as json_module
import logging
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ebbflow.cli.options import PolicyOption, ProfileOption, chosen_strategy, profiles_on_spark, spark_conf
from ebbflow.cli.output import check_writable, print_json, say, standard_output_to_error
from ebbflow.control.attach import attach, check_agents
from ebbflow.control.attached import Attached
from ebbflow.core.clock import SystemClock
from ebbflow.core.folders import scratch_folder
from ebbflow.core.limits import Limits
from ebbflow.core.slo import DEFAULT_SLO, Slo
from ebbflow.errors import InputError, StoreError
from ebbflow.monitoring.store import Store
from ebbflow.profiling.profile import SPARK
from ebbflow.report.numbers import whole
from ebbflow.report.page import write_run_page
from ebbflow.runs.stored_run import StoredRun, node_changes, read_run
from ebbflow.targets.spark.launch.local_cluster import LocalCluster, local_settings
from ebbflow.targets.spark.launch.preflight import check_java, check_master_to_scale, is_on_this_machine
from ebbflow.targets.spark.launch.session import use_loopback, use_python_of, use_this_python
from ebbflow.targets.spark.launch.settings import cores_per_executor, scaling_settings
from ebbflow.targets.spark.launch.submit import check_script, check_submit_arguments, run_script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("ebbflow")

PROMISED_MB = 32 * 1024


def register(app: typer.Typer) -> None:
    """Add the command. What follows the script belongs to the script."""
    app.command("submit", context_settings={"allow_interspersed_args": False})(submit)


def submit(
    script: Annotated[Path, typer.Argument(help="A PySpark script.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Its arguments.")] = None,
    executors: Annotated[str, typer.Option(help="Fewest and most executors, MIN:MAX.")] = "1:10",
    slo: Annotated[str, typer.Option(help="The objective.")] = str(DEFAULT_SLO),
    strategy: Annotated[str, typer.Option(help="Who decides.")] = "capacity",
    policy: PolicyOption = None,
    profile: ProfileOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Decide and write it down; change nothing.")
    ] = False,
    master: Annotated[
        str | None,
        typer.Option(help="spark://HOST:PORT, yarn or k8s://…; without it, a cluster on this machine."),
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(help="An agent on a worker host, tcp://HOST:PORT; repeatable.", metavar="ADDRESS"),
    ] = None,
    agent_keys: Annotated[
        Path | None,
        typer.Option(help="The folder DIR/collector that `ebbflow agent keys DIR` made.", metavar="DIR"),
    ] = None,
    conf: Annotated[list[str] | None, typer.Option(help="A Spark setting, KEY=VALUE; repeatable.")] = None,
    store: Annotated[Path | None, typer.Option(help="SQLite file for readings, batches and ledger.")] = None,
    json_report: Annotated[
        Path | None, typer.Option(help="Write scores and decisions there at the end.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a page with pictures there at the end.")] = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print the JSON report; what the script prints goes to standard error."),
    ] = False,
) -> int:
    """Run a PySpark script as it is, on any cluster, and scale its executors while it streams."""
    limits, objective = Limits.parse(executors), Slo.parse(slo)
    strategy = chosen_strategy(strategy, policy)
    profiles = profiles_on_spark(profile, strategy)
    settings = spark_conf(conf or [])
    cores = cores_per_executor(settings)
    check_script(script)
    check_submit_arguments()
    for path in (json_report, report, store):
        check_writable(path)
    _check_store(store)
    # The script may change its folder; what was named here is meant from here.
    json_report, report, store, policy, agent_keys = (
        path and path.absolute() for path in (json_report, report, store, policy, agent_keys)
    )
    if master is not None:
        check_master_to_scale(master)
    agents = tuple(agent or ())
    check_agents(agents, agent_keys)
    check_java()
    clock = SystemClock()
    started_s: float | None = None
    attached: list[Attached] = []
    with scratch_folder("submit") as folder:
        path = store or Path(folder) / "run.sqlite"
        with ExitStack() as stack:
            own: dict[str, str] = {}
            cluster: LocalCluster | None = None
            web_url = settings_file = None
            if master is None:
                say(f"starting a Spark cluster on this machine for up to {limits.max_nodes} executors")
                cluster = stack.enter_context(
                    LocalCluster(
                        cores=cores * limits.max_nodes,
                        # What a worker may promise, not what it takes: a script may ask for large executors.
                        memory_mb=PROMISED_MB * limits.max_nodes,
                    )
                )
                agents = (*agents, cluster.agent_address)
                master, web_url, settings_file = cluster.master_url, cluster.web_url, cluster.settings_file
                use_loopback()
                own = {**local_settings(), "spark.sql.shuffle.partitions": str(2 * limits.max_nodes)}
            if is_on_this_machine(master):
                use_this_python()
            use_python_of(settings)
            scaling = scaling_settings(initial_executors=limits.min_nodes, master=master)

            def on_session(spark: SparkSession) -> None:
                nonlocal started_s
                if cluster is not None:  # the script's own settings come first, and they are known only now
                    with _not_the_jobs_fault("no room could be made for executors as large as the script's"):
                        in_force = dict(spark.sparkContext.getConf().getAll())
                        cluster.ensure_cores(limits.max_nodes * cores_per_executor(in_force))
                started_s = started_s or clock.now_s()
                attached.append(
                    attach(
                        spark,
                        executors=(limits.min_nodes, limits.max_nodes),
                        slo=objective,
                        strategy=strategy,
                        policy=policy,
                        profiles=profiles,
                        store=path,
                        dry_run=dry_run,
                        agents=agents,
                        agent_keys=agent_keys,
                        master_web_url=web_url,
                    )
                )

            if json:
                stack.enter_context(standard_output_to_error())
            code = run_script(
                script,
                arguments or [],
                master=master,
                settings={**scaling, **settings},
                defaults=own,
                settings_file=settings_file,
                on_session=on_session,
            )
            ended_s = clock.now_s()
            for each in attached:
                with _not_the_jobs_fault("scaling could not be stopped"):
                    each.stop(within_s=5.0)
        if not attached:
            why = "ended before it opened a" if code > 128 else "opened no"
            say(f"{script.name} {why} Spark session of its own; there was nothing to scale")
        with _not_the_jobs_fault("the report could not be written"):
            stored = _stored_run(
                path,
                script.name,
                strategy,
                objective,
                limits,
                ended_s if started_s is None else started_s,
                ended_s,
            )
            scores = stored.score_values()
            document = {
                "script": str(script),
                "exit_code": code,
                "strategy": strategy,
                "slo": str(objective),
                **scores,
                "queries": stored.query_scores(),
                "executors": node_changes(stored.run),
                "decisions": [entry.to_json() for entry in stored.run.decisions],
                "holds_left_out": stored.holds_left_out,
                "agents": next((each.agents for each in attached if each.agents is not None), None),
            }
            if json_report is not None:
                json_report.write_text(json_module.dumps(document, indent=2, allow_nan=False) + "\n")
            if json:
                print_json(document)
            if report is not None:
                write_run_page(report, stored)
            say(
                f"{script.name} exited with code {code}: {whole(scores['node_seconds'])} executor-seconds, "
                f"{scores['reconfigurations']} reconfigurations"
            )
    return code


def _stored_run(
    path: Path, name: str, strategy: str, slo: Slo, limits: Limits, started_s: float, ended_s: float
) -> StoredRun:
    """The run as its store has it. If nothing was scaled, the store gets the terms that ``attach`` would have set."""
    terms = {"name": name, "strategy": strategy, "started_s": repr(started_s), "ended_s": repr(ended_s)}
    with closing(Store(path, SystemClock())) as kept:
        kept.set_terms({"slo": str(slo), "nodes": str(limits), "target": SPARK, **terms})
    return read_run(path)


@contextmanager
def _not_the_jobs_fault(what: str) -> Iterator[None]:
    """The job is done and its exit code is its own, whatever becomes of our part."""
    try:
        yield
    except Exception:
        log.exception(what)


def _check_store(path: Path | None) -> None:
    """A store is a file of its own, or not there yet."""
    if path is None or not path.exists():
        return
    if not path.is_file():
        raise InputError(f"cannot keep a store in {path}: it is a device or a pipe; name a file")
    if path.stat().st_size:
        try:
            Store.read_ledger(path, last=1)
        except StoreError as error:
            raise InputError(f"cannot keep a store in {path}; name another file ({error})") from None
