"""Loads as the means of even steps: whole samples, no interpolation, gaps and outages missing, memory bounded."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from ebbflow.errors import LoadError, StepError
from ebbflow.workloads import Trace, parse_load
from ebbflow.workloads.series import Counted, readings_of, samples_of


def trace(folder: Path, rows: list[str], heading: str = "second,events") -> Trace:
    file = folder / "load.csv"
    file.write_text("\n".join([heading, *rows]) + "\n")
    return Trace(file=str(file))


def counted(load: Trace, **options: bool) -> Counted:
    samples = samples_of(load, **options)
    assert isinstance(samples, Counted)
    return samples


def test_steps_are_the_means_of_whole_samples_and_end_at_round_times(tmp_path: Path) -> None:
    load = trace(tmp_path, [f"{second},{second}" for second in range(1_000_000_003, 1_000_000_120)])
    series = counted(load).series(10.0, most=100)
    assert series.ends_s.tolist() == [1_000_000_000.0 + end for end in range(20, 121, 10)]
    assert series.values[0] == pytest.approx(1_000_000_014.5)


def test_samples_that_do_not_end_at_round_times_are_not_split(tmp_path: Path) -> None:
    load = trace(tmp_path, [f"2015-02-26 21:{m}:53,{10 * m}" for m in range(40, 60, 5)], "time,events")
    series = counted(load).series(300.0, most=100)
    assert (series.values * 300).tolist() == [400.0, 450.0, 500.0, 550.0]


def test_no_step_contains_a_sample_that_ends_after_it(tmp_path: Path) -> None:
    """A step of one and a half samples would know half of the sample that follows."""
    samples = counted(trace(tmp_path, [f"{20 * n},5" for n in range(50)]))
    with pytest.raises(StepError, match="not a multiple of the 20s between its samples"):
        samples.series(30.0, most=100)
    with pytest.raises(StepError, match="shorter than the 20s"):
        samples.series(10.0, most=100)
    assert float(samples.series(40.0, most=100).ends_s[-1]) <= float(samples.ends_s[-1])


def test_a_gap_is_missing_and_not_zero(tmp_path: Path) -> None:
    load = trace(tmp_path, [f"{second},7" for second in [*range(60), *range(300, 360)]])
    series = counted(load).series(60.0, most=100)
    assert series.values.tolist() == [7.0, 7.0]
    assert series.slots.tolist() == [0, 5]


def test_an_outage_is_missing_unless_zeros_are_kept(tmp_path: Path) -> None:
    minutes = [*([9] * 600), *([0] * 15), *([9] * 600), *([0] * 12)]
    load = trace(tmp_path, [f"{place},{value}" for place, value in enumerate(minutes)], "minute,events")
    zeros = {
        "outages": np.sum(counted(load).series(60.0, most=9999).values == 0),
        "now": np.sum(counted(load, keep_last_zeros=True).series(60.0, most=9999).values == 0),
        "kept": np.sum(counted(load, keep_zeros=True).series(60.0, most=9999).values == 0),
    }
    assert zeros == {"outages": 0, "now": 12, "kept": 27}
    assert counted(load).note.startswith("27 samples of 0 within an outage")


def test_zeros_of_a_load_that_is_often_zero_are_load(tmp_path: Path) -> None:
    load = trace(tmp_path, [f"{n},{5 if n % 60 < 30 else 0}" for n in range(600)], "minute,events")
    assert len(counted(load).series(60.0, most=9999)) == 600


def test_a_century_between_two_rows_takes_neither_memory_nor_time(tmp_path: Path) -> None:
    century_s = 100 * 365 * 86_400
    load = trace(tmp_path, [f"{at + second},3" for at in (0, century_s) for second in range(600)])
    tracemalloc.start()
    series = counted(load).series(10.0, most=20_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert series.values.tolist() == [3.0] * 120
    assert peak < 5e6


def test_only_the_last_steps_are_returned(tmp_path: Path) -> None:
    load = trace(tmp_path, [f"{n},{n}" for n in range(100)])
    assert counted(load).series(1.0, most=3).values.tolist() == [97.0, 98.0, 99.0]


def test_formulas_are_integrated_and_ended_loads_end() -> None:
    endless = samples_of(parse_load("sine(base=0, peak=10, period=1h)")).series(900.0, most=4)
    assert endless.values.mean() == pytest.approx(5.0)
    doubled = samples_of(parse_load("2 * constant(3)")).series(60.0, most=5)
    assert doubled.values.tolist() == [6.0] * 5


def test_an_expression_with_a_trace_keeps_the_step_of_its_samples(tmp_path: Path) -> None:
    load = trace(tmp_path, [f"{n},60" for n in range(20)], "minute,events")
    samples = samples_of(load + parse_load("constant(1)"))
    assert samples.series(120.0, most=100).values.tolist() == [2.0] * 10
    with pytest.raises(StepError, match="1m between"):
        samples.series(30.0, most=100)


def test_readings_belong_to_the_step_in_which_they_end() -> None:
    times_s = np.array([5.0, 10.0, 15.0, 20.0, 500.0, 505.0, 510.0])
    samples = readings_of(times_s, np.array([1.0, 3.0, 5.0, 7.0, 2.0, 4.0, 6.0]))
    series = samples.series(10.0, most=100)
    assert series.ends_s.tolist() == [10.0, 20.0, 500.0, 510.0]
    assert series.values.tolist() == [2.0, 6.0, 2.0, 5.0]
    with pytest.raises(LoadError, match="only 1 reading"):
        readings_of(np.array([5.0]), np.array([1.0]))
