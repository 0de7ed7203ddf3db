"""The micro-batch model finds the costs that made the batches."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_batches import TrueStage, made_batch

from ebbflow.core.batches import StageRun
from ebbflow.profiling.batch_model import BatchModel, StageModel

MAP = TrueStage(tasks=8, per_task_s=0.08, per_row_s=0.01)
REDUCE = TrueStage(tasks=5, per_task_s=0.04, per_row_s=0.002)
STAGES = st.lists(
    st.builds(
        TrueStage,
        tasks=st.integers(1, 200),
        per_task_s=st.floats(0.0, 0.5),
        per_row_s=st.floats(0.0, 0.05),
        skew=st.floats(1.0, 8.0),
    ),
    min_size=1,
    max_size=5,
)


def taught(
    *stages: TrueStage, slots: int = 2, seed: int = 1, noise: float = 0.0, count: int = 60
) -> BatchModel:
    chance, model = random.Random(seed), BatchModel()
    for i in range(count):
        batch = made_batch(
            chance.randint(200, 4000),
            stages,
            slots=slots,
            noise=lambda: 1.0 + noise * chance.uniform(-1, 1),
            batch_id=i,
        )
        model.learn(batch)
    return model


def run(tasks: int, task_time_s: float, longest_task_s: float | None = None) -> StageRun:
    longest_s = task_time_s / tasks if longest_task_s is None else longest_task_s
    return StageRun(
        index=0, tasks=tasks, task_time_s=task_time_s, cpu_time_s=0.0, wall_s=1.0, longest_task_s=longest_s
    )


def true_s(stages: tuple[TrueStage, ...], rows: float, slots: int, driver_s: float = 0.5) -> float:
    return driver_s + sum(
        max(math.ceil(s.tasks / slots), s.skew) * (s.per_task_s + s.per_row_s * rows / s.tasks)
        for s in stages
    )


def test_the_costs_are_found_exactly_where_nothing_disturbs() -> None:
    model = taught(MAP, REDUCE)
    assert model.driver_s == pytest.approx(0.5)
    assert [s.costs for s in model.stages] == [
        pytest.approx((s.per_task_s, s.per_row_s)) for s in (MAP, REDUCE)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_with_noise_of_five_percent_batch_times_are_within_ten(seed: int) -> None:
    model = taught(MAP, REDUCE, noise=0.05, seed=seed)
    for slots in (1, 2, 3, 4, 8):
        for rows in (500, 2000, 4000):
            assert model.on(slots).of(rows) == pytest.approx(true_s((MAP, REDUCE), rows, slots), rel=0.10)
    assert model.driver_s == pytest.approx(0.5, rel=0.10)
    assert model.stages[0].costs[1] == pytest.approx(MAP.per_row_s, rel=0.10)


def test_what_was_learned_on_one_executor_holds_on_ten() -> None:
    model = taught(MAP, slots=1)
    assert model.on(8).of(3000) == pytest.approx(true_s((MAP,), 3000, 8), rel=0.01)


def test_where_sizes_do_not_differ_all_cost_is_put_on_the_rows() -> None:
    model = BatchModel()
    for i in range(20):
        model.learn(made_batch(1000, [MAP], batch_id=i))
    assert model.on(2).of(1000) == pytest.approx(true_s((MAP,), 1000, 2), rel=0.01)
    assert model.on(2).of(4000) >= true_s((MAP,), 4000, 2)  # never too few nodes


def test_a_steady_load_does_not_unteach_what_a_changing_one_taught() -> None:
    model = taught(MAP)
    for i in range(200):
        model.learn(made_batch(1000, [MAP], batch_id=i))
    assert model.stages[0].costs == pytest.approx((MAP.per_task_s, MAP.per_row_s), rel=0.02)
    assert model.on(8).of(8000) == pytest.approx(true_s((MAP,), 8000, 8), rel=0.02)


def test_the_first_batch_only_warms_the_machinery_up() -> None:
    model = BatchModel()
    model.learn(made_batch(1000, [TrueStage(tasks=8, per_task_s=5.0, per_row_s=1.0)]))
    assert not model.ready
    model.learn(made_batch(1000, [MAP]))
    assert model.ready
    assert model.on(2).of(1000) == pytest.approx(true_s((MAP,), 1000, 2))


def test_a_batch_in_which_nodes_came_or_went_teaches_nothing() -> None:
    model, slow = taught(MAP), TrueStage(tasks=8, per_task_s=1.0, per_row_s=0.1)
    before = model.on(4).of(1000)
    for i in range(5):
        model.learn(made_batch(1000, [slow], steady=False, batch_id=i))
    assert model.on(4).of(1000) == before


def test_a_surprise_counts_in_part_and_a_lasting_change_gets_through() -> None:
    model = taught(MAP, count=30)
    dear = TrueStage(tasks=8, per_task_s=0.08, per_row_s=0.05)
    model.learn(made_batch(2000, [dear]))
    assert model.on(2).of(2000) < 0.7 * true_s((dear,), 2000, 2)
    for rows in (1000, 2500, 3500, 500, 2000) * 8:
        model.learn(made_batch(rows, [dear]))
    assert model.on(2).of(2000) == pytest.approx(true_s((dear,), 2000, 2), rel=0.10)


def test_one_long_task_is_skew_that_no_slot_cures() -> None:
    skewed = TrueStage(tasks=8, per_task_s=0.02, per_row_s=0.01, skew=4.0)
    model = taught(skewed, slots=8)
    assert model.stages[0].skew == pytest.approx(4.0, rel=0.05)
    assert model.on(8).of(2000) == pytest.approx(true_s((skewed,), 2000, 8), rel=0.05)
    assert model.on(8).of(2000) == pytest.approx(model.on(2).of(2000), rel=0.05)  # 4 waves on 2 slots as well
    assert model.on(1).of(2000) > 1.5 * model.on(2).of(2000)


def test_a_query_whose_plan_lost_a_stage_forgets_it() -> None:
    model = taught(MAP, REDUCE)
    model.learn(made_batch(1000, [MAP]))
    assert len(model.stages) == 1


def test_another_number_of_tasks_is_taken_over_at_once() -> None:
    model = taught(MAP)
    model.learn(made_batch(1000, [TrueStage(tasks=16, per_task_s=0.08, per_row_s=0.01)]))
    assert model.most_tasks == 16
    assert model.on(16).of(2000) < model.on(8).of(2000)


@pytest.mark.parametrize("tasks", [1, 2, 7, 12, 64, 200])
def test_useful_slots_are_exactly_those_that_cut_a_wave(tasks: int) -> None:
    model = BatchModel()
    for _ in range(2):
        model.learn(made_batch(1000, [TrueStage(tasks=tasks, per_task_s=0.1, per_row_s=0.01)]))
    most = tasks + 10
    cut = [s for s in range(1, most + 1) if s == 1 or math.ceil(tasks / s) < math.ceil(tasks / (s - 1))]
    assert list(model.useful_slots(most)) == cut
    assert list(model.useful_slots(3)) == [s for s in cut if s <= 3]


@settings(max_examples=60, deadline=None)
@given(stages=STAGES, rows=st.integers(0, 100_000), slots=st.integers(1, 250), share=st.floats(0.1, 1.0))
def test_more_slots_and_more_share_never_make_a_batch_longer(
    stages: list[TrueStage], rows: int, slots: int, share: float
) -> None:
    model = BatchModel()
    for n in (100, 500, 3000, 1000):
        model.learn(made_batch(n, stages, slots=4))
    one, two = model.on(slots, share).of(rows), model.on(slots + 1, share).of(rows)
    assert two <= one * (1 + 1e-9)
    assert model.on(slots, 1.0).of(rows) <= one * (1 + 1e-9)
    assert one >= model.driver_s


@settings(max_examples=60, deadline=None)
@given(stages=STAGES, rows=st.integers(0, 100_000), slots=st.integers(1, 250))
def test_a_slot_that_cuts_no_wave_saves_no_time(stages: list[TrueStage], rows: int, slots: int) -> None:
    model = BatchModel()
    for n in (100, 500, 3000, 1000):
        model.learn(made_batch(n, stages, slots=4))
    useful = max(s for s in model.useful_slots(slots) if s <= slots)
    assert model.on(useful).of(rows) == pytest.approx(model.on(slots).of(rows), rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(stages=STAGES, sizes=st.lists(st.integers(1, 100_000), min_size=2, max_size=30))
def test_whatever_it_is_shown_no_cost_is_negative_or_endless(
    stages: list[TrueStage], sizes: list[int]
) -> None:
    model = BatchModel()
    for i, rows in enumerate(sizes):
        model.learn(made_batch(rows, stages, slots=1 + i % 7))
    assert model.driver_s >= 0
    for stage in model.stages:
        o, c = stage.costs
        assert o >= -1e-9
        assert c >= 0
        assert stage.skew >= 1.0
    assert math.isfinite(model.on(3).of(1e6))


def test_executors_that_warm_up_are_not_taken_for_rows_that_cost_nothing() -> None:
    """A night of equal batches that get faster: least squares alone would find that more rows take no longer."""
    stage = StageModel()
    for rows, warm in zip((230, 90, 166, 170, 176, 181, 185, 189, 190, 192), range(10), strict=True):
        task_s = 0.1 + 0.008 * rows / 8 + 0.4 * 0.6**warm  # 8 tasks; what is cold fades
        stage.learn(rows, run(8, 8 * task_s))
    overhead_s, row_s = stage.costs
    assert 0.006 <= row_s <= 0.016  # 8 ms in truth
    assert 0.0 <= overhead_s < 0.25


def test_a_share_learned_from_a_changing_load_outlives_a_steady_one() -> None:
    stage = StageModel()
    for rows in (100, 400, 200, 800, 300, 600):
        stage.learn(rows, run(8, 8 * 0.1 + 0.008 * rows))
    for _ in range(60):
        stage.learn(200, run(8, 8 * 0.1 + 0.008 * 200))
    overhead_s, row_s = stage.costs
    assert overhead_s == pytest.approx(0.1, rel=0.1)
    assert row_s == pytest.approx(0.008, rel=0.1)


def test_a_first_task_on_a_cold_node_is_no_skew() -> None:
    stage = StageModel()
    stage.learn(200, run(8, 8.0, longest_task_s=5.0), steady=False)
    assert stage.skew == 1.0
    for _ in range(30):
        stage.learn(200, run(8, 8.0, longest_task_s=5.0))
    assert stage.skew == pytest.approx(5.0, rel=0.05)
