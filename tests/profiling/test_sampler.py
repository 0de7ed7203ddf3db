"""Readings to samples: what is counted in which window."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow.core.layout import MAIN
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Operator, Pipeline, Stream
from ebbflow.core.readings import Reading
from ebbflow.profiling.samples import Sampler, Track

CHAIN = Pipeline.chain("p", "a", "b")


def readings_at(
    times_s: list[float], rows: float, cpu: float, instances: float = 1.0, name: str = "a"
) -> list[Reading]:
    found = []
    for time_s in times_s:
        found += [
            Reading(time_s, name, Metric.ROWS_IN, rows),
            Reading(time_s, name, Metric.INSTANCE_CPU, cpu),
            Reading(time_s, name, Metric.INSTANCES, instances),
        ]
    return found


@given(cuts=st.lists(st.floats(0.1, 99.9), max_size=8, unique=True))
def test_no_row_is_lost_or_counted_twice_however_windows_are_cut(cuts: list[float]) -> None:
    track = Track()
    for time_s in (0.0, 7.0, 31.0, 64.0, 100.0):
        track.add(time_s, 3.0 * time_s)
    edges = [0.0, *sorted(cuts), 100.0]
    parts = [track.between(a, b) for a, b in itertools.pairwise(edges)]
    assert sum(parts) == pytest.approx(3.0 * (7 + 31 + 64 + 100))
    assert min(parts) >= 0


def test_rates_are_of_one_instance_and_cpu_is_in_cores() -> None:
    sampler = Sampler(window_s=10.0)
    sampler.add(readings_at([0.0, 5.0, 10.0, 15.0, 20.0], rows=300.0, cpu=0.4, instances=3.0))
    found = sampler.take(CHAIN).cpu["a"]
    assert [(s.time_s, s.x, pytest.approx(s.y)) for s in found] == [(10.0, 20.0, 0.4), (20.0, 20.0, 0.4)]


def test_readings_at_the_ends_of_batches_give_the_same_as_regular_ones() -> None:
    """100 rows/s at 2 ms a row, in batches of 3, 7, 4 … s."""
    sampler, last_s = Sampler(window_s=10.0), 0.0
    sampler.add(readings_at([0.0], 0.0, 0.0))
    for time_s in (3.0, 10.0, 14.0, 26.0, 27.0, 41.0):
        sampler.add(readings_at([time_s], rows=100.0 * (time_s - last_s), cpu=0.2))
        last_s = time_s
    found = sampler.take(CHAIN).cpu["a"]
    assert [(s.time_s, pytest.approx(s.x), pytest.approx(s.y)) for s in found] == [
        (10.0, 100.0, 0.2), (20.0, 100.0, 0.2), (30.0, 100.0, 0.2), (40.0, 100.0, 0.2),
    ]  # fmt: skip


def test_a_window_in_which_instances_changed_is_no_sample() -> None:
    sampler = Sampler(window_s=10.0)
    sampler.add(readings_at([0.0, 5.0, 10.0], 100.0, 0.2, instances=1.0))
    sampler.add(readings_at([15.0, 20.0, 25.0, 30.0], 100.0, 0.1, instances=2.0))
    assert [s.time_s for s in sampler.take(CHAIN).cpu["a"]] == [10.0, 30.0]


def test_readings_may_come_in_any_portions_and_each_window_is_sampled_once() -> None:
    readings = readings_at([float(t) for t in range(0, 101)], 10.0, 0.1)
    whole, parts = Sampler(window_s=10.0), Sampler(window_s=10.0)
    whole.add(readings)
    found = []
    for first in range(0, len(readings), 7):
        parts.add(readings[first : first + 7])
        found += list(parts.take(CHAIN).cpu.get("a", ()))
    assert found == whole.take(CHAIN).cpu["a"]
    assert len(found) == 10


def test_a_node_has_the_cpu_of_all_operators_divided_by_the_nodes() -> None:
    sampler = Sampler(window_s=10.0)
    for t in (0.0, 10.0, 20.0, 30.0):
        sampler.add(readings_at([t], 100.0, 0.5, instances=4.0))
        sampler.add(readings_at([t], 100.0, 0.25, instances=2.0, name="b"))
        sampler.add([Reading(t, MAIN, Metric.SLOTS, 8.0), Reading(t, MAIN, Metric.NODES, 2.0)])
        sampler.add([Reading(t, "node-1", Metric.NODE_CPU, 0.4), Reading(t, "node-2", Metric.NODE_CPU, 0.3)])
    found = sampler.take(CHAIN).node
    assert [(s.x, pytest.approx(s.y)) for s in found] == [(1.25, 0.35), (1.25, 0.35)]  # (2 + 0.5) / 2
    assert sampler.cores == 4


def test_an_ended_operator_does_not_keep_nodes_from_being_learned() -> None:
    sampler = Sampler(window_s=10.0)
    sampler.add(readings_at([0.0, 10.0], 100.0, 0.5, name="gone"))
    for t in range(0, 600, 10):
        sampler.add([*readings_at([float(t)], 100.0, 0.5), Reading(float(t), MAIN, Metric.NODES, 1.0)])
        sampler.add([Reading(float(t), "node-1", Metric.NODE_CPU, 0.4)])
        last = sampler.take(CHAIN).node
    assert last


def test_selectivity_is_that_of_the_stream_if_its_rows_are_counted_separately() -> None:
    """a feeds b and c; b and c feed d: rows into b and c are those of their streams, rows out of b and c too."""
    names = ("a", "b", "c", "d")
    pipeline = Pipeline(
        name="p",
        operators=tuple(Operator(name=name) for name in names),
        streams=tuple(Stream(source=s, target=t) for s, t in ("ab", "ac", "bd", "cd")),
    )
    sampler = Sampler(window_s=10.0)
    into = {"a": 100.0, "b": 200.0, "c": 50.0, "d": 260.0}
    out = {"a": 250.0, "b": 20.0, "c": 240.0, "d": 1.0}
    for t in (0.0, 10.0):
        for name in names:
            sampler.add(
                [Reading(t, name, Metric.ROWS_IN, into[name]), Reading(t, name, Metric.ROWS_OUT, out[name])]
            )
    found = sampler.take(pipeline).selectivity
    assert {ends: s[0].y / s[0].x for ends, s in found.items()} == {
        ("a", "b"): 2.0, ("a", "c"): 0.5, ("b", "d"): 0.1, ("c", "d"): 4.8,
    }  # fmt: skip


def test_where_no_stream_is_known_rows_are_counted_from_the_source() -> None:
    pipeline = Pipeline(name="app", operators=(Operator(name="a", query="q"), Operator(name="b", query="q")))
    sampler = Sampler(window_s=10.0)
    for t in (0.0, 10.0):
        sampler.add([Reading(t, "q", Metric.BATCH_ROWS, 10.0)])
        sampler.add([Reading(t, "a", Metric.ROWS_IN, 10.0), Reading(t, "b", Metric.ROWS_IN, 170.0)])
    found = sampler.take(pipeline).selectivity
    assert {ends: s[0].y / s[0].x for ends, s in found.items()} == {("app", "a"): 1.0, ("app", "b"): 17.0}


def test_readings_of_past_windows_are_dropped() -> None:
    sampler = Sampler(window_s=10.0)
    for t in range(20_000):
        sampler.add(readings_at([float(t)], 10.0, 0.1))
        if t % 100 == 0:
            sampler.take(CHAIN)
    assert len(sampler._operators["a"].rows_in._times_s) < 300
    assert len(sampler._operators["a"].instances._times_s) < 300


def test_cores_are_slots_by_node_while_no_node_joins_or_leaves() -> None:
    sampler, cores = Sampler(), []
    counts = [(4, 1), (4, 1), (8, 2), (8, 2), (8, 1), (4, 1), (4, 1), (12, 3), (12, 3), (16, 2), (16, 2)]
    for time_s, (slots, nodes) in enumerate(counts):
        sampler.add([Reading(float(time_s), MAIN, Metric.NODES, float(nodes))])
        sampler.add([Reading(time_s + 0.01, MAIN, Metric.SLOTS, float(slots))])
        cores.append(sampler.cores)
    assert cores == [1, *[4] * 9, 8], "larger nodes count from the second observation"
