"""The cost of an agent for its host (CPU, memory) and the network (bytes per reading), with eight executors.

The executors are fake: processes with an executor's command line, three workers and 300 open files each.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from benchmarks.fake_executors import fake_executors
from benchmarks.figures import Figure
from ebbflow.core.clock import SystemClock
from ebbflow.core.metrics import Metric
from ebbflow.monitoring.agent import Agent
from ebbflow.monitoring.collector import Collector, Series
from ebbflow.monitoring.keys import agent_keys, collector_keys, make_keys
from ebbflow.monitoring.messages import AGENT_METRICS
from ebbflow.monitoring.sampling import HostSampler
from ebbflow.monitoring.tcp_bytes import tcp_sockets

EXECUTORS, WARM_S, SECONDS = 8, 10.0, 20.0
APPLICATION = "app-20261116000002-0000"
EVERYTHING: frozenset[Series] = frozenset(("*", metric) for metric in AGENT_METRICS)
CPU_ONLY: frozenset[Series] = frozenset({("*", Metric.NODE_CPU)})
POLICIES = {"nothing": frozenset[Series](), "node-cpu": CPU_ONLY, "everything": EVERYTHING}
EACH_SAMPLE = {CPU_ONLY: EXECUTORS, EVERYTHING: 6 * EXECUTORS + 6}
"""Readings per sample, without the heap, which fake executors lack. Far fewer mean that the agent did not work."""
HEARD = 0.8


def measure() -> list[Figure]:
    with fake_executors(EXECUTORS, application=APPLICATION):
        figures = [figure for name, series in POLICIES.items() for figure in _cpu(name, series)]
        figures += _bytes("node-cpu", CPU_ONLY, keys=False)
        figures += _bytes("everything", EVERYTHING, keys=False)
        figures += _bytes("everything, with keys", EVERYTHING, keys=True)
    return figures


def _cpu(name: str, series: frozenset[Series]) -> list[Figure]:
    """CPU of the agent's process, as the local cluster starts it, at one sample per second."""
    with tempfile.TemporaryDirectory() as folder:
        address = f"ipc://{folder}/agent"
        process = subprocess.Popen([sys.executable, "-m", "ebbflow.monitoring", address])
        collector = Collector([address], application=APPLICATION)
        try:
            collector.subscribe_to(series)
            agent = psutil.Process(process.pid)
            _pass_time(collector, WARM_S)
            before_s, readings_before, began_s = (
                sum(agent.cpu_times()[:2]),
                collector.counts.readings,
                time.monotonic(),
            )
            _pass_time(collector, SECONDS)
            span_s = time.monotonic() - began_s
            share = 100 * (sum(agent.cpu_times()[:2]) - before_s) / span_s
            readings = (collector.counts.readings - readings_before) / span_s
            what = f"agent, {EXECUTORS} executors, {name} subscribed"
            figures = [
                Figure(what=f"{what}: CPU", value=share, unit="% of a core", bar=1.0),
                Figure(
                    what=f"{what}: readings",
                    value=readings,
                    unit="readings/s",
                    bar=HEARD * EACH_SAMPLE[series] if series else None,
                    at_least=True,
                ),
            ]
            if series == EVERYTHING:
                resident = agent.memory_info().rss / 1e6
                figures.append(Figure(what=f"{what}: memory", value=resident, unit="MB"))
            return figures
        finally:
            process.terminate()
            process.wait()
            collector.close()


def _bytes(name: str, series: frozenset[Series], *, keys: bool) -> list[Figure]:
    """Bytes from agent to collector as counted by the kernel, including frames and encryption."""
    with _wire(keys=keys) as (agent, collector):
        port = int(agent.address.rsplit(":", 1)[1])
        collector.subscribe_to(series)
        for _ in range(50):  # as fast as possible: the size of a message does not depend on time
            agent.listen()
            agent.sample()
            collector.take(time.time())
            time.sleep(0.02)
        bytes_before, readings_before = _settled(port, collector), collector.counts.readings
        for _ in range(100):
            agent.sample()
            time.sleep(0.02)
        came = _settled(port, collector) - bytes_before
        readings = collector.counts.readings - readings_before
        what, least = f"wire, {EXECUTORS} executors, {name}", HEARD * 100 * EACH_SAMPLE[series]
        if readings < least:  # this process was paused; report that, and keep the other figures
            label = f"{what}: readings of 100 samples, too few to weigh"
            return [Figure(what=label, value=readings, unit="readings", bar=least, at_least=True)]
        return [Figure(what=what, value=came / readings, unit="bytes/reading")]


@contextlib.contextmanager
def _wire(*, keys: bool) -> Iterator[tuple[Agent, Collector]]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sides = make_keys(folder) if keys else None
        agent = Agent(
            "tcp://127.0.0.1:*",
            HostSampler(host="worker-1", elapsed_s=time.monotonic),
            SystemClock(),
            elapsed_s=time.monotonic,
            name="worker-1",
            keys=agent_keys(sides[0]) if sides else None,
        )
        stack.callback(agent.close)
        collector = Collector(
            [agent.address],
            application=APPLICATION,
            keys=collector_keys(sides[1]) if sides else None,
        )
        stack.callback(collector.close)
        yield agent, collector


def _settled(port: int, collector: Collector) -> int:
    """Bytes received from the agent's port, after the last has arrived."""
    came = -1
    while True:
        collector.take(time.time())
        far_end = port.to_bytes(2, "big")
        sockets = tcp_sockets() or {}
        now = sum(each.received for each in sockets.values() if each.there.startswith(far_end))
        if now == came:
            return came
        came = now
        time.sleep(0.2)


def _pass_time(collector: Collector, seconds: float) -> None:
    stop, until_s = threading.Event(), time.monotonic() + seconds
    while time.monotonic() < until_s:
        collector.take(time.time())
        stop.wait(min(1.0, max(0.0, until_s - time.monotonic())))
