"""Nodes differ, join late, leave after their work; noise has mean 1; the seed determines everything."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sim_worlds import named_operator, named_query, query, shared_world, world

from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.run import Run
from ebbflow.core.slo import Slo
from ebbflow.errors import InputError
from ebbflow.runs.score import score, score_together
from ebbflow.targets.simulator import Cluster, NodeDies, NodeKind, Stage
from ebbflow.targets.simulator.engine import NoiseDraws
from ebbflow.targets.simulator.nodes import NodePool


def test_nodes_get_their_speeds_in_turn_and_fast_ones_take_more_tasks() -> None:
    kind = NodeKind(speeds=(1.0, 0.5))
    target, clock = world(query(Stage(tasks=6, per_task_s=1.0), driver_s=0.0), "constant(10)", 2, kind=kind)
    clock.advance(12.0)
    target.observe()
    # from 5 s to 9 s: four on the fast node, two on the slow one
    assert target.processed().times_s[1] == pytest.approx(9.0)


@given(
    requests=st.lists(st.tuples(st.floats(0.1, 30.0), st.integers(1, 6), st.booleans()), max_size=8),
    offsets_s=st.lists(st.floats(0.0, 15.0), min_size=1, max_size=6),
    dies=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_cached_counts_are_the_same_as_new_counts(requests, offsets_s, dies) -> None:
    faults = [NodeDies(at_s=20.0)] if dies else []
    pool = NodePool(NodeKind(lead_time_s=7.3, drain_s=4.0), 2, np.random.default_rng(1), faults)
    now_s = 0.0
    for wait_s, nodes, busy in [*requests, (50.0, 2, False)]:
        for offset_s in sorted(offsets_s):
            pool.advance(now_s + offset_s)
            cached = pool.counts(now_s + offset_s)
            pool._counts = None
            new = pool.counts(now_s + offset_s)
            assert replace(cached, from_s=new.from_s) == new
        now_s += max(offsets_s) + wait_s
        pool.advance(now_s)
        pool.set_nodes(now_s, nodes, busy=busy)
        pool.release(now_s, between_batches=not busy)


def test_the_lead_time_of_each_joined_node_is_read_once_and_of_a_cancelled_one_never() -> None:
    other = Cluster(nodes=NodeKind(lead_time_s=99.0), initial_nodes=1)
    target, clock = world(
        query(Stage(tasks=2)), "constant(10)", 1, kind=NodeKind(lead_time_s=12.0), clusters={"other": other}
    )
    read = []
    for wanted in (3, 2, 2, 2, 2):  # at 0 s, 10 s …: two are requested, one of them is cancelled
        target.apply(Layout(nodes={"main": wanted, "other": 2}))
        clock.advance(10.0)
        read += [(r.time_s, r.value) for r in target.observe().readings if r.metric is Metric.LEAD_TIME]
    clock.advance(100.0)
    assert not [r for r in target.observe().readings if r.metric is Metric.LEAD_TIME]
    assert read == [(20.0, 12.0)]


def test_past_changes_are_found_after_many_later_ones() -> None:
    pool = NodePool(NodeKind(lead_time_s=10.0), 1, np.random.default_rng(1))
    pool.set_nodes(100.0, 2, busy=False)  # joins at 110, leaves at 200
    pool.set_nodes(200.0, 1, busy=False)
    for turn in range(500):
        pool.set_nodes(300.0 + 20 * turn, 2, busy=False)
        pool.set_nodes(315.0 + 20 * turn, 1, busy=False)
    assert pool.changed_between(105.0, 110.0)
    assert not pool.changed_between(110.0, 199.0)
    assert pool.changed_between(150.0, 250.0)
    assert not pool.changed_between(200.0, 309.0)


def test_a_cancelled_request_is_not_a_change() -> None:
    pool = NodePool(NodeKind(lead_time_s=10.0), 1, np.random.default_rng(1))
    pool.set_nodes(100.0, 3, busy=True)
    pool.set_nodes(105.0, 1, busy=True)
    assert not pool.changed_between(0.0, 200.0)


@given(
    requests=st.lists(st.tuples(st.floats(0.1, 9.0), st.integers(1, 6), st.booleans()), max_size=30),
    spans=st.lists(st.tuples(st.floats(0.0, 150.0), st.floats(0.0, 40.0)), min_size=1, max_size=10),
)
@settings(max_examples=60, deadline=None)
def test_changes_are_those_of_all_nodes_that_ever_joined(requests, spans) -> None:
    pool = NodePool(
        NodeKind(lead_time_s=4.0, drain_s=3.0), 2, np.random.default_rng(1), [NodeDies(at_s=20.0)]
    )
    now_s = 0.0
    for wait_s, nodes, busy in requests:
        now_s += wait_s
        pool.advance(now_s)
        pool.release(now_s, between_batches=not busy)
        pool.set_nodes(now_s, nodes, busy=busy)
    pool.advance(now_s + 10.0)
    worked = [node for node in pool._history if node.join_s < node.stop_s]
    changes_s = [t for node in worked for t in (node.join_s, node.stop_s)]
    for start_s, length_s in spans:
        end_s = start_s + length_s
        assert pool.changed_between(start_s, end_s) == any(start_s < t <= end_s for t in changes_s)


def test_a_node_that_dies_within_a_second_is_paid_for_that_second() -> None:
    # at 10.25 s: the continuous engine works whole seconds, a batch ends where it ends
    dies = (NodeDies(at_s=10.25),)
    fluid = named_operator("p", cost_s=0.1, parallelism={"work": 2})
    target, clock = world(fluid, "constant(100)", 2, faults=dies)
    clock.advance(20.0)
    target.observe()
    assert target.processed().values[10:13].tolist() == pytest.approx([200.0, 220.0, 230.0])
    # its replacement is requested, and paid, at once
    assert target.held().integral(10.0, 12.0) == pytest.approx(3.0 + 0.75 + 1.0)
    batches, clock = world(query(Stage(tasks=2, per_task_s=1.0)), "constant(100)", 2, faults=dies)
    clock.advance(20.0)
    batches.observe()
    assert batches.held().integral(10.0, 12.0) == pytest.approx(4.0)


def test_a_node_that_joins_and_leaves_within_a_second_is_never_counted_below_zero() -> None:
    target, clock = world(named_operator("p"), "constant(5)", 1, kind=NodeKind(lead_time_s=0.0, drain_s=0.0))
    for second in range(10):
        clock.advance(second + 0.9 - clock.now_s())
        target.apply(Layout.of(5))
        clock.advance(0.05)
        target.apply(Layout.of(1))
    clock.advance(20.0 - clock.now_s())
    target.observe()
    assert target.held().values.min() >= 1.0


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"drain_s": -1.0}, "a drain time of -1 s; it must be 0s or more"),
        ({"drain_s": math.nan}, "a drain time of nan s"),
        ({"lead_noise": -0.1}, "a lead noise of -0.1; it must be 0 or more"),
        ({"lead_noise": math.nan}, "a lead noise of nan"),
        ({"lead_noise": math.inf}, "a lead noise of inf"),
        ({"lead_time_s": math.inf}, "a lead time of inf s; it must be 0s or more, and finite"),
        ({"speeds": (1.0, math.nan)}, "it must be one or more speeds from 1e-06 to 1e+06"),
        ({"speeds": (math.nan, 1.0)}, "it must be one or more speeds from 1e-06 to 1e+06"),
        ({"speeds": (math.inf,)}, "it must be one or more speeds from 1e-06 to 1e+06"),
        ({"speeds": (1e308,)}, "node-speeds is [1e+308]; it must be one or more speeds"),
        ({"speeds": ()}, "it must be one or more speeds"),
    ],
)
def test_invalid_node_kinds_are_refused(fields, words: str) -> None:
    with pytest.raises(InputError) as refused:
        NodeKind(**fields)
    assert words in str(refused.value)


def test_an_instance_has_the_speed_of_its_node() -> None:
    for speeds, rate in (((1.0,), 20.0), ((1.0, 0.5), 15.0)):
        target, clock = world(
            named_operator("p", parallelism={"work": 2}), "constant(100)", 2, kind=NodeKind(speeds=speeds)
        )
        clock.advance(100.0)
        assert target.work().processed == pytest.approx(100 * rate)


def test_lead_times_vary_around_their_median_and_are_learned() -> None:
    kind = NodeKind(lead_time_s=20.0, lead_noise=0.3)
    target, clock = world(named_operator("p"), "constant(1)", kind=kind)
    leads = []
    for _ in range(40):
        target.apply(Layout.of(2))
        (action,) = [a for a in target.observe().under_way if a.kind.value == "grow"]
        requested_s = action.since_s
        while target.observe().layout.main_nodes == 1:
            clock.advance(0.5)
        leads.append(clock.now_s() - requested_s)
        target.apply(Layout.of(1))
        clock.advance(60.0)
    assert np.median(leads) == pytest.approx(20.0, rel=0.2)
    assert np.std(np.log(leads)) == pytest.approx(0.3, rel=0.4)
    assert 12.0 < target.observe().lead_time_s < 40.0


def test_the_replacement_of_a_dead_node_has_a_lead_time() -> None:
    deaths = [NodeDies(at_s=1000.0 * turn) for turn in range(1, 41)]
    pool = NodePool(NodeKind(lead_time_s=20.0, lead_noise=0.3), 1, np.random.default_rng(1), deaths)
    pool.advance(50_000.0)
    leads = [node.join_s - node.requested_s for node in pool._history[1:]]
    assert len(leads) == 40
    assert np.median(leads) == pytest.approx(20.0, rel=0.2)
    assert np.std(np.log(leads)) == pytest.approx(0.3, rel=0.4)


def test_a_leaving_node_takes_tasks_while_it_drains_and_is_released_after_the_last() -> None:
    ten = query(Stage(tasks=10, per_task_s=2.0), driver_s=0.0)
    target, clock = world(ten, "constant(10)", 2, kind=NodeKind(drain_s=3.0))
    clock.advance(6.0)
    target.observe()
    target.apply(Layout.of(1))  # at 6 s: it takes tasks until 9 s
    clock.advance(20.0)
    target.observe()
    assert target.held().stepped(8.9) == 2
    assert target.held().stepped(9.1) == 1
    # four tasks are done by 9 s, six remain for one node
    assert target.processed().times_s[1] == pytest.approx(9.0 + 6 * 2.0)


def test_noise_has_mean_1_for_any_sigma() -> None:
    for sigma in (0.1, 0.5):
        draws = NoiseDraws(sigma, np.random.default_rng(3)).peek(200_000)
        assert draws.mean() == pytest.approx(1.0, rel=0.01)
        assert np.log(draws).std() == pytest.approx(sigma, rel=0.01)


ENGINES = {
    "micro-batch": lambda name: named_query(name, Stage(tasks=8, per_task_s=0.05, per_row_s=0.01), noise=0.3),
    "continuous": lambda name: named_operator(
        name, 0.02, noise=0.3, pause_s=(5.0, 8.0), queue_bound_rows=40.0
    ),
}


@pytest.mark.parametrize("kind", ENGINES)
def test_the_same_seed_gives_the_same_bytes_on_two_clusters(kind: str) -> None:
    def results() -> str:
        target, clock = shared_world(
            (ENGINES[kind]("a"), "noise(sine(base=10, peak=120, period=3m), 0.2, seed=4)"),
            (ENGINES[kind]("b"), "square(base=5, peak=90, period=2m)"),
            nodes=2, kind=NodeKind(lead_noise=0.4, lead_time_s=9.0), faults=(NodeDies(at_s=77.0, cluster="west"),),
            clusters={"west": Cluster(nodes=NodeKind(slots=2, speeds=(1.0, 0.7)), initial_nodes=2)},
        )  # fmt: skip
        observations = []
        operator = target.observe().pipeline.order[-1]
        for step in range(30):
            clock.advance(11.0)
            observations.append(target.observe())
            placement = {operator: "west"} if 5 < step < 20 else {}
            target.apply(Layout(nodes={"main": 1 + step % 3, "west": 1 + step % 2}, placement=placement))
        curves = [
            target.held(),
            target.at_work("west"),
            *(target.processed(name) for name in target.pipelines),
        ]
        return repr(observations) + repr(
            [(curve.times_s.tolist(), curve.values.tolist()) for curve in curves]
        )

    assert results() == results()


def test_pipelines_are_scored_separately_and_together() -> None:
    """b gets slots after a, so its rows wait longer; the combined score lies in between."""
    heavy = Stage(tasks=4, per_task_s=0.9)
    target, clock = shared_world(
        (named_query("a", heavy), "constant(10)"), (named_query("b", heavy), "constant(30)"), nodes=2
    )
    clock.advance(300.0)
    target.observe()
    runs = [
        Run(
            strategy="keep", pipeline=name, slo=Slo(freshness_s=8.0), limits=Limits(min_nodes=1, max_nodes=4),
            started_s=0.0, ended_s=300.0, arrived=target.arrived(300.0, name), processed=target.processed(name),
            nodes=target.held(), nodes_working=target.at_work(),
        )
        for name in target.pipelines
    ]  # fmt: skip
    a, b = (score(run, oracle_node_seconds=None) for run in runs)
    both = score_together(runs)
    assert (a.node_seconds, b.node_seconds, both.node_seconds) == (600.0, 600.0, 600.0)
    assert (a.latency_max_s, b.latency_max_s) == pytest.approx((6.8, 8.6), abs=0.05)
    assert both.rows_in == a.rows_in + b.rows_in == 12_000
    assert both.violation == pytest.approx((a.violation + 3 * b.violation) / 4)
    assert a.latency_p95_s < both.latency_p95_s < b.latency_p95_s
    assert both.latency_max_s == b.latency_max_s
