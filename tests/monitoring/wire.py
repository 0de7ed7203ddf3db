"""Agents and collectors on real sockets of this machine, for tests."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

from ebbflow.core.clock import SystemClock
from ebbflow.core.metrics import Metric
from ebbflow.monitoring.agent import Agent
from ebbflow.monitoring.collector import Collector, Series
from ebbflow.monitoring.keys import AgentKeys, CollectorKeys
from ebbflow.monitoring.messages import Topic
from ebbflow.monitoring.sampling import SampledValue

APP = "app-1"
CPU: Series = ("*", Metric.NODE_CPU)


class FakeSampler:
    """A sampler that has a value for each wanted metric, and records which were wanted."""

    def __init__(self) -> None:
        self.wanted: set[Metric] = set()

    def sample(self, wanted, *, nodes: bool = True) -> list[SampledValue]:
        found = []
        for metric in (Metric.NODE_CPU, Metric.NODE_MEMORY, Metric.HOST_CPU):
            topic = Topic(metric, APP if nodes and metric is not Metric.HOST_CPU else "")
            if wanted(topic):
                self.wanted.add(metric)
                found.append(SampledValue(topic, "1", 0.5))
        return found

    def close(self) -> None:
        pass


@contextlib.contextmanager
def running_agent(
    address: str = "tcp://127.0.0.1:*", *, keys: AgentKeys | None = None, name: str = "a"
) -> Iterator[Agent]:
    """An agent that samples twenty times a second in a thread."""
    agent = Agent(
        address, FakeSampler(), SystemClock(), elapsed_s=time.monotonic, name=name, keys=keys, every_s=0.05
    )
    stop = threading.Event()
    thread = threading.Thread(target=agent.run, args=(stop,))
    thread.start()
    try:
        yield agent
    finally:
        stop.set()
        thread.join()
        agent.close()


@contextlib.contextmanager
def running_collector(
    *addresses: str, keys: CollectorKeys | None = None, series=(CPU,)
) -> Iterator[SimpleNamespace]:
    """A collector; ``receives()`` is whether new readings arrived, and ``received`` has all of them."""
    collector = Collector(addresses, application=APP, keys=keys, reconnect_after_s=0.2)
    collector.subscribe_to(series)
    received: list = []

    def receives() -> bool:
        new = collector.take(time.time())
        received.extend(new)
        return bool(new)

    try:
        yield SimpleNamespace(collector=collector, received=received, receives=receives)
    finally:
        collector.close()


def keys_in(folder: Path):
    """Keys of the agent and of the collector."""
    from ebbflow.monitoring.keys import agent_keys, collector_keys, make_keys

    agent, collector = make_keys(folder)
    return agent_keys(agent), collector_keys(collector)
