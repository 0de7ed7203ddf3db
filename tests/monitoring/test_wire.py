"""Agents and collectors over real sockets: filtering, keys, and restarts of either side."""

from __future__ import annotations

import stat
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import zmq
from relay import Relay
from wire import APP, keys_in, running_agent, running_collector

from ebbflow.core.metrics import Metric
from ebbflow.errors import InputError
from ebbflow.monitoring.messages import Sample, Topic, encode


def port(address: str) -> int:
    return int(address.rsplit(":", 1)[1])


def test_only_subscribed_metrics_leave_the_agent(wait) -> None:
    with (
        running_agent() as agent,
        Relay(port(agent.address)) as relay,
        running_collector(f"tcp://127.0.0.1:{relay.port}") as collector,
    ):
        wait(collector.receives, "the first reading")
        # The agent does not send what it publishes without a subscription.
        for _ in range(5):
            agent_thread_safe_publish(agent)
        wait(lambda: collector.receives() and len(collector.received) > 5, "more readings")
        assert {(r.subject, r.metric) for r in collector.received} == {("executor-1", Metric.NODE_CPU)}
        assert b"node-cpu" in relay.received
        assert b"node-memory" not in relay.received
        assert b"host-cpu" not in relay.received
        assert agent._sampler.wanted == {Metric.NODE_CPU}
        assert collector.collector.counts.unwanted == 0


def agent_thread_safe_publish(agent) -> None:
    """Let the agent's own thread publish something without a subscription, with its next sample."""
    done = threading.Event()
    sample = agent.sample

    def with_more() -> int:
        agent.publish(Topic(Metric.NODE_MEMORY, APP), [("1", 1.0)], time.time())
        agent.sample = sample
        done.set()
        return sample()

    agent.sample = with_more
    assert done.wait(10)


def test_subscriptions_follow_the_policy_while_it_runs(wait) -> None:
    with running_agent() as agent, running_collector(agent.address) as collector:
        wait(collector.receives, "CPU")
        collector.collector.subscribe_to([("*", Metric.NODE_MEMORY)])
        wait(
            lambda: collector.receives() and collector.received[-1].metric is Metric.NODE_MEMORY,
            "memory instead of CPU",
        )
        collector.received.clear()
        wait(collector.receives, "more memory")
        assert {r.metric for r in collector.received} == {Metric.NODE_MEMORY}
        collector.collector.subscribe_to([])
        wait(lambda: not agent.subscriptions, "the agent to have no subscriptions")


def test_an_agent_without_subscribers_samples_nothing(wait) -> None:
    with running_agent() as agent:
        with running_collector(agent.address) as collector:
            wait(collector.receives, "a reading")
        wait(lambda: not agent.subscriptions, "the agent to know that the collector has closed")
        agent._sampler.wanted.clear()
        sent = agent.sent_readings
        with running_collector(agent.address, series=[("*", Metric.HOST_CPU)]) as collector:
            wait(collector.receives, "a reading of the host")
        assert agent._sampler.wanted == {Metric.HOST_CPU}
        assert agent.sent_readings > sent


def test_each_collector_receives_its_own_subscriptions(wait) -> None:
    with (
        running_agent() as agent,
        running_collector(agent.address) as first,
        running_collector(agent.address, series=[("*", Metric.HOST_CPU)]) as second,
    ):
        wait(first.receives, "CPU of nodes")
        wait(second.receives, "CPU of the host")
        assert {r.metric for r in first.received} == {Metric.NODE_CPU}
        assert {r.metric for r in second.received} == {Metric.HOST_CPU}


def test_a_restarted_agent_is_received_again(wait, tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/agent"
    with running_collector(address) as collector:
        with running_agent(address):
            wait(collector.receives, "the first agent")
        with running_agent(address):
            wait(lambda: collector.receives() and collector.collector.counts.restarts == 1, "its successor")
        counts = collector.collector.counts
        assert (counts.garbage, counts.future, counts.duplicate) == (0, 0, 0)
        while collector.receives():
            pass  # readings still in transit
        collector.received.clear()
        assert not collector.receives()  # missing, not zero


def test_agents_and_collectors_may_start_in_any_order(wait, tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/agent"
    with running_collector(address) as early, running_agent(address):
        wait(early.receives, "an agent that came after its collector")
        with running_collector(address) as again:
            wait(again.receives, "the same agent")


def test_an_agent_with_two_addresses_counts_once(wait) -> None:
    with (
        running_agent() as agent,
        Relay(port(agent.address)) as relay,
        running_collector(agent.address, f"tcp://127.0.0.1:{relay.port}") as collector,
    ):
        wait(lambda: collector.receives() and collector.collector.counts.duplicate > 3, "duplicates")
        times = [(r.time_s, r.subject) for r in collector.received]
        assert len(set(times)) == len(times)


def test_a_closed_collector_receives_nothing(wait) -> None:
    with running_agent() as agent, running_collector(agent.address) as collector:
        wait(collector.receives, "a reading")
        collector.collector.close()
        assert not collector.receives()
        collector.collector.subscribe_to([("*", Metric.NODE_MEMORY)])
        assert not collector.receives()


def test_closing_while_another_thread_receives_is_safe(wait) -> None:
    with running_agent() as agent, running_collector(agent.address) as collector:
        wait(collector.receives, "a reading")
        stop, errors = threading.Event(), []

        def receive() -> None:
            try:
                while not stop.is_set():
                    collector.collector.take(time.time())
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=receive)
        thread.start()
        collector.collector.close()
        stop.set()
        thread.join()
        assert errors == []


def test_a_socket_file_is_accessible_only_to_its_owner(tmp_path: Path) -> None:
    with running_agent(f"ipc://{tmp_path}/agent"):
        assert stat.S_IMODE((tmp_path / "agent").stat().st_mode) & 0o077 == 0


def test_invalid_messages_are_counted_and_valid_ones_received(wait) -> None:
    context = zmq.Context()
    stranger = context.socket(zmq.XPUB)
    stranger.linger = 0
    at = stranger.bind_to_random_port("tcp://127.0.0.1")
    try:
        with running_collector(f"tcp://127.0.0.1:{at}") as collector:
            stranger.poll(10_000)
            assert stranger.recv() == b"\x01" + Topic(Metric.NODE_CPU, APP).encode()
            topic = Topic(Metric.NODE_CPU, APP).encode()
            good = encode(Sample(1, "a", 1, 1, time.time(), [("1", 0.5)]))
            for frames in (
                [topic],
                [topic, b""],
                [topic, good, b""],
                [topic + b"x", good],
                [topic, b"\xc1" * 70_000],
            ):
                stranger.send_multipart(frames)
            stranger.send_multipart([topic, good])
            wait(collector.receives, "the good one")
            assert collector.collector.counts.garbage == 5
            assert [r.value for r in collector.received] == [0.5]
    finally:
        context.destroy(linger=0)


# -- keys --------------------------------------------------------------------------------------------


def test_with_keys_readings_arrive_encrypted(wait, tmp_path: Path) -> None:
    ours, theirs = keys_in(tmp_path)
    with (
        running_agent(keys=ours) as agent,
        Relay(port(agent.address)) as relay,
        running_collector(f"tcp://127.0.0.1:{relay.port}", keys=theirs) as collector,
    ):
        wait(collector.receives, "a reading")
        assert b"node-cpu" not in relay.received  # encrypted
        assert agent.refused == 0


def test_a_collector_with_an_unknown_key_receives_nothing(wait, tmp_path: Path) -> None:
    ours, theirs = keys_in(tmp_path / "ours")
    _, strangers = keys_in(tmp_path / "strangers")
    unknown = replace(strangers, agent=theirs.agent)  # it knows the agent, the agent does not know it
    with (
        running_agent(keys=ours) as agent,
        running_collector(agent.address, keys=unknown) as stranger,
        running_collector(agent.address) as keyless,
        running_collector(agent.address, keys=theirs) as known,
    ):
        wait(lambda: known.receives() and len(known.received) > 20, "a second of readings")
        wait(
            lambda: not stranger.receives() and agent.refused > 2,
            "the stranger to be refused repeatedly",
        )
        assert not keyless.receives()
        assert not stranger.received
        assert stranger.collector.counts.messages == keyless.collector.counts.messages == 0


def test_an_impostor_without_the_secret_is_not_received(wait, tmp_path: Path) -> None:
    ours, theirs = keys_in(tmp_path / "ours")
    forged, _ = keys_in(tmp_path / "forged")
    welcoming = replace(forged, listeners=frozenset({theirs.public}))  # would let the collector in
    with (
        running_agent(keys=welcoming, name="forged") as with_other_key,
        running_agent(name="keyless") as without_keys,
        running_agent(keys=ours) as agent,
        running_collector(
            with_other_key.address, without_keys.address, agent.address, keys=theirs
        ) as collector,
    ):
        wait(lambda: collector.receives() and len(collector.received) > 20, "a second of readings")
        assert set(collector.collector._agents) == {"a"}


def test_a_collector_admitted_later_connects_without_a_restart(wait, tmp_path: Path) -> None:
    ours, theirs = keys_in(tmp_path / "keys")
    address = f"ipc://{tmp_path}/agent"
    with running_collector(address, keys=theirs) as collector:
        with running_agent(address, keys=replace(ours, listeners=frozenset({ours.public}))) as closed:
            wait(lambda: closed.refused > 0, "the collector to be refused")
            assert not collector.receives()
        with running_agent(address, keys=ours):
            wait(collector.receives, "a reading")


def test_a_collector_without_keys_connects_once_the_agent_has_none_either(wait, tmp_path: Path) -> None:
    ours, _ = keys_in(tmp_path / "keys")
    address = f"ipc://{tmp_path}/agent"
    with running_collector(address) as collector:
        connection = collector.collector.connections[0]
        with running_agent(address, keys=ours):
            wait(lambda: collector.receives() or "keys" in connection._fault, "the reason of the refusal")
            assert not collector.received
        with running_agent(address):
            wait(collector.receives, "a reading")


def test_a_refused_connection_is_reported_once_and_so_is_its_return(wait, tmp_path: Path, caplog) -> None:
    ours, theirs = keys_in(tmp_path / "keys")
    address = f"ipc://{tmp_path}/agent"
    now_s = time.time()
    with running_collector(address, keys=theirs) as collector:
        connection = collector.collector.connections[0]
        with running_agent(address, keys=replace(ours, listeners=frozenset({ours.public}))):
            wait(lambda: connection.check(now_s) or "refuses the key" in connection._fault, "the refusal")
            for seconds in range(40):
                connection.check(now_s + seconds)
        warnings = [r.message for r in caplog.records if "not connected" in r.message]
        assert len(warnings) == 1
        assert "it refuses the key" in warnings[0]
        with running_agent(address, keys=ours):
            wait(
                lambda: connection.check(time.time() + 60) or connection.connected, "the connection to return"
            )
        assert caplog.records[-1].message == f"connected to the agent at {address} again"


# -- bad input ---------------------------------------------------------------------------------------


def test_without_keys_an_agent_refuses_an_address_reachable_from_other_machines() -> None:
    with pytest.raises(InputError, match="can be reached from other machines, which needs keys"):
        running_agent("tcp://0.0.0.0:7788").__enter__()


def test_an_address_in_use_is_reported() -> None:
    with (
        running_agent() as agent,
        pytest.raises(InputError, match=r"cannot listen at tcp://[^ ]+: Address already in use$"),
    ):
        running_agent(agent.address).__enter__()


@pytest.mark.parametrize("name", ["", "a b", "a/b", "é"])
def test_an_invalid_agent_name_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="is not a valid agent name"):
        running_agent(name=name).__enter__()
