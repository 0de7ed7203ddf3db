"""The micro-batch model finds the costs that made the batches."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_batches import TrueStage, made_batch

from ebbflow.core.batches import StageRun
from ebbflow.profiling.batch.model import BatchModel, StageModel
from ebbflow.profiling.profile import Range, SparkCosts, StageCosts

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


def true_s(stages: Sequence[TrueStage], rows: float, slots: int, driver_s: float = 0.5) -> float:
    return driver_s + sum(
        max(math.ceil(s.tasks / slots), s.skew) * (s.per_task_s + s.per_row_s * rows / s.tasks)
        for s in stages
    )


def test_without_noise_the_costs_are_found_exactly() -> None:
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


def test_if_batch_sizes_do_not_vary_all_cost_counts_as_the_rows() -> None:
    model = BatchModel()
    for i in range(20):
        model.learn(made_batch(1000, [MAP], batch_id=i))
    assert model.on(2).of(1000) == pytest.approx(true_s((MAP,), 1000, 2), rel=0.01)
    assert model.on(2).of(4000) >= true_s((MAP,), 4000, 2)  # never too few nodes


def test_a_steady_load_does_not_erase_what_a_changing_one_taught() -> None:
    model = taught(MAP)
    for i in range(200):
        model.learn(made_batch(1000, [MAP], batch_id=i))
    assert model.stages[0].costs == pytest.approx((MAP.per_task_s, MAP.per_row_s), rel=0.02)
    assert model.on(8).of(8000) == pytest.approx(true_s((MAP,), 8000, 8), rel=0.02)


def test_the_first_batch_is_skipped_as_a_warm_up() -> None:
    model = BatchModel()
    model.learn(made_batch(1000, [TrueStage(tasks=8, per_task_s=5.0, per_row_s=1.0)]))
    assert not model.ready
    model.learn(made_batch(1000, [MAP]))
    assert model.ready
    assert model.on(2).of(1000) == pytest.approx(true_s((MAP,), 1000, 2))


def test_nothing_is_learned_from_a_batch_in_which_nodes_joined_or_left() -> None:
    model, slow = taught(MAP), TrueStage(tasks=8, per_task_s=1.0, per_row_s=0.1)
    before = model.on(4).of(1000)
    for i in range(5):
        model.learn(made_batch(1000, [slow], steady=False, batch_id=i))
    assert model.on(4).of(1000) == before


def test_an_outlier_is_capped_and_a_lasting_change_gets_through() -> None:
    model = taught(MAP, count=30)
    expensive = TrueStage(tasks=8, per_task_s=0.08, per_row_s=0.05)
    model.learn(made_batch(2000, [expensive]))
    assert model.on(2).of(2000) < 0.7 * true_s((expensive,), 2000, 2)
    for rows in (1000, 2500, 3500, 500, 2000) * 8:
        model.learn(made_batch(rows, [expensive]))
    assert model.on(2).of(2000) == pytest.approx(true_s((expensive,), 2000, 2), rel=0.10)


def test_one_long_task_is_skew_that_no_slot_cures() -> None:
    skewed = TrueStage(tasks=8, per_task_s=0.02, per_row_s=0.01, skew=4.0)
    model = taught(skewed, slots=8)
    assert model.stages[0].skew == pytest.approx(4.0, rel=0.05)
    assert model.on(8).of(2000) == pytest.approx(true_s((skewed,), 2000, 8), rel=0.05)
    assert model.on(8).of(2000) == pytest.approx(model.on(2).of(2000), rel=0.05)  # 4 waves on 2 slots as well
    assert model.on(1).of(2000) > 1.5 * model.on(2).of(2000)


@pytest.mark.parametrize("others", [[MAP], [MAP, REDUCE, MAP]])
def test_three_batches_in_a_row_with_other_stages_are_another_plan(others: list[TrueStage]) -> None:
    model, before = taught(MAP, REDUCE), taught(MAP, REDUCE)
    for _ in range(2):
        model.learn(made_batch(1000, others))
    assert model.on(2) == before.on(2), "half a batch may have been reported"
    model.learn(made_batch(1000, [MAP, REDUCE]))
    for _ in range(3):
        model.learn(made_batch(1000, others))
    assert model.on(2).of(1000) == pytest.approx(true_s(others, 1000, 2), rel=0.01)


def test_a_profile_that_the_first_batch_fits_is_not_dropped_for_one_that_does_not() -> None:
    model = BatchModel(profiled(MAP, REDUCE))
    model.learn(made_batch(1000, [MAP, REDUCE], batch_id=0))
    model.learn(made_batch(1000, [MAP], batch_id=1))
    assert model.base is not None
    for i in range(2, 12):
        model.learn(made_batch(1000, [MAP, REDUCE], batch_id=i, steady=False))
    model.learn(made_batch(1000, [MAP], batch_id=12))
    assert model.base is not None


def test_a_new_number_of_tasks_applies_at_once() -> None:
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
def test_costs_are_never_negative_or_infinite(stages: list[TrueStage], sizes: list[int]) -> None:
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


def test_warming_executors_do_not_make_rows_look_free() -> None:
    """A night of equal batches that get faster: least squares alone would find that more rows take no longer."""
    stage = StageModel()
    for rows, warm in zip((230, 90, 166, 170, 176, 181, 185, 189, 190, 192), range(10), strict=True):
        task_s = 0.1 + 0.008 * rows / 8 + 0.4 * 0.6**warm  # 8 tasks; the extra time of cold executors fades
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


def test_the_first_task_on_a_cold_node_is_not_skew() -> None:
    stage = StageModel()
    stage.learn(200, run(8, 8.0, longest_task_s=5.0), steady=False)
    assert stage.skew == 1.0
    for _ in range(30):
        stage.learn(200, run(8, 8.0, longest_task_s=5.0))
    assert stage.skew == pytest.approx(5.0, rel=0.05)


# -- with a profile ------------------------------------------------------------------------------------


def profiled(*stages: TrueStage, driver_s: float = 0.5, seen: Range | None = None) -> SparkCosts:
    """What these stages cost, as a profile has it."""
    known = [
        StageCosts(tasks=s.tasks, per_task_s=s.per_task_s, per_row_s=s.per_row_s, skew=s.skew, error=0.04)
        for s in stages
    ]
    return SparkCosts(driver_s=driver_s, stages=tuple(known), batch_rows=seen)


def test_with_a_profile_the_model_is_ready_before_the_first_batch() -> None:
    model = BatchModel(profiled(MAP, REDUCE))
    assert model.ready
    for slots in (1, 3, 8):
        assert model.on(slots).of(3000) == pytest.approx(true_s((MAP, REDUCE), 3000, slots))


def test_a_profile_separates_task_costs_from_row_costs_even_if_all_batches_are_alike() -> None:
    model = BatchModel(profiled(MAP))
    for i in range(100):
        model.learn(made_batch(1000, [MAP], batch_id=i))
    assert model.stages[0].costs == pytest.approx((MAP.per_task_s, MAP.per_row_s), rel=0.01)
    assert model.on(2).of(4000) == pytest.approx(true_s((MAP,), 4000, 2), rel=0.01)


@pytest.mark.parametrize("seed", range(5))
def test_with_noise_a_profile_still_does_so_after_an_hour_at_one_load(seed: int) -> None:
    chance, model = random.Random(seed), BatchModel(profiled(MAP))
    for i in range(700):
        rows = chance.randint(970, 1030)
        model.learn(made_batch(rows, [MAP], noise=lambda: 1.0 + 0.1 * chance.uniform(-1, 1), batch_id=i))
    assert model.on(2).of(4000) == pytest.approx(true_s((MAP,), 4000, 2), rel=0.15)


def test_a_profiled_model_learns_only_the_number_of_tasks_from_the_first_batch() -> None:
    model = BatchModel(profiled(MAP))
    twice = TrueStage(tasks=16, per_task_s=MAP.per_task_s, per_row_s=MAP.per_row_s)
    model.learn(made_batch(1000, [TrueStage(tasks=16, per_task_s=0.5, per_row_s=0.05)]))
    assert model.most_tasks == 16
    assert model.on(16).of(2000) == pytest.approx(true_s((twice,), 2000, 16))


def test_batches_replace_what_the_profile_said() -> None:
    expensive = TrueStage(tasks=8, per_task_s=0.12, per_row_s=0.015)
    model, chance = BatchModel(profiled(MAP)), random.Random(1)
    for i in range(60):
        model.learn(made_batch(chance.randint(200, 4000), [expensive], driver_s=0.9, batch_id=i))
    assert model.stages[0].costs == pytest.approx((expensive.per_task_s, expensive.per_row_s), rel=0.05)
    assert model.driver_s == pytest.approx(0.9, rel=0.02)


def test_one_or_two_batches_with_other_stages_are_not_another_plan() -> None:
    model, untouched = (BatchModel(profiled(MAP, REDUCE)) for _ in range(2))
    for i in range(6):
        for each in (model, untouched):
            each.learn(made_batch(1000 + i, [MAP, REDUCE], batch_id=i))
    for i in range(6, 8):
        model.learn(made_batch(1000, [MAP], batch_id=i))
    model.learn(made_batch(1000, [], batch_id=8))
    assert [stage.costs for stage in model.stages] == [stage.costs for stage in untouched.stages]
    model.learn(made_batch(1000, [MAP, REDUCE], batch_id=9))
    for i in range(10, 12):
        model.learn(made_batch(1000, [MAP], batch_id=i))
    assert model.base is not None
    model.learn(made_batch(1000, [MAP], batch_id=12))
    assert model.base is None
    assert len(model.stages) == 1


def test_a_profile_of_another_plan_is_ignored() -> None:
    model, plain = BatchModel(profiled(MAP, REDUCE, seen=Range(low=1.0, high=9.0))), BatchModel()
    for i in range(3):
        for each in (model, plain):
            each.learn(made_batch(1000 + i, [MAP], batch_id=i))
        assert model.base is None
        assert (model.ready, model.seen_rows) == (plain.ready, plain.seen_rows)
    assert model.on(2) == plain.on(2)


def test_the_error_of_a_stage_is_that_of_predictions_from_the_batches_before() -> None:
    assert BatchModel().seen_rows is None
    assert StageModel().error is None
    found = taught(MAP, noise=0.2, count=300).stages[0].error
    assert found == pytest.approx(0.1, rel=0.35)  # the mean of |u| in ±0.2, and what the model itself is off
    assert taught(MAP, count=300).stages[0].error == pytest.approx(0.0, abs=0.005)
    assert StageModel(profiled(MAP).stages[0]).error == 0.04


def test_the_error_of_an_outlier_is_capped() -> None:
    stage = StageModel()
    stage.learn(100, run(8, 1e-9))
    stage.learn(100, run(8, 900.0))
    assert stage.error == 1.0


def test_the_model_keeps_the_range_of_batch_sizes_it_was_learned_from() -> None:
    model = BatchModel()
    for i, rows in enumerate((9000, 500, 300, 700)):
        model.learn(made_batch(rows, [MAP], batch_id=i))
    assert model.seen_rows == Range(low=300.0, high=700.0)  # the first only warms up
    model = BatchModel(profiled(MAP, seen=Range(low=100.0, high=600.0)))
    for i, rows in enumerate((9000, 500, 300, 700)):
        model.learn(made_batch(rows, [MAP], batch_id=i))
    assert model.seen_rows == Range(low=100.0, high=700.0)


def test_a_relearned_stage_keeps_only_the_share_of_its_rows() -> None:
    model = BatchModel(profiled(MAP, REDUCE, seen=Range(low=100.0, high=9000.0)))
    for i in range(30):
        model.learn(made_batch(1000, [MAP, REDUCE], batch_id=i))
    expensive = TrueStage(tasks=8, per_task_s=1.4 * MAP.per_task_s, per_row_s=1.4 * MAP.per_row_s)
    batches = [made_batch(1000 + i, [expensive, REDUCE], batch_id=i) for i in range(4)]
    model.relearn(0, [(batch.rows, batch.stages[0]) for batch in batches])
    assert model.stages[0].costs == pytest.approx((expensive.per_task_s, expensive.per_row_s), rel=0.02)
    assert model.stages[1].costs == pytest.approx((REDUCE.per_task_s, REDUCE.per_row_s), rel=0.01)
    assert model.on(2).of(4000) == pytest.approx(true_s((expensive, REDUCE), 4000, 2), rel=0.02)
    assert model.seen_rows == Range(low=1000.0, high=1003.0)


@settings(max_examples=60, deadline=None)
@given(known=STAGES, stages=STAGES, sizes=st.lists(st.integers(1, 100_000), min_size=1, max_size=20))
def test_with_any_profile_costs_are_never_negative_or_infinite(
    known: list[TrueStage], stages: list[TrueStage], sizes: list[int]
) -> None:
    model = BatchModel(profiled(*known))
    for i, rows in enumerate(sizes):
        model.learn(made_batch(rows, stages, slots=1 + i % 7, batch_id=i))
    for stage in model.stages:
        o, c = stage.costs
        assert o >= -1e-9
        assert c >= 0
        assert 1.0 <= stage.skew <= max(8.0, stage.tasks)
    assert math.isfinite(model.on(3).of(1e6))
