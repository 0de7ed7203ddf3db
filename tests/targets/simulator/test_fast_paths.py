"""Fast paths give the same results as single steps: to the bit where arrays are used."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sim_worlds import shared_world

from ebbflow.core.layout import Layout
from ebbflow.core.pipeline import Operator, Pipeline, Stream
from ebbflow.targets.simulator import Continuous, MicroBatch, NodeDies, NodeKind, SlowNode, Stage
from ebbflow.targets.simulator.continuous.flow import Flow
from ebbflow.targets.simulator.continuous.world import ContinuousWorld
from ebbflow.targets.simulator.engine import Inflow
from ebbflow.targets.simulator.micro_batch.run import MicroBatchRun
from ebbflow.targets.simulator.micro_batch.slots import Slots
from ebbflow.workloads import Arrivals, parse_load

LOADS = st.sampled_from(
    [
        "constant(30)",
        "sine(base=0, peak=90, period=3m)",
        "square(base=0, peak=70, period=2m)",
        "noise(sine(base=1, peak=60, period=5m), 0.4, seed=7)",
        "stair(base=3, peak=80, steps=5, hold=40s)",
    ]
)
KINDS = st.builds(
    NodeKind,
    slots=st.integers(1, 3),
    lead_time_s=st.sampled_from([0.0, 7.3, 12.0]),
    speeds=st.sampled_from([(1.0,), (1.0, 0.5)]),
)
FAULTS = st.sampled_from(
    [(), (NodeDies(at_s=93.4),), (SlowNode(from_s=60.0, until_s=150.5, factor=0.5),), (NodeDies(at_s=44.0),)]
)
CHANGES = st.lists(st.tuples(st.floats(5.0, 120.0), st.integers(1, 5)), max_size=4)

diamond = Pipeline(
    name="diamond",
    operators=tuple(Operator(name=name) for name in "abcd"),
    streams=(
        Stream(source="a", target="b", selectivity=2.0),
        Stream(source="a", target="c", selectivity=0.3),
        Stream(source="b", target="d", selectivity=0.7),
        Stream(source="c", target="d"),
    ),
)


def results(pipelines: list[tuple[Any, str]], kind: NodeKind, faults: Any, changes: Any) -> dict[str, Any]:
    """All results of a run."""
    target, clock = shared_world(*pipelines, nodes=2, kind=kind, faults=faults)
    batches, readings = [], []
    for seconds, nodes in [*changes, (150.0, 2)]:
        clock.advance(0.3 * seconds)
        target.observe()
        clock.advance(0.7 * seconds)
        observed = target.observe()
        batches += observed.batches
        readings += [(r.time_s, r.subject, r.metric.key, r.value) for r in observed.readings]
        target.apply(Layout.of(nodes))
    clock.advance(0.5)
    target.advance()
    return {
        "left": [target.processed(name).values.tolist() for name in target.pipelines],
        "times": [target.processed(name).times_s.tolist() for name in target.pipelines],
        "held": [target.held().times_s.tolist(), target.held().values.tolist()],
        "batches": batches,
        "readings": readings,
        "work": [target.work(name) for name in target.pipelines],
    }


def place_again(flow: Flow, groups: Any, place: Any = Flow.place) -> None:
    """Without the check whether anything has changed."""
    flow._placed = None
    place(flow, groups)


@given(
    loads=st.lists(LOADS, min_size=1, max_size=2),
    cost_ms=st.lists(st.floats(1.0, 30.0), min_size=4, max_size=4),
    pending=st.sampled_from([None, 60.0, 500.0]),
    noise=st.sampled_from([0.0, 0.2]),
    pause_s=st.sampled_from([(5.0, 8.0), (0.0, 0.0)]),
    kind=KINDS,
    faults=FAULTS,
    changes=CHANGES,
)
@settings(max_examples=25, deadline=None)
def test_a_lookahead_gives_the_same_bits_as_single_seconds(
    loads, cost_ms, pending, noise, pause_s, kind, faults, changes
) -> None:
    pipelines = [
        (
            Continuous(
                pipeline=replace(diamond, name=f"p{n}"),
                row_cost_s={name: ms / 1000 for name, ms in zip("abcd", cost_ms, strict=True)},
                parallelism={"a": 1, "b": 3, "c": 2, "d": 2},
                max_pending_rows=pending,
                queue_bound_rows=100.0,
                noise=noise if n == 0 else 0.0,
                pause_s=pause_s,
            ),
            load,
        )
        for n, load in enumerate(loads)
    ]
    fast = results(pipelines, kind, faults, changes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ContinuousWorld, "_look_ahead", lambda *_: None)
        new_versions = itertools.count()
        patch.setattr(
            ContinuousWorld, "_versions", lambda *_: [next(new_versions)]
        )  # update the flow at every check
        patch.setattr(ContinuousWorld, "_next_check_s", lambda *_: -math.inf)  # and check every second
        patch.setattr(Flow, "place", place_again)
        stepped = results(pipelines, kind, faults, changes)
    assert fast == stepped


QUERY = st.builds(
    lambda stages, trigger_s, driver_s, noise, limit: MicroBatch(
        pipeline=Pipeline.chain("q", "read"),
        stages=tuple(stages),
        trigger_interval_s=trigger_s,
        driver_s=driver_s,
        noise=noise,
        read_limit_rows=limit,
    ),
    st.lists(
        st.builds(
            Stage,
            tasks=st.integers(1, 20),
            per_task_s=st.floats(0.0, 0.05),
            per_row_s=st.floats(0.0, 0.02),
            skew=st.sampled_from([1.0, 1.0, 3.0]),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([0.0, 0.7, 1.0, 5.0]),
    st.floats(0.2, 0.6),
    st.sampled_from([0.0, 0.3]),
    st.sampled_from([None, None, 120]),
)


@given(query=QUERY, load=LOADS, kind=KINDS, faults=FAULTS, changes=CHANGES)
@settings(max_examples=25, deadline=None)
def test_a_series_of_batches_gives_the_same_bits_as_single_batches(
    query, load, kind, faults, changes
) -> None:
    fast = results([(query, load)], kind, faults, changes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MicroBatchRun, "run_series", lambda *_: None)
        stepped = results([(query, load)], kind, faults, changes)
    assert fast == stepped


def query(driver_s: float, noise: float, *stages: Stage) -> MicroBatch:
    return MicroBatch(
        pipeline=Pipeline.chain("q", "read"), stages=stages, trigger_interval_s=0.0, driver_s=driver_s, noise=noise
    )  # fmt: skip


# Two tasks on a fast slot end together with one on a slot half as fast, up to rounding.
A_TIE = {
    "queries": [
        query(
            0.5105105140410837, 0.0,
            Stage(tasks=10, per_task_s=0.0, per_row_s=0.006962653161612239),
            Stage(tasks=1, per_task_s=0.013007312077449665, per_row_s=0.01643547679696108),
        ),
        query(
            0.34375, 0.3,
            Stage(tasks=10, per_task_s=0.03234285457181158, per_row_s=0.015356148567219306),
            Stage(tasks=16, per_task_s=0.0, per_row_s=0.014932631655429443),
            Stage(tasks=11, per_task_s=0.0, per_row_s=0.016014493582922028, skew=3.0),
        ),
    ],
    "load": "constant(30)",
    "kind": NodeKind(slots=3, lead_time_s=0.0),
    "faults": (SlowNode(from_s=60.0, until_s=150.5, factor=0.5),),
    "changes": [],
}  # fmt: skip


@given(
    queries=st.lists(QUERY, min_size=1, max_size=2), load=LOADS, kind=KINDS, faults=FAULTS, changes=CHANGES
)
@example(**A_TIE)
@settings(max_examples=12, deadline=None)
def test_the_formula_and_full_waves_give_the_same_times_as_single_tasks(
    queries, load, kind, faults, changes
) -> None:
    pipelines = [
        (replace(query, pipeline=Pipeline.chain(f"q{n}", "read")), load) for n, query in enumerate(queries)
    ]
    fast = results(pipelines, kind, faults, changes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MicroBatchRun, "run_series", lambda *_: None)
        patch.setattr(MicroBatchRun, "compute_end_s", lambda *_: None)
        patch.setattr(Slots, "_full_waves", lambda *_: 1)
        patch.setattr(Slots, "run_waves", lambda *_: None)
        stepped = results(pipelines, kind, faults, changes)
    for name in ("left", "times", "held"):
        for a, b in zip(fast[name], stepped[name], strict=True):
            assert a == pytest.approx(b, rel=1e-9, abs=1e-6)
    for a, b in zip(fast["batches"], stepped["batches"], strict=True):
        assert (a.query, a.batch_id, a.rows, a.slots, a.steady) == (
            b.query,
            b.batch_id,
            b.rows,
            b.slots,
            b.steady,
        )
        for one, other in zip(a.stages, b.stages, strict=True):
            assert one.task_time_s == pytest.approx(other.task_time_s, rel=1e-6, abs=1e-9)
            assert one.wall_s == pytest.approx(other.wall_s, rel=1e-6, abs=1e-6)
            assert one.longest_task_s == pytest.approx(other.longest_task_s, rel=1e-9)


@given(
    queries=st.lists(QUERY, min_size=2, max_size=3), load=LOADS, kind=KINDS, faults=FAULTS, changes=CHANGES
)
@settings(max_examples=12, deadline=None)
def test_run_waves_gives_the_same_bits_as_single_tasks(queries, load, kind, faults, changes) -> None:
    pipelines = [
        (replace(query, pipeline=Pipeline.chain(f"q{n}", "read")), load) for n, query in enumerate(queries)
    ]
    fast = results(pipelines, kind, faults, changes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Slots, "run_waves", lambda *_: None)
        stepped = results(pipelines, kind, faults, changes)
    assert fast == stepped


@given(
    load=LOADS,
    times_s=st.lists(st.floats(0.0, 9000.0), min_size=1, max_size=30).map(sorted),
    first_s=st.floats(0.0, 9e3),
)
@settings(max_examples=40)
def test_arrived_rows_of_many_times_are_those_of_single_times(
    load: str, times_s: list[float], first_s: float
) -> None:
    inflow, same = Inflow(Arrivals(parse_load(load))), Inflow(Arrivals(parse_load(load)))
    inflow.rows_by(first_s)
    assert inflow.rows_by_each(np.array(times_s)).tolist() == [same.rows_by(time_s) for time_s in times_s]


@given(load=LOADS, first=st.integers(0, 9000), count=st.integers(1, 40))
@settings(max_examples=40)
def test_arrived_rows_of_whole_seconds_are_those_of_any_time(load: str, first: int, count: int) -> None:
    inflow, same = Inflow(Arrivals(parse_load(load))), Inflow(Arrivals(parse_load(load)))
    seconds = range(first, first + count)
    assert inflow.rows_by_seconds(first, count).tolist() == [same.rows_by(float(s)) for s in seconds]
    assert [same.rows_by_second(s) for s in seconds] == [same.rows_by(float(s)) for s in seconds]
