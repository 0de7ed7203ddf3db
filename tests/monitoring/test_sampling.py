"""Samples have the usage of whole process trees since the last sample; unknown values are left out."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable

import pytest
from fake_system import MAIN_CLASS, FakeProcess, FakeSystem, Ticker, executor_line

from ebbflow.core.metrics import Metric
from ebbflow.monitoring.messages import HOST_METRICS, NODE_METRICS
from ebbflow.monitoring.processes import HostProbe
from ebbflow.monitoring.sampling import HostSampler
from ebbflow.monitoring.tcp_bytes import NetworkProbe, TcpSocket

ALL = NODE_METRICS | HOST_METRICS


class SampledHost:
    """A sampler on a fake host."""

    def __init__(self, *processes: FakeProcess, host_cores: int = 4) -> None:
        self.ticker = Ticker()
        self.system = FakeSystem(*processes)
        self.host_probe = HostProbe(
            self.ticker, cpu=lambda: (0.0, 1.0), memory=lambda: 0.25, disk=lambda: None, network=lambda: None
        )
        self.sampler = HostSampler(
            host="h",
            elapsed_s=self.ticker,
            system=self.system,
            host_probe=self.host_probe,
            network_probe=NetworkProbe(self.ticker, sockets=lambda: None),
            host_cores=host_cores,
        )

    def sample(self, wanted: Iterable[Metric] = ALL) -> dict[tuple[str, Metric], float]:
        measured = self.sampler.sample(lambda topic: topic.metric in wanted)
        return {(m.subject, m.topic.metric): m.value for m in measured}

    def after(self, seconds: float = 1.0, wanted: Iterable[Metric] = ALL) -> dict[tuple[str, Metric], float]:
        self.ticker.now_s += seconds
        return self.sample(wanted)


def test_cpu_of_the_whole_process_tree_is_divided_by_the_executors_cores() -> None:
    java, worker = FakeProcess(10, line=executor_line(3, cores=2), cpu_s=50.0), FakeProcess(11, 10, cpu_s=9.0)
    host = SampledHost(java, worker)
    assert ("3", Metric.NODE_CPU) not in host.sample()  # a rate needs two samples
    java.cpu_s += 0.5
    worker.cpu_s += 1.0
    assert host.after(2.0)["3", Metric.NODE_CPU] == pytest.approx(1.5 / (2.0 * 2))


def test_cores_beyond_those_of_the_host_do_not_count() -> None:
    java = FakeProcess(10, line=executor_line(3, cores=16))
    host = SampledHost(java, host_cores=2)
    host.sample()
    java.cpu_s += 2.0
    assert host.after(1.0)["3", Metric.NODE_CPU] == pytest.approx(1.0)


def test_a_new_worker_counts_fully_and_an_ended_one_not_at_all() -> None:
    java, dying = FakeProcess(10, line=executor_line(3), cpu_s=5.0), FakeProcess(11, 10, cpu_s=7.0)
    host = SampledHost(java, dying)
    host.sample()
    host.system.end(11)
    host.system.add(FakeProcess(12, 10, cpu_s=0.4))
    assert host.after(1.0)["3", Metric.NODE_CPU] == pytest.approx(0.4)


def test_usage_before_the_first_sample_does_not_count() -> None:
    host = SampledHost(
        FakeProcess(10, line=executor_line(3), cpu_s=5000.0), FakeProcess(11, 10, cpu_s=3000.0)
    )
    host.sample()
    assert host.after(1.0)["3", Metric.NODE_CPU] == 0.0


def test_after_a_pause_the_next_measurement_is_a_first_one() -> None:
    java = FakeProcess(10, line=executor_line(3))
    host = SampledHost(java)
    host.sample()
    host.after(1.0, wanted=())
    java.cpu_s += 90.0
    host.system.add(FakeProcess(11, 10, cpu_s=90.0))
    assert ("3", Metric.NODE_CPU) not in host.after(100.0)
    java.cpu_s += 0.5
    assert host.after(1.0)["3", Metric.NODE_CPU] == pytest.approx(0.5)


def test_cpu_never_exceeds_the_cores_of_the_host() -> None:
    java = FakeProcess(10, line=executor_line(3))
    host = SampledHost(java, host_cores=2)
    host.sample()
    java.cpu_s += 1000.0
    assert host.after(1.0)["3", Metric.NODE_CPU] == pytest.approx(2.0)


def test_a_process_whose_cpu_time_decreases_is_another_process() -> None:
    java = FakeProcess(10, line=executor_line(3), cpu_s=50.0)
    host = SampledHost(java)
    host.sample()
    java.cpu_s = 1.0
    assert ("3", Metric.NODE_CPU) not in host.after(1.0)


def test_memory_is_summed_and_disks_are_rates() -> None:
    java = FakeProcess(10, line=executor_line(3), rss=100, read=1000, written=50)
    worker = FakeProcess(11, 10, rss=20, read=0, written=0)
    host = SampledHost(java, worker)
    assert host.sample()["3", Metric.NODE_MEMORY] == 120.0
    java.read, worker.written = 3000, 500
    seen = host.after(2.0)
    assert seen["3", Metric.NODE_DISK_READ] == pytest.approx(1000.0)
    assert seen["3", Metric.NODE_DISK_WRITE] == pytest.approx(250.0)


def test_disk_rates_are_left_out_if_one_process_hides_them() -> None:
    host = SampledHost(
        FakeProcess(10, line=executor_line(3), rss=1), FakeProcess(11, 10, rss=1, hides_disk=True)
    )
    host.sample()
    seen = host.after(1.0)
    assert ("3", Metric.NODE_DISK_READ) not in seen
    assert ("3", Metric.NODE_DISK_WRITE) not in seen
    assert seen["3", Metric.NODE_MEMORY] == 2.0
    assert seen["3", Metric.NODE_CPU] == 0.0


def test_an_executor_that_ends_during_the_sample_is_missing_not_zero() -> None:
    java = FakeProcess(10, line=executor_line(3))
    host = SampledHost(java, FakeProcess(20, line=executor_line(4)))
    host.sample()
    java.gone = True  # still listed, but ended
    seen = host.after(1.0)
    assert {subject for subject, _ in seen} == {"4", "h"}


def test_heap_and_network_are_left_out_if_inaccessible() -> None:
    host = SampledHost(FakeProcess(10, line=executor_line(3)))
    host.sample()
    metrics = {metric for subject, metric in host.after(1.0) if subject == "3"}
    assert metrics == {Metric.NODE_CPU, Metric.NODE_MEMORY, Metric.NODE_DISK_READ, Metric.NODE_DISK_WRITE}


def test_only_wanted_metrics_of_wanted_applications_are_measured() -> None:
    host = SampledHost(
        FakeProcess(10, line=executor_line(1, application="app-a"), rss=5),
        FakeProcess(20, line=executor_line(1, application="app-b"), rss=7, hides_disk=True),
    )
    measured = host.sampler.sample(lambda topic: topic == (Metric.NODE_MEMORY, "app-b"))
    assert [(m.topic.application, m.value) for m in measured] == [("app-b", 7.0)]


def test_without_wanted_executor_metrics_no_process_is_examined() -> None:
    java = FakeProcess(10, line=executor_line(3))
    host = SampledHost(java)
    host.sampler.sample(lambda topic: topic.metric is Metric.HOST_MEMORY, nodes=False)
    assert java.examined == 0


def test_the_hosts_rates_are_differences_over_time() -> None:
    ticker = Ticker()
    cpu, disk, network = [10.0, 100.0], [1000.0, 0.0], [0.0, 0.0]
    probe = HostProbe(
        ticker, cpu=lambda: (cpu[0], cpu[1]), memory=lambda: 0.5,
        disk=lambda: (disk[0], disk[1]), network=lambda: (network[0], network[1]),
    )  # fmt: skip
    assert dict(probe.measure(HOST_METRICS)) == {Metric.HOST_MEMORY: 0.5}
    ticker.now_s += 2.0
    cpu[:], disk[:], network[:] = [11.0, 104.0], [3000.0, 500.0], [64.0, 32.0]
    assert dict(probe.measure(HOST_METRICS)) == {
        Metric.HOST_MEMORY: 0.5, Metric.HOST_CPU: 0.25,
        Metric.HOST_DISK_READ: 1000.0, Metric.HOST_DISK_WRITE: 250.0,
        Metric.HOST_NETWORK_IN: 32.0, Metric.HOST_NETWORK_OUT: 16.0,
    }  # fmt: skip
    ticker.now_s += 1.0
    disk[0] = 0.0  # a disk was removed
    assert Metric.HOST_DISK_READ not in dict(probe.measure(HOST_METRICS))


def test_only_traffic_that_leaves_the_process_tree_counts() -> None:
    ticker = Ticker()
    here, far = b"here", b"far"
    sockets = {
        1: TcpSocket(here, far, 100, 10),  # the executor and another host
        2: TcpSocket(b"java", b"python", 5000, 5000),  # the executor and its own worker
        3: TcpSocket(b"python", b"java", 5000, 5000),
        4: TcpSocket(b"someone", b"else", 1, 1),
    }
    held = {10: {1, 2}, 11: {3}}
    host = SampledHost(FakeProcess(10, line=executor_line(3)), FakeProcess(11, 10))
    probe = NetworkProbe(ticker, sockets=lambda: dict(sockets), inodes=lambda pid: held[pid])
    trees = host.sampler._trees.update()
    assert probe.measure(trees) == {}
    sockets[1] = TcpSocket(here, far, 300, 20)
    sockets[2] = TcpSocket(b"java", b"python", 9000, 9000)
    ticker.now_s += 2.0
    assert probe.measure(trees) == {10: (100.0, 5.0)}
    held[10] |= {5}
    sockets[5] = TcpSocket(here, b"driver", 1000, 0)
    ticker.now_s += 1.0
    assert probe.measure(trees) == {10: (0.0, 0.0)}  # its owner is looked up later
    ticker.now_s += 10.0
    sockets[5] = TcpSocket(here, b"driver", 2000, 0)
    assert probe.measure(trees) == {10: (100.0, 0.0)}


def test_network_rates_are_left_out_if_a_process_is_inaccessible() -> None:
    ticker = Ticker()
    probe = NetworkProbe(ticker, sockets=lambda: {1: TcpSocket(b"a", b"b", 1, 1)}, inodes=lambda pid: None)
    trees = SampledHost(FakeProcess(10, line=executor_line(3))).sampler._trees.update()
    probe.measure(trees)
    ticker.now_s += 1.0
    assert probe.measure(trees) == {}


def test_an_executor_without_connections_has_a_network_rate_of_zero() -> None:
    ticker = Ticker()
    probe = NetworkProbe(ticker, sockets=dict, inodes=lambda pid: set())
    trees = SampledHost(FakeProcess(10, line=executor_line(3))).sampler._trees.update()
    assert probe.measure(trees) == {}  # a rate needs two samples
    ticker.now_s += 1.0
    assert probe.measure(trees) == {10: (0.0, 0.0)}
    more = SampledHost(FakeProcess(10, line=executor_line(3)), FakeProcess(20, line=executor_line(4)))
    ticker.now_s += 10.0
    assert probe.measure(more.sampler._trees.update()) == {10: (0.0, 0.0), 20: (0.0, 0.0)}


CHILD = """
import os, sys
pid = os.fork()
if pid == 0:
    kept = bytearray(30_000_000)
    kept[::4096] = b"x" * len(kept[::4096])
    print("up", flush=True)
    while True:
        sum(range(10_000))
sys.stdin.read()
os.kill(pid, 9)
"""


def test_real_processes_are_found_and_measured(wait) -> None:
    sampler = HostSampler(host="h", elapsed_s=time.monotonic)
    arguments = [MAIN_CLASS, "--executor-id", "77", "--cores", "1", "--app-id", f"app-{os.getpid()}"]
    with subprocess.Popen(
        [sys.executable, "-I", "-c", CHILD, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as executor:
        assert executor.stdout is not None
        executor.stdout.readline()
        seen: dict[Metric, float] = {}

        def shows_cpu() -> bool:
            for m in sampler.sample(lambda topic: topic.application == f"app-{os.getpid()}"):
                assert m.subject == "77"
                seen[m.topic.metric] = m.value
            return seen.get(Metric.NODE_CPU, 0.0) > 0.05

        wait(shows_cpu, "the worker's CPU to show")
        assert seen[Metric.NODE_MEMORY] > 30_000_000
        assert executor.stdin is not None
        executor.stdin.close()
        executor.wait()

        def gone() -> bool:
            return not sampler.sample(lambda topic: topic.application == f"app-{os.getpid()}")

        wait(gone, "the executor to be forgotten")
    sampler.close()
