"""Costs of batches are recovered by the fit, and nothing is invented that the batches do not show."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbflow.runs.replay.batch_fit import DEFAULT_TASK_S, fit_batches


def batches(
    driver_s: float, per_task_s: float, per_row_s: float, slots, tasks: int = 48, count: int = 200, noise=0.0
):
    rng = np.random.default_rng(1)
    rows = rng.uniform(100.0, 5000.0, count)
    slots = np.resize(np.asarray(slots, dtype=float), count)
    waves = np.ceil(tasks / slots)
    work_s = waves * (per_task_s + per_row_s * rows / tasks) * np.exp(noise * rng.standard_normal(count))
    return {"rows": rows, "slots": slots, "seconds": driver_s + work_s, "work_s": None, "tasks": tasks}


@settings(max_examples=40, deadline=None)
@given(
    driver_s=st.floats(0.0, 3.0), per_task_s=st.floats(0.001, 0.2), per_row_s=st.floats(1e-4, 0.02),
)  # fmt: skip
def test_costs_are_recovered_if_slots_varied(driver_s, per_task_s, per_row_s) -> None:
    fit = fit_batches(**batches(driver_s, per_task_s, per_row_s, [2, 5, 12, 24]))
    assert fit.driver_s == pytest.approx(driver_s, abs=1e-6)
    assert fit.per_task_s == pytest.approx(per_task_s, abs=1e-6)
    assert fit.per_row_s == pytest.approx(per_row_s, rel=1e-6)
    assert fit.median_error < 1e-6
    assert fit.noise == 0.0


@given(st.integers(0, 19), st.floats(3.0, 30.0))
def test_a_few_stalled_batches_change_little(where: int, times: float) -> None:
    made = batches(0.5, 0.01, 0.005, [4, 8])
    made["seconds"][where::20] *= times  # one in twenty
    fit = fit_batches(**made)
    assert fit.per_row_s == pytest.approx(0.005, rel=0.05)
    assert fit.median_error < 0.05
    assert fit.wide_error < 0.1


def test_with_constant_slots_a_task_has_the_default_cost() -> None:
    fit = fit_batches(**batches(0.5, 0.02, 0.005, [12]))
    assert not fit.slots_varied
    assert fit.per_task_s == DEFAULT_TASK_S
    assert fit.driver_s == pytest.approx(0.5 + 4 * (0.02 - DEFAULT_TASK_S))  # 48 tasks on 12 slots: 4 waves
    assert fit.per_row_s == pytest.approx(0.005)


def test_time_outside_the_stages_is_driver_time() -> None:
    made = batches(0.0, 0.0, 0.005, [12])
    made["work_s"], made["seconds"] = made["seconds"], made["seconds"] + 0.7
    fit = fit_batches(**made)
    assert fit.driver_s == pytest.approx(0.7)
    assert fit.per_task_s == pytest.approx(0.0, abs=1e-9)


def test_batches_of_one_size_attribute_all_time_to_rows() -> None:
    fit = fit_batches(
        rows=np.full(20, 1000.0), slots=np.full(20, 4.0), seconds=np.full(20, 2.0), work_s=None, tasks=4
    )
    assert not fit.sizes_varied
    assert (fit.driver_s, fit.per_task_s) == (0.0, 0.0)
    assert fit.per_row_s == pytest.approx(2.0 * 4 / 1000)


def test_the_noise_is_that_of_the_task_times() -> None:
    fit = fit_batches(**batches(0.2, 0.01, 0.01, [4, 8], count=2000, noise=0.2))
    assert fit.noise == pytest.approx(0.2, rel=0.15)
    assert 0.08 < fit.median_error < 0.16


def test_rows_cost_nothing_if_larger_batches_take_no_longer() -> None:
    rows = np.linspace(1000.0, 100.0, 50)
    fit = fit_batches(rows=rows, slots=np.full(50, 4.0), seconds=3.0 - rows / 1000, work_s=None, tasks=4)
    assert fit.per_row_s == 0.0
    assert fit.driver_s > 0
