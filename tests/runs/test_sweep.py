"""Sweeps: ordered, repeatable, one hindsight per case, and every failure reported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path

import psutil
import pytest
from sweep_builders import case, result

from ebbflow.core.decision import Decision
from ebbflow.core.ports import Strategy
from ebbflow.errors import InputError
from ebbflow.guards import Bounds, CoolDown, HoldOnMissingData, StepCap, guards_for
from ebbflow.runs import sweep as sweep_module
from ebbflow.runs.parallel import parallel_map
from ebbflow.runs.score import score
from ebbflow.runs.simulation import oracle_of, run_simulation, strategy_for
from ebbflow.runs.spec.tables import TenantTable
from ebbflow.runs.sweep import HINDSIGHT, Failure, Sweep, SweepInterrupted, sweep
from ebbflow.strategies import STRATEGIES, make_strategy
from ebbflow.strategies.rules import default_policy
from ebbflow.targets.simulator.scenario import Tenant, built_in_engine
from ebbflow.workloads import parse_load

SCENES = [case(), case("sine(base=100, peak=900, period=5m)", seed=2)]


class DiesOnArrival:
    """Something that a worker cannot take up."""

    def __reduce__(self):
        return (os._exit, (9,))


class Broken(Strategy):
    """A strategy with a fault in it."""

    name = "broken"

    def decide(self, snapshot) -> Decision:
        raise ZeroDivisionError("no rows, no rate")


@pytest.fixture
def broken(monkeypatch) -> str:
    monkeypatch.setitem(STRATEGIES, "broken", Broken)
    return "broken"


def die_drawing(*_: object) -> None:
    """The kernel ends a worker that takes too much memory."""
    os._exit(9)


def test_results_are_ordered_by_case_and_strategy() -> None:
    alone = sweep(SCENES, ["capacity", "static"], workers=1)
    assert [(r.load, r.strategy) for r in alone.results] == [
        (s.load, name) for s in SCENES for name in ("capacity", "static")
    ]
    assert sweep(SCENES, ["capacity", "static"], workers=2) == alone, "two processes find the same"


def test_every_run_is_counted_once() -> None:
    done = []
    sweep(SCENES, ["static", "hpa"], workers=1, on_done=lambda: done.append(1))
    assert len(done) == 4


def test_a_failed_run_is_named_and_the_others_continue(broken) -> None:
    done = sweep(SCENES, ["static", broken], workers=1)
    assert [r.strategy for r in done.results] == ["static", "static"]
    assert [f.load for f in done.failures] == [s.load for s in SCENES]
    result_text = str(done.failures[0])
    assert result_text.startswith(
        "broken on constant(300), seed 1: ZeroDivisionError: no rows, no rate (test_sweep.py, line"
    )
    assert "Traceback" in done.failures[0].trace


def test_a_killed_worker_is_a_failure_and_nothing_hangs() -> None:
    cases = [case(name=str(i), drawn=True) for i in range(3)]
    done = sweep(cases, ["static"], workers=2, draw=die_drawing)
    assert not done.results
    assert {f.load for f in done.failures} == {"0", "1", "2"}
    assert "BrokenProcessPool" in done.failures[0].error


def test_workers_that_never_start_are_failures() -> None:
    done = sweep(SCENES, ["static", "mine"], policies={"mine": DiesOnArrival()}, workers=2)
    assert not done.results
    assert {f.strategy for f in done.failures} == {HINDSIGHT, "static", "mine"}
    assert all("BrokenProcessPool" in f.error for f in done.failures)


def stuck_beyond(last: int, item: int) -> int:
    """A task that is quick for some items and has no end for the others."""
    if item > last:
        threading.Event().wait()
    return item


class Interrupting:
    """Raises what Ctrl-C does, once so many are done."""

    def __init__(self, after: int) -> None:
        self.left, self.answers = after, {}

    def __call__(self, index: int = 0, answer: object = None) -> None:
        self.left -= 1
        self.answers[index] = answer
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_sweep_returns_its_finished_runs(workers: int) -> None:
    names = ["static", "static-mean", "hpa"]
    whole = sweep(SCENES, names, workers=1)
    with pytest.raises(SweepInterrupted) as stop:
        sweep(SCENES, names, workers=workers, on_done=Interrupting(2))
    done = stop.value.sweep
    assert (len(done.results), done.unfinished) == (2, 4)
    assert set(done.results) <= set(whole.results)
    assert not active_children(), "no worker process is left"


def test_an_interrupt_before_the_first_run_leaves_all_unfinished(monkeypatch) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep_module, "oracle_of", interrupt)
    with pytest.raises(SweepInterrupted) as stop:
        sweep(SCENES, ["static"], workers=1)
    assert stop.value.sweep == Sweep(results=(), failures=(), unfinished=2)


def test_an_interrupt_does_not_wait_for_running_tasks() -> None:
    on_done, children = Interrupting(2), set(active_children())
    with pytest.raises(KeyboardInterrupt), parallel_map(1, workers=2) as work:  # noqa: PT012
        try:
            work(stuck_beyond, range(4), on_done)
        except KeyboardInterrupt:
            began_s = time.monotonic()
            raise
    assert time.monotonic() - began_s < 60, "on the busiest machine; the stuck ones never end"
    assert on_done.answers == {0: 0, 1: 1}
    assert set(active_children()) == children


STUCK_POOL = """
import os, sys, threading
from ebbflow.runs.parallel import parallel_map

def stuck(shared, item):
    print(os.getpid(), flush=True)
    threading.Event().wait()

if __name__ == "__main__":
    with parallel_map(None, workers=2) as work:
        work(stuck, range(2), lambda *_: None)
"""


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_parent(ending: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "stuck.py"
    script.write_text(STUCK_POOL)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        workers = [psutil.Process(int(parent.stdout.readline())) for _ in range(2)]
        parent.send_signal(ending)
    _, alive = psutil.wait_procs(workers, timeout=60)
    for worker in alive:
        worker.kill()
    assert not alive


def test_an_interrupted_sweep_compares_what_all_strategies_finished() -> None:
    runs = [result("x", 1.0, load="a"), result("y", 2.0, load="a"), result("x", 3.0, load="b")]
    failed = Failure(load="c", seed=1, strategy="x", error="E")
    part = Sweep(results=tuple(runs), failures=(failed,), unfinished=2)
    assert part.comparable(["x", "y"]) == Sweep(results=tuple(runs[:2]), failures=(), unfinished=2)
    assert part.comparable(["x", "y", "z"]) == part, "where nothing is common, all there is"
    whole = replace(part, unfinished=0)
    assert whole.comparable(["x", "y"]) == whole
    over = Sweep(results=(runs[2],), failures=(replace(failed, load="b", strategy="y"),), unfinished=1)
    assert over.comparable(["x", "y"]) == over, "a run that failed was had"


def test_hindsight_is_computed_once_per_case(monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(sweep_module, "oracle_of", lambda s: asked.append(s) or oracle_of(s))
    done = sweep(SCENES, ["static", "hpa", "capacity"], workers=1)
    assert len(asked) == len(SCENES)
    for run in done.results:
        assert run.scores.cost_ratio == run.scores.node_seconds / run.oracle_node_seconds


def test_the_arrivals_that_hindsight_sees_are_those_of_the_runs() -> None:
    for one in SCENES:
        run = run_simulation(one.scenario, make_strategy("static")).run
        assert oracle_of(one.scenario).node_seconds == oracle_of(one.scenario, run).node_seconds


def test_if_hindsight_fails_it_is_reported_and_runs_have_no_ratio(monkeypatch) -> None:
    def fail(_: object) -> None:
        raise MemoryError("too long")

    monkeypatch.setattr(sweep_module, "oracle_of", fail)
    done = sweep(SCENES[:1], ["static"], workers=1)
    assert done.results[0].scores.cost_ratio is None
    assert done.failures[0].strategy == HINDSIGHT


def test_rows_that_fail_in_a_queue_are_lost() -> None:
    made = case("constant(20000)", engine="continuous", nodes="1:2")
    short_queues = replace(made.scenario.engine, max_pending_rows=None, queue_bound_rows=100.0)
    flood = replace(made, scenario=replace(made.scenario, engine=short_queues))
    played = run_simulation(flood.scenario, make_strategy("static"))
    assert played.work.failed > 1000
    (result,) = sweep([flood], ["static"]).results
    scores = result.scores
    assert scores.rows_lost == round(played.work.failed)
    assert abs(scores.rows_in - scores.rows_out - scores.rows_lost - played.work.waiting) < 2
    assert scores.violation >= scores.rows_lost / scores.rows_in - 1e-9

    calm = built_in_engine("sentiment", "continuous")
    others = (Tenant(engine=short_queues, load=flood.scenario.load),)
    small = replace(flood.scenario, engine=calm, load=parse_load("constant(10)"), others=others)
    shared = replace(flood, scenario=small)
    played = run_simulation(shared.scenario, make_strategy("static"))
    (both,) = sweep([shared], ["static"]).results
    lost = [score(run, oracle_node_seconds=None).rows_lost for run in played.runs]
    assert lost[0] == 0, "what another pipeline lost is not the first one's"
    assert both.scores.rows_lost == lost[1] > 1000, (
        "scores of pipelines that share nodes are over all of them"
    )


def test_a_policy_is_a_strategy_under_the_name_it_is_given() -> None:
    policies = {"mine.toml": default_policy()}
    one = [case("sine(base=100, peak=900, period=5m)")]
    done = sweep(one, ["rules", "mine.toml"], policies=policies, workers=1)
    plain, mine = done.results
    assert (plain.strategy, mine.strategy) == ("rules", "mine.toml")
    assert plain.scores == mine.scores, "rules without a policy follow this one"
    assert sweep(one, ["rules", "mine.toml"], policies=policies, workers=2) == done, "it travels to workers"


def test_pipelines_that_share_nodes_are_scored_together_and_have_no_hindsight() -> None:
    tenant = {"tenant": [TenantTable(load="constant(50)")]}
    one = case("constant(100)", drawn=True, **tenant)
    (result,) = sweep([one], ["static"], draw=lambda runs, capacity, hindsight: hindsight).results
    assert result.scores.rows_in == 600 * 150
    assert (result.scores.cost_ratio, result.oracle_node_seconds, result.oracle_feasible) == (None,) * 3
    assert result.drawing is None


def test_the_seed_changes_the_run() -> None:
    cost = {
        seed: sweep([case("sine(base=100, peak=900, period=5m)", seed=seed)], ["capacity"]).results[0].scores
        for seed in (1, 1, 2)
    }
    assert cost[1] != cost[2]


def test_only_strategies_without_their_own_guards_get_all_guards() -> None:
    assert [type(guard) for guard in guards_for(make_strategy("hpa"))] == [Bounds, HoldOnMissingData]
    kinds = {type(guard) for guard in guards_for(make_strategy("capacity"))}
    assert {CoolDown, StepCap, Bounds, HoldOnMissingData} <= kinds


@pytest.mark.parametrize(("rate", "nodes"), [(100, 1), (300, 2), (1000, 7), (99999, 16)])
def test_static_mean_holds_what_the_mean_rate_needs(rate: int, nodes: int) -> None:
    one = case(f"constant({rate})", **{"initial_nodes": 1})
    run = run_simulation(one.scenario, strategy_for("static-mean", one.scenario)).run
    assert run.nodes.stepped(300.0) == nodes


def test_an_empty_sweep_is_an_error() -> None:
    with pytest.raises(InputError, match="at least one load"):
        sweep([], ["static"])


@pytest.mark.parametrize(
    "name", ["hpa", "keda", "dataflow", "dask", "ds2", "flink", "thresholds", "rightscale"]
)
def test_baselines_can_act_on_a_continuous_engine(name: str) -> None:
    busy = case("step(base=100, peak=1500, at=5m)", engine="continuous", seconds=3600.0, initial_nodes=1)
    run = run_simulation(busy.scenario, strategy_for(name, busy.scenario)).run
    assert run.reconfigurations > 0
