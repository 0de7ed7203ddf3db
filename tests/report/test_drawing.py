"""Drawings: small, with whole numbers kept, and never below the values of the run."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import numpy as np
from report_runs import sine_run

from ebbflow.core.curve import Curve
from ebbflow.report.drawing import Detail, draw

CAPACITY = np.arange(9) * 100.0
MOST_ACTS, MOST_STEPS = Detail().acts, Detail().steps


def drawn(run):
    return draw(run, CAPACITY, Curve(run.nodes.times_s, run.nodes.values / 2))


def test_curves_start_with_the_run_and_end_with_it() -> None:
    run = sine_run()
    drawing = drawn(run)
    for curve in (drawing.held, drawing.working, drawing.hindsight):
        assert curve.times_s[0] == 0.0
        assert curve.times_s[-1] == drawing.span_s == run.ended_s - run.started_s
    times_s = np.linspace(0.0, drawing.span_s, 50)[:-1]
    assert drawing.held.stepped(times_s).tolist() == run.nodes.stepped(times_s + run.started_s).tolist()


def test_many_steps_become_few_and_keep_their_heights() -> None:
    run = sine_run()
    rng = np.random.default_rng(1)
    times_s = np.sort(rng.uniform(run.started_s, run.ended_s, 20_000))
    flapping = Curve(np.append(run.started_s, times_s), rng.integers(1, 9, 20_001).astype(float))
    held = drawn(replace(run, nodes=flapping)).held
    assert len(held) <= MOST_STEPS
    seen_s = rng.uniform(run.started_s, run.ended_s, 2_000)
    assert (held.stepped(seen_s - run.started_s) >= flapping.stepped(seen_s)).all()
    assert held.values.max() == flapping.values.max()


def test_a_run_with_too_many_acts_keeps_the_largest_in_order() -> None:
    run = sine_run()
    acts = [entry for entry in run.decisions if entry.verdict == "act"]
    many = [
        msgspec.structs.replace(acts[i % len(acts)], time_s=run.started_s + i) for i in range(3 * MOST_ACTS)
    ]
    drawing = drawn(replace(run, decisions=many))
    assert (len(drawing.acts), drawing.acts_in_all) == (MOST_ACTS, 3 * MOST_ACTS)
    assert drawing.acts_left_out == 2 * MOST_ACTS
    assert [act.time_s for act in drawing.acts] == sorted(act.time_s for act in drawing.acts)
    growths = [abs(sum(e.decision.wanted.nodes.values()) - sum(e.before.nodes.values())) for e in many]
    assert min(abs(act.growth) for act in drawing.acts) >= sorted(growths)[-MOST_ACTS]


def test_a_drawing_is_small_as_text() -> None:
    drawing = drawn(sine_run())
    assert len(json.dumps(drawing.curves()) + json.dumps(drawing.shared_curves())) < 60_000


def test_unknown_nodes_are_not_drawn() -> None:
    run = sine_run()
    drawing = draw(replace(run, nodes=Curve.of([]), nodes_working=Curve.of([])), CAPACITY, run.nodes)
    assert drawing.curves()["held"] == drawing.curves()["working"] == [[], []]
    assert len(drawing.freshness) > 10


def test_a_page_of_many_runs_gets_less_of_each_but_never_nothing() -> None:
    run = sine_run()
    acts = [entry for entry in run.decisions if entry.verdict == "act"]
    many = replace(
        run, decisions=[msgspec.structs.replace(acts[0], time_s=run.started_s + i) for i in range(200)]
    )
    sizes = []
    for runs in (1, 120, 360, 100_000):
        drawing = draw(many, CAPACITY, None, detail=Detail.of_each(runs))
        assert drawing.shared_curves()["hindsight"] is None
        assert drawing.freshness.values.max() == draw(run, CAPACITY, None).freshness.values.max()
        sizes.append(len(drawing.acts))
    assert sizes == [120, 120, 40, 20]
