"""An agent samples only what is subscribed to."""

from __future__ import annotations

from ebbflow.core.metrics import Metric
from ebbflow.monitoring.agent import MOST, Subscriptions
from ebbflow.monitoring.messages import AGENT_METRICS, Topic

CPU = Topic(Metric.NODE_CPU, "app-1")


def subscribed(*frames: bytes) -> Subscriptions:
    subscriptions = Subscriptions()
    for frame in frames:
        subscriptions.update(frame)
    return subscriptions


def test_nothing_is_wanted_at_first() -> None:
    assert not any(subscribed().wants(Topic(metric, "")) for metric in AGENT_METRICS)
    assert not subscribed().include_nodes


def test_a_subscription_to_everything_wants_everything() -> None:
    everything = subscribed(b"\x01")
    assert everything.wants(CPU)
    assert everything.wants(Topic(Metric.HOST_CPU, ""))
    assert everything.include_nodes


def test_a_subscription_to_hosts_does_not_include_nodes() -> None:
    hosts = subscribed(b"\x01host/")
    assert hosts.wants(Topic(Metric.HOST_MEMORY, ""))
    assert not hosts.wants(CPU)
    assert not hosts.include_nodes


def test_a_subscription_to_one_application_matches_only_it() -> None:
    one = subscribed(b"\x01node/node-cpu/app-1/")
    assert one.wants(CPU)
    assert not one.wants(Topic(Metric.NODE_CPU, "app-12"))
    assert not one.wants(Topic(Metric.NODE_MEMORY, "app-1"))


def test_a_subscription_ends_with_its_last_subscriber() -> None:
    assert not subscribed(b"\x01node/", b"\x00node/").wants(CPU)
    assert subscribed(b"\x01node/", b"\x00host/").wants(CPU)


def test_invalid_or_unmatchable_subscriptions_are_ignored() -> None:
    odd = subscribed(
        b"", b"\x02node/", b"node/", b"\x01nodes/", b"\x01node/queue-length/", b"\x01" + b"n" * 9999
    )
    assert len(odd) == 0


def test_a_flood_of_subscriptions_is_bounded() -> None:
    flooded = subscribed(*(f"\x01node/node-cpu/app-{number}/".encode() for number in range(3 * MOST)))
    assert len(flooded) == MOST
