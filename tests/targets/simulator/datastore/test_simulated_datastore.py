"""The simulated datastore: capacity by size, joins and leaves one at a time, cleanup, and requests that add up."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from ebbflow.core.clock import ManualClock
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.ports import Observation
from ebbflow.core.snapshot import ActionKind
from ebbflow.core.topology import NodeState, objection, safety_rules
from ebbflow.errors import InputError
from ebbflow.profiling.datastore import DatastoreProfile, DatastoreProfiling
from ebbflow.profiling.datastore.profile import differences, paper_profile
from ebbflow.targets.simulator import NodeDies
from ebbflow.targets.simulator.datastore import DataNodes, Datastore
from ebbflow.targets.simulator.datastore.nodes import StepKind
from ebbflow.targets.simulator.datastore.under_load import SimulatedStore
from ebbflow.targets.simulator.target import SimulatorTarget
from ebbflow.testing import check_target
from ebbflow.workloads import parse_load
from ebbflow.workloads.arrival_times import Arrivals

PROFILE = paper_profile()


class Cluster:
    """A simulated cluster with a constant load."""

    def __init__(self, rate_per_s: float = 50_000.0, nodes: int = 3, **named: object) -> None:
        self.clock = ManualClock(0.0)
        load = Arrivals(parse_load(f"constant({rate_per_s})"))
        self.target = SimulatorTarget(
            Datastore.of(PROFILE), DataNodes.of(PROFILE), load, self.clock, initial_nodes=nodes, **named,  # type: ignore[arg-type]
        )  # fmt: skip

    def after(self, seconds: float) -> Observation:
        self.clock.advance(seconds)
        return self.target.observe()


def reading(observation: Observation, metric: Metric) -> float:
    return next(each.value for each in observation.readings if each.metric is metric)


def test_it_keeps_the_contract_of_a_target() -> None:
    cluster = Cluster()
    check_target(cluster.target, advance=cluster.clock.advance, sizes=(3, 5), within_s=600.0)


def test_two_nodes_join_one_after_the_other_and_serve_when_they_have_joined() -> None:
    cluster = Cluster()
    cluster.after(10.0)
    cluster.target.apply(Layout.of(5))
    first = cluster.after(94.0)
    assert first.layout.main_nodes == 3
    assert [(a.kind, a.nodes) for a in first.under_way] == [(ActionKind.GROW, 2)]
    assert first.held_nodes == 4  # the second has not begun
    assert cluster.after(2.0).layout.main_nodes == 4
    assert cluster.after(92.0).layout.main_nodes == 4
    done = cluster.after(2.0)
    assert done.layout.main_nodes == 5
    assert not done.under_way


def test_a_leaving_node_serves_until_it_is_gone_and_waits_for_the_cleanup() -> None:
    cluster = Cluster()
    cluster.target.apply(Layout.of(4))
    cluster.after(100.0)  # joined at 95 s, cleaned up until 155 s
    cluster.target.apply(Layout.of(3))
    waiting = cluster.after(50.0)
    assert [(a.kind, a.nodes) for a in waiting.under_way] == [(ActionKind.SHRINK, 1)]
    assert waiting.held_nodes == 4
    assert cluster.after(124.0).held_nodes == 4  # leaves from 155 s to 275 s
    assert cluster.after(2.0).held_nodes == 3
    assert cluster.target.at_work().stepped(np.array([160.0, 274.0, 276.0])).tolist() == [4.0, 4.0, 3.0]


def test_the_topology_shows_what_guards_need() -> None:
    cluster = Cluster()
    cluster.target.apply(Layout.of(4))
    joining, cleaning, quiet = (cluster.after(seconds).topology for seconds in (50.0, 60.0, 60.0))
    assert joining is not None
    assert cleaning is not None
    assert quiet is not None
    rules = safety_rules()
    assert "node-3 is joining" in objection(rules, joining, +1)
    assert "cleanup" in objection(rules, cleaning, +1)
    assert objection(rules, quiet, +1) == objection(rules, quiet, -1) == ""
    cluster.target.apply(Layout.of(3))
    leaving = cluster.after(10.0).topology
    assert leaving is not None
    assert [node.state for node in leaving.changing] == [NodeState.DECOMMISSIONING]


def test_a_step_that_has_not_begun_can_be_withdrawn_and_one_that_has_ends() -> None:
    cluster = Cluster()
    cluster.target.apply(Layout.of(6))
    cluster.after(50.0)
    cluster.target.apply(Layout.of(3))
    assert cluster.after(46.0).held_nodes == 4  # the first join ends
    assert cluster.after(300.0).held_nodes == 3
    assert max(cluster.target.at_work().values) == 4


def test_an_overloaded_store_answers_what_it_can_and_no_request_is_lost_from_the_books() -> None:
    cluster = Cluster(rate_per_s=100_000.0)
    seen = cluster.after(60.0)
    assert reading(seen, Metric.THROUGHPUT) == pytest.approx(92_476, rel=1e-3)
    work = cluster.target.work()
    assert work.processed + work.waiting + work.failed == pytest.approx(6_000_000)
    assert work.failed == 0.0
    late = cluster.after(240.0)
    assert reading(late, Metric.RESPONSE_TIME) > 5.0
    work = cluster.target.work()
    assert work.failed > 0
    assert work.processed + work.waiting + work.failed == pytest.approx(30_000_000)


def test_joining_costs_response_time_but_no_throughput_below_the_bound() -> None:
    cluster = Cluster()
    before = cluster.after(60.0)
    cluster.target.apply(Layout.of(4))
    during = cluster.after(60.0)
    assert reading(during, Metric.THROUGHPUT) == pytest.approx(50_000, rel=1e-3)
    assert reading(during, Metric.RESPONSE_TIME) > reading(before, Metric.RESPONSE_TIME)


def test_a_dead_node_is_replaced_once_it_is_noticed() -> None:
    cluster = Cluster(nodes=4, faults=(NodeDies(at_s=20.0),))
    assert cluster.after(30.0).layout.main_nodes == 3
    assert cluster.after(96.0).layout.main_nodes == 4


def test_profiling_the_simulated_store_finds_what_it_was_made_of() -> None:
    profiling = DatastoreProfiling(
        first_per_s=20_000.0, sizes=PROFILE.sizes, hold_s=20.0, data_gb=(2.0,), wanted_response_s=0.0045
    )
    learned = profiling.run(SimulatedStore(PROFILE))
    for row in PROFILE.performance:
        found = learned.most_per_s(row.nodes)
        assert found.value == pytest.approx(row.most_per_s, rel=0.03)
        assert found.error < 0.03
    assert learned.bound == pytest.approx(0.7, abs=0.02)
    assert learned.add_s() == pytest.approx(155.0, rel=0.05)
    assert learned.remove_s(data_gb=2.0) == pytest.approx(320.0, rel=0.05)
    # a store made from that profile has it again: the simulator's half of a calibration against a real cluster
    again = DatastoreProfiling(
        first_per_s=20_000.0, sizes=PROFILE.sizes, hold_s=20.0, wanted_response_s=0.0045
    ).run(SimulatedStore(DatastoreProfile.from_text(learned.to_text()), seed=7))
    errors = differences(learned, again)
    assert len(errors) == 2 * len(PROFILE.sizes) + 6
    assert max(map(abs, errors.values())) < 0.1, errors


def test_steps_are_in_order_and_never_overlap() -> None:
    kind = DataNodes.of(PROFILE, noise=0.2)
    pool = kind.pool(3, np.random.default_rng(3))
    rng = np.random.default_rng(4)
    for k in range(200):
        pool.set_nodes(60.0 * k, int(rng.integers(3, 7)), busy=True)
        pool.advance(60.0 * k + 59.0)
        pool.release(60.0 * k + 59.0, between_batches=False)
    steps = pool.steps
    assert {step.kind for step in steps} == set(StepKind)
    assert all(a.until_s <= b.from_s for a, b in itertools.pairwise(steps))


def test_bad_stores_are_refused() -> None:
    with pytest.raises(InputError, match="begin with 3 nodes"):
        Datastore(most_per_s={2: 10.0})
    engine, load = Datastore.of(PROFILE), Arrivals(parse_load("constant(1)"))
    others = [(replace(engine, name="other"), load)]
    with pytest.raises(InputError, match="has its cluster alone"):
        SimulatorTarget(engine, DataNodes.of(PROFILE), load, ManualClock(0.0), others=others)
