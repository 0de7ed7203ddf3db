"""The static table: which rows are measured, which are simulated, and that they say so."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ebbflow.errors import InputError
from ebbflow.papers.rules.google_cluster.dynamic import thesis_policy
from ebbflow.papers.rules.google_cluster.job import JobFigures
from ebbflow.papers.rules.google_cluster.static import CROWDED, MEASURED, SIMULATED, run_static


def figures(seconds: float) -> JobFigures:
    return JobFigures(
        events=1_000_000, without_machine=300_000, rejected=0, reports=20, machines=100, batches=10,
        seconds=seconds, rates_per_s=(1.0, 2.0, 3.0, 4.0), batch_events=(50_000,) * 5 + (150_000,) * 5,
    )  # fmt: skip


def table(cores: int, instances=(1, 2, 4, 8)):
    ran: list[int] = []

    def run(n: int) -> JobFigures:
        ran.append(n)
        return figures(10.0 + 90.0 / n)  # 10 s are not shared among instances, 90 s are

    return run_static(Path(), instances, cores=cores, run=run), ran


def test_rows_that_need_more_cores_are_simulated_and_say_so() -> None:
    result, ran = table(cores=2)
    assert ran == [1, 2]
    assert [row.source for row in result.rows] == [MEASURED, MEASURED, SIMULATED, SIMULATED]
    assert "2 cores; n = 4, 8 are simulated" in result.to_json()["note"]
    # The calibrated engine keeps the time that is not shared: Amdahl's law.
    assert result.rows[2].seconds == pytest.approx(10 + 90 / 4)
    assert result.rows[3].speed_up == pytest.approx(100 / (10 + 90 / 8))
    # 1 s per batch is not shared, 90 µs per event are shared among eight
    small, large = (events / (1.0 + 90e-6 * events / 8) for events in (50_000, 150_000))
    median, _, p90, _ = result.rows[3].rates_per_s
    assert median == pytest.approx((small + large) / 2)
    assert p90 == pytest.approx(large)


def test_two_instances_on_one_core_run_and_are_marked() -> None:
    result, ran = table(cores=1)
    assert ran == [1, 2]
    assert [row.source for row in result.rows] == [MEASURED, CROWDED, SIMULATED, SIMULATED]
    assert "1 core; n = 2, 4, 8 need more: n = 2 ran on it all the same" in result.to_json()["note"]


def test_the_note_has_the_number_of_batches() -> None:
    assert "over 10 batches, too few" in table(cores=2)[0].note
    assert table(cores=2)[0].to_json()["batches"] == 10
    many = dataclasses.replace(figures(1.0), batches=15)
    assert run_static(Path(), (1,), cores=2, run=lambda n: many).note.endswith("over 15 batches")


def test_all_rows_are_measured_with_enough_cores() -> None:
    result, ran = table(cores=8)
    assert ran == [1, 2, 4, 8]
    assert {row.source for row in result.rows} == {MEASURED}
    assert "all rows are measured" in result.to_json()["note"]


def test_the_figures_of_the_thesis_are_beside_ours() -> None:
    rows = table(cores=2)[0].to_json()["rows"]
    assert [row["published"]["minutes"] for row in rows] == [129.69, 71.06, 40.35, 26.15]
    assert [row["published"]["speed_up"] for row in rows] == [1.0, 1.83, 3.21, 4.96]
    assert rows[0]["published"]["throughput_per_s"] == [18_405, 19_219, 19_955, 20_433]
    assert rows[1]["efficiency"] == pytest.approx(100 / 55 / 2, abs=1e-3)


def test_simulated_rows_are_not_faster_if_two_instances_are_not() -> None:
    slow = {1: figures(100.0), 2: figures(110.0)}
    result = run_static(Path(), (1, 2, 4), cores=2, run=lambda n: slow[n])
    assert result.rows[2].seconds == pytest.approx(100.0)
    assert "n = 2 was no faster than n = 1 (110.0 s against 100.0 s)" in result.note
    assert "the simulated rows repeat n = 1" in result.to_json()["note"]
    assert "no faster" not in run_static(Path(), (1, 2), cores=2, run=lambda n: slow[n]).note, (
        "no row is simulated"
    )
    assert "no faster" not in table(cores=2)[0].note


def test_the_rate_of_a_resumed_run_counts_only_its_own_batches() -> None:
    rest = dataclasses.replace(figures(10.0), batch_events=(50_000,))
    assert rest.events_per_s == pytest.approx(5_000.0)
    assert dataclasses.replace(rest, seconds=0.0, batch_events=()).events_per_s == 0.0


def test_invalid_instances_are_an_error() -> None:
    with pytest.raises(InputError, match="invalid instances"):
        run_static(Path(), (0, 1), cores=2, run=lambda n: figures(1.0))


def test_the_policy_is_that_of_the_thesis() -> None:
    rules = thesis_policy().rules
    assert [rule.name.split(",")[0] for rule in rules] == [
        "CPU is above 10% for 30 seconds", "CPU is above 20% for 60 seconds", "CPU is below 10% for 60 seconds",
    ]  # fmt: skip
    assert {rule.operator for rule in rules} == {"machine"}
