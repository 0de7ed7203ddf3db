"""Agents and collectors over real sockets: filtering, keys, and either side going away."""

from __future__ import annotations

import stat
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import zmq
from relay import Relay
from wire import APP, calling, keys_in, running_agent

from ebbflow.core.metrics import Metric
from ebbflow.errors import InputError
from ebbflow.monitoring.messages import Sample, Topic, encode


def port(address: str) -> int:
    return int(address.rsplit(":", 1)[1])


def test_only_subscribed_metrics_leave_the_agent(wait) -> None:
    with (
        running_agent() as agent,
        Relay(port(agent.address)) as relay,
        calling(f"tcp://127.0.0.1:{relay.port}") as collector,
    ):
        wait(collector.hears, "the first reading")
        # Even what the agent publishes unasked stays with it.
        for _ in range(5):
            agent_thread_safe_publish(agent)
        wait(lambda: collector.hears() and len(collector.heard) > 5, "more readings")
        assert {(r.subject, r.metric) for r in collector.heard} == {("executor-1", Metric.NODE_CPU)}
        assert b"node-cpu" in relay.heard
        assert b"node-memory" not in relay.heard
        assert b"host-cpu" not in relay.heard
        assert agent._sampler.asked == {Metric.NODE_CPU}
        assert collector.collector.counts.unwanted == 0


def agent_thread_safe_publish(agent) -> None:
    """Let the agent's own thread publish something nobody subscribed to, with its next sample."""
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
    with running_agent() as agent, calling(agent.address) as collector:
        wait(collector.hears, "CPU")
        collector.collector.subscribe_to([("*", Metric.NODE_MEMORY)])
        wait(
            lambda: collector.hears() and collector.heard[-1].metric is Metric.NODE_MEMORY,
            "memory instead of CPU",
        )
        collector.heard.clear()
        wait(collector.hears, "more memory")
        assert {r.metric for r in collector.heard} == {Metric.NODE_MEMORY}
        collector.collector.subscribe_to([])
        wait(lambda: not agent.subscriptions, "the agent to know that nobody listens")


def test_an_agent_without_subscribers_samples_nothing(wait) -> None:
    with running_agent() as agent:
        with calling(agent.address) as collector:
            wait(collector.hears, "a reading")
        wait(lambda: not agent.subscriptions, "the agent to know that the collector has gone")
        agent._sampler.asked.clear()
        sent = agent.sent_readings
        with calling(agent.address, series=[("*", Metric.HOST_CPU)]) as collector:
            wait(collector.hears, "a reading of the host")
        assert agent._sampler.asked == {Metric.HOST_CPU}
        assert agent.sent_readings > sent


def test_each_collector_receives_its_own_subscriptions(wait) -> None:
    with (
        running_agent() as agent,
        calling(agent.address) as first,
        calling(agent.address, series=[("*", Metric.HOST_CPU)]) as second,
    ):
        wait(first.hears, "CPU of nodes")
        wait(second.hears, "CPU of the host")
        assert {r.metric for r in first.heard} == {Metric.NODE_CPU}
        assert {r.metric for r in second.heard} == {Metric.HOST_CPU}


def test_a_restarted_agent_is_received_again(wait, tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/agent"
    with calling(address) as collector:
        with running_agent(address):
            wait(collector.hears, "the first agent")
        with running_agent(address):
            wait(lambda: collector.hears() and collector.collector.counts.restarts == 1, "its successor")
        counts = collector.collector.counts
        assert (counts.garbage, counts.future, counts.duplicate) == (0, 0, 0)
        while collector.hears():
            pass  # what was still under way
        collector.heard.clear()
        assert not collector.hears()  # missing, not zero


def test_a_collector_that_restarts_hears_at_once_and_a_late_agent_is_waited_for(wait, tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/agent"
    with calling(address) as early, running_agent(address):
        wait(early.hears, "an agent that came after its collector")
        with calling(address) as again:
            wait(again.hears, "the same agent")


def test_an_agent_called_twice_counts_once(wait) -> None:
    with (
        running_agent() as agent,
        Relay(port(agent.address)) as relay,
        calling(agent.address, f"tcp://127.0.0.1:{relay.port}") as collector,
    ):
        wait(lambda: collector.hears() and collector.collector.counts.duplicate > 3, "duplicates")
        times = [(r.time_s, r.subject) for r in collector.heard]
        assert len(set(times)) == len(times)


def test_after_hanging_up_nothing_comes_and_nothing_breaks(wait) -> None:
    with running_agent() as agent, calling(agent.address) as collector:
        wait(collector.hears, "a reading")
        collector.collector.close()
        assert not collector.hears()
        collector.collector.subscribe_to([("*", Metric.NODE_MEMORY)])
        assert not collector.hears()


def test_closing_while_another_thread_receives_is_safe(wait) -> None:
    with running_agent() as agent, calling(agent.address) as collector:
        wait(collector.hears, "a reading")
        stop, faults = threading.Event(), []

        def listen() -> None:
            try:
                while not stop.is_set():
                    collector.collector.take(time.time())
            except BaseException as error:
                faults.append(error)

        thread = threading.Thread(target=listen)
        thread.start()
        collector.collector.close()
        stop.set()
        thread.join()
        assert faults == []


def test_a_socket_that_is_a_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    with running_agent(f"ipc://{tmp_path}/agent"):
        assert stat.S_IMODE((tmp_path / "agent").stat().st_mode) & 0o077 == 0


def test_invalid_messages_are_counted_and_valid_ones_received(wait) -> None:
    context = zmq.Context()
    stranger = context.socket(zmq.XPUB)
    stranger.linger = 0
    at = stranger.bind_to_random_port("tcp://127.0.0.1")
    try:
        with calling(f"tcp://127.0.0.1:{at}") as collector:
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
            wait(collector.hears, "the good one")
            assert collector.collector.counts.garbage == 5
            assert [r.value for r in collector.heard] == [0.5]
    finally:
        context.destroy(linger=0)


# -- keys --------------------------------------------------------------------------------------------


def test_with_keys_both_sides_hear_each_other(wait, tmp_path: Path) -> None:
    ours, theirs = keys_in(tmp_path)
    with (
        running_agent(keys=ours) as agent,
        Relay(port(agent.address)) as relay,
        calling(f"tcp://127.0.0.1:{relay.port}", keys=theirs) as collector,
    ):
        wait(collector.hears, "a reading")
        assert b"node-cpu" not in relay.heard  # nobody on the way can read it
        assert agent.refused == 0


def test_an_unknown_key_hears_nothing(wait, tmp_path: Path) -> None:
    ours, theirs = keys_in(tmp_path / "ours")
    _, strangers = keys_in(tmp_path / "strangers")
    unknown = replace(strangers, agent=theirs.agent)  # it knows the agent, the agent does not know it
    with (
        running_agent(keys=ours) as agent,
        calling(agent.address, keys=unknown) as stranger,
        calling(agent.address) as keyless,
        calling(agent.address, keys=theirs) as known,
    ):
        wait(lambda: known.hears() and len(known.heard) > 20, "a second of readings")
        wait(
            lambda: not stranger.hears() and agent.refused > 2,
            "the stranger to be turned away, again and again",
        )
        assert not keyless.hears()
        assert not stranger.heard
        assert stranger.collector.counts.messages == keyless.collector.counts.messages == 0


def test_an_impostor_without_the_secret_is_not_received(wait, tmp_path: Path) -> None:
    ours, theirs = keys_in(tmp_path / "ours")
    forged, _ = keys_in(tmp_path / "forged")
    welcoming = replace(forged, listeners=frozenset({theirs.public}))  # would let the collector in
    with (
        running_agent(keys=welcoming, name="forged") as with_other_key,
        running_agent(name="keyless") as without_keys,
        running_agent(keys=ours) as agent,
        calling(with_other_key.address, without_keys.address, agent.address, keys=theirs) as collector,
    ):
        wait(lambda: collector.hears() and len(collector.heard) > 20, "a second of readings")
        assert set(collector.collector._agents) == {"a"}


def test_a_collector_admitted_later_connects_without_a_restart(wait, tmp_path: Path) -> None:
    ours, theirs = keys_in(tmp_path / "keys")
    address = f"ipc://{tmp_path}/agent"
    with calling(address, keys=theirs) as collector:
        with running_agent(address, keys=replace(ours, listeners=frozenset({ours.public}))) as closed:
            wait(lambda: closed.refused > 0, "the collector to be turned away")
            assert not collector.hears()
        with running_agent(address, keys=ours):
            wait(collector.hears, "a reading")


def test_a_collector_without_keys_connects_once_the_agent_has_none_either(wait, tmp_path: Path) -> None:
    ours, _ = keys_in(tmp_path / "keys")
    address = f"ipc://{tmp_path}/agent"
    with calling(address) as collector:
        line = collector.collector.connections[0]
        with running_agent(address, keys=ours):
            wait(lambda: collector.hears() or "keys" in line._fault, "the line to know why")
            assert not collector.heard
        with running_agent(address):
            wait(collector.hears, "a reading")


def test_a_refused_connection_is_reported_once_and_so_is_its_return(wait, tmp_path: Path, caplog) -> None:
    ours, theirs = keys_in(tmp_path / "keys")
    address = f"ipc://{tmp_path}/agent"
    now_s = time.time()
    with calling(address, keys=theirs) as collector:
        line = collector.collector.connections[0]
        with running_agent(address, keys=replace(ours, listeners=frozenset({ours.public}))):
            wait(lambda: line.check(now_s) or "refuses the key" in line._fault, "the refusal")
            for seconds in range(40):
                line.check(now_s + seconds)
        warnings = [r.message for r in caplog.records if "not connected" in r.message]
        assert len(warnings) == 1
        assert "it refuses the key" in warnings[0]
        with running_agent(address, keys=ours):
            wait(lambda: line.check(time.time() + 60) or line.connected, "the line")
        assert caplog.records[-1].message == f"connected to the agent at {address} again"


# -- bad input ---------------------------------------------------------------------------------------


def test_without_keys_an_agent_refuses_to_be_reached_from_elsewhere() -> None:
    with pytest.raises(InputError, match="can be reached from other machines, which needs keys"):
        running_agent("tcp://0.0.0.0:7788").__enter__()


def test_an_address_in_use_is_reported() -> None:
    with (
        running_agent() as agent,
        pytest.raises(InputError, match=r"cannot listen at tcp://[^ ]+: Address already in use$"),
    ):
        running_agent(agent.address).__enter__()


@pytest.mark.parametrize("name", ["", "a b", "a/b", "é"])
def test_a_name_that_could_not_travel_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="is not a valid agent name"):
        running_agent(name=name).__enter__()
