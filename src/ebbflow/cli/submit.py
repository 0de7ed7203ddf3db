"""``ebbflow submit``: run an unchanged PySpark script and scale it."""

from __future__ import annotations

import json as json_module
import logging
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ebbflow.cli.options import spark_conf, takes_configuration
from ebbflow.cli.output import check_writable, print_json, say, standard_output_to_error
from ebbflow.control.attach import attach, check_agents, decider, spark_settings
from ebbflow.control.attached import Attached
from ebbflow.core.clock import SystemClock
from ebbflow.core.folders import scratch_folder
from ebbflow.core.limits import Limits
from ebbflow.core.plural import counted
from ebbflow.core.slo import Slo
from ebbflow.errors import InputError, StoreError
from ebbflow.monitoring.store import Store
from ebbflow.options import Configuration
from ebbflow.profiling.profile import SPARK
from ebbflow.report.page import write_run_page
from ebbflow.report.wording import whole
from ebbflow.runs.stored_run import StoredRun, node_changes, read_run
from ebbflow.targets.spark.launch.local_cluster import LocalCluster, local_settings
from ebbflow.targets.spark.launch.preflight import check_java, check_master_to_scale, is_on_this_machine
from ebbflow.targets.spark.launch.session import use_loopback, use_python_of, use_this_python
from ebbflow.targets.spark.launch.settings import cores_per_executor, scaling_settings
from ebbflow.targets.spark.launch.submit import check_script, check_submit_arguments, run_script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

PROMISED_MB = 32 * 1024
"""Memory that the local worker may promise for each executor."""


def register(app: typer.Typer) -> None:
    """Add the command. Arguments after the script belong to the script."""
    app.command("submit", context_settings={"allow_interspersed_args": False})(submit)


@takes_configuration()
def submit(
    script: Annotated[Path, typer.Argument(help="PySpark script.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Arguments of the script.")] = None,
    *,
    configured: Configuration,
    master: Annotated[
        str | None,
        typer.Option(help="spark://HOST:PORT, yarn or k8s://…; by default a cluster on this machine."),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(
            help="Spark setting; also spark.ebbflow.*, the options. Repeatable.", metavar="KEY=VALUE"
        ),
    ] = None,
    json_report: Annotated[
        Path | None, typer.Option(help="Write scores and decisions to this file at the end.", metavar="FILE")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page with charts to this file at the end.", metavar="FILE")
    ] = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print the JSON report; output of the script goes to standard error."),
    ] = False,
) -> int:
    """Run an unchanged PySpark script on any cluster, and scale its executors while it streams.

    docs/options.md lists all options and where they can be set.
    """
    settings = spark_conf(conf or [])
    known = configured.with_spark(settings)
    decider(known)
    limits, objective, strategy = known["executors"], known["slo"], known.strategy_expression
    cores = cores_per_executor(settings)
    check_script(script)
    check_submit_arguments()
    for path in (json_report, report, known["store"]):
        check_writable(path)
    _check_store(known["store"])
    # The script may change the working directory.
    json_report, report = (path and path.absolute() for path in (json_report, report))
    if master is not None:
        check_master_to_scale(master)
    check_agents(known["agents"], known["agent_keys"])
    check_java()
    clock = SystemClock()
    started_s: float | None = None
    attached: list[Attached] = []
    with scratch_folder("submit") as folder:
        path = known["store"] or Path(folder) / "run.sqlite"
        with ExitStack() as stack:
            own: dict[str, str] = {}
            cluster: LocalCluster | None = None
            web_url = settings_file = None
            if master is None:
                say(f"starting a Spark cluster on this machine for up to {limits.max_nodes} executors")
                cluster = stack.enter_context(
                    LocalCluster(
                        cores=cores * limits.max_nodes,
                        # A limit, not a reservation: a script may ask for large executors.
                        memory_mb=PROMISED_MB * limits.max_nodes,
                    )
                )
                master, web_url, settings_file = cluster.master_url, cluster.web_url, cluster.settings_file
                use_loopback()
                own = {**local_settings(), "spark.sql.shuffle.partitions": str(2 * limits.max_nodes)}
            if is_on_this_machine(master):
                use_this_python()
            use_python_of(settings)
            scaling = scaling_settings(initial_executors=limits.min_nodes, master=master)

            def on_session(spark: SparkSession) -> None:
                nonlocal started_s, limits, objective, strategy
                in_force = spark_settings(spark)  # with what the script itself has set
                try:
                    known = configured.with_spark(in_force)
                    limits, objective, strategy = known["executors"], known["slo"], known.strategy_expression
                except InputError as error:
                    log.error("not scaling: %s", error)
                    return
                if cluster is not None:
                    with _job_unaffected("the local cluster has no capacity for executors of this size"):
                        cluster.ensure_cores(limits.max_nodes * cores_per_executor(in_force))
                started_s = started_s or clock.now_s()
                attached.append(
                    attach(
                        spark,
                        config=configured,
                        store=path,
                        agents=None if cluster is None else (*known["agents"], cluster.agent_address),
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
                with _job_unaffected("scaling cannot be stopped"):
                    each.stop(within_s=5.0)
        if not attached:
            why = "ended before it opened a" if code > 128 else "opened no"
            say(f"{script.name} {why} Spark session; nothing was scaled")
        with _job_unaffected("the report cannot be written"):
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
                f"{counted(scores['reconfigurations'], 'reconfiguration')}"
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
def _job_unaffected(what: str) -> Iterator[None]:
    """Log any failure: the exit code is that of the job."""
    try:
        yield
    except Exception:
        log.exception(what)


def _check_store(path: Path | None) -> None:
    """Raise ``InputError`` if a file exists and is not a store."""
    if path is None or not path.exists():
        return
    if not path.is_file():
        raise InputError(f"{path} cannot be a store: it is a device or a pipe; name a file")
    if path.stat().st_size:
        try:
            Store.read_ledger(path, last=1)
        except StoreError as error:
            raise InputError(f"{path} cannot be a store; name another file ({error})") from None
