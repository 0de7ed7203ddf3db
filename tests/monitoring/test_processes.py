"""Executors are found by their command line; their descendants belong to them."""

from __future__ import annotations

import pytest
from fake_system import MAIN_CLASS, FakeProcess, FakeSystem, Ticker, executor_line

from ebbflow.monitoring.processes import Executor, ExecutorTrees, executor_of


def members(trees: ExecutorTrees) -> dict[str, set[int]]:
    return {tree.executor.id: set(tree.members) for tree in trees.update()}


def test_a_command_line_has_application_executor_and_cores() -> None:
    assert executor_of(executor_line(7, cores=4, application="app-9")) == Executor("app-9", "7", 4)


@pytest.mark.parametrize(
    "main_class",
    [
        "org.apache.spark.executor.YarnCoarseGrainedExecutorBackend",
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
    ],
)
def test_executors_on_yarn_and_kubernetes_are_executors_too(main_class: str) -> None:
    assert executor_of(["java", main_class, "--executor-id", "2", "--app-id", "a"]) == Executor("a", "2", 1)


@pytest.mark.parametrize(
    "line",
    [
        [],
        ["java", "org.apache.spark.deploy.worker.Worker"],
        ["bash", "-c", " ".join(executor_line())],
        ["java", MAIN_CLASS],
        ["java", MAIN_CLASS, "--executor-id", "1"],
        ["java", MAIN_CLASS, "--app-id", "a/b", "--executor-id", "1"],
        ["java", MAIN_CLASS, "--app-id", "a", "--executor-id", "1\n"],
        ["java", "--app-id", "a", "--executor-id", "1", MAIN_CLASS],
    ],
)
def test_a_similar_command_line_is_not_an_executor(line: list[str]) -> None:
    assert executor_of(line) is None


def test_a_tree_is_the_executor_and_all_its_descendants_in_any_order_of_pids() -> None:
    system = FakeSystem(
        FakeProcess(50, line=["java", "Worker"]),
        FakeProcess(60, parent=50, line=executor_line(1)),
        FakeProcess(9, parent=60),  # pids have wrapped around: the child's is smaller
        FakeProcess(8, parent=9),
        FakeProcess(70, parent=50, line=executor_line(2)),
        FakeProcess(71, parent=70),
        FakeProcess(80, parent=50),
    )
    assert members(ExecutorTrees(system, Ticker())) == {"1": {60, 9, 8}, "2": {70, 71}}


def test_a_fork_with_its_parents_command_line_is_not_a_second_executor() -> None:
    system = FakeSystem(FakeProcess(61, parent=60, line=executor_line(1)))
    system.add(FakeProcess(60, line=executor_line(1)))
    assert members(ExecutorTrees(system, Ticker())) == {"1": {60, 61}}


def test_workers_may_start_and_end() -> None:
    system = FakeSystem(FakeProcess(60, line=executor_line(1)))
    trees = ExecutorTrees(system, Ticker())
    assert members(trees) == {"1": {60}}
    system.add(FakeProcess(61, parent=60))
    assert members(trees) == {"1": {60, 61}}
    system.end(61)
    assert members(trees) == {"1": {60}}


def test_an_ended_executor_has_no_tree_even_if_a_worker_outlives_it() -> None:
    system = FakeSystem(FakeProcess(60, line=executor_line(1)), FakeProcess(61, parent=60))
    trees = ExecutorTrees(system, Ticker())
    trees.update()
    system.end(60)
    system.table[61].parent = 1
    assert members(trees) == {}


def test_a_process_seen_before_it_became_an_executor_is_found_soon_after() -> None:
    ticker = Ticker()
    starting = FakeProcess(60, line=["jspawnhelper"])
    trees = ExecutorTrees(FakeSystem(starting), ticker)
    assert members(trees) == {}
    starting.line = executor_line(1)
    ticker.now_s += 1.0
    assert members(trees) == {"1": {60}}


def test_other_processes_are_examined_ever_less_often() -> None:
    ticker = Ticker()
    other = FakeProcess(5)
    trees = ExecutorTrees(FakeSystem(other), ticker)
    for _ in range(600):
        trees.update()
        ticker.now_s += 1.0
    assert 8 <= other.examined <= 20


def test_a_reused_pid_is_another_process() -> None:
    ticker = Ticker()
    first = FakeProcess(60, line=executor_line(1))
    system = FakeSystem(first)
    trees = ExecutorTrees(system, ticker)
    assert members(trees) == {"1": {60}}
    first.gone = True
    system.add(FakeProcess(60, line=executor_line(2)))
    ticker.now_s += 60.0
    assert members(trees) == {"2": {60}}


def test_an_inaccessible_process_is_not_an_executor() -> None:
    system = FakeSystem(FakeProcess(60, line=executor_line(1), hidden=True), FakeProcess(61))
    assert members(ExecutorTrees(system, Ticker())) == {}
