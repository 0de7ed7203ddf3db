"""The generated trace: the same for a seed, with the published statistics."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow.errors import InputError
from ebbflow.papers.rules.google_cluster.events import START_US, EventType
from ebbflow.papers.rules.google_cluster.folder import TraceFolder, read_part
from ebbflow.papers.rules.google_cluster.generator import (
    CSV,
    MAX_DAYS,
    NO_MACHINE,
    PARQUET,
    ClusterTrace,
    TaskEvents,
    TraceSpec,
)
from ebbflow.papers.rules.google_cluster.rates import EVENTS, MACHINES, RATES_PER_S, _fitted

DATA = Path(__file__).parents[3] / "data"
CORRELATIONS = (0.42, 0.30, 0.19, 0.25)
"""Of ln(events in 5 minutes) of the real month with that of one, four, twelve and 24 hours later."""
REAL_PART = {
    "tasks at the start": 132_982,
    "machines": 12_492,
    "share without a machine": 0.3594,
    "share of schedules": 0.5149,
    "mean cpu": 0.0471,
}
"""The real first part of the trace, 84 minutes."""
SMALL = TraceSpec(events=30_000, machines=100, span_s=6 * 3600, seed=5, parts=7)


@pytest.fixture(scope="module")
def trace() -> ClusterTrace:
    return ClusterTrace(SMALL)


@pytest.fixture(scope="module")
def events(trace) -> TaskEvents:
    return TaskEvents.concatenate(*(trace.part(number) for number in range(trace.parts)))


def running(events: TaskEvents) -> tuple[np.ndarray, np.ndarray]:
    """(time, running tasks) after each event that changes their number; asserts the life cycle on the way."""
    where: dict[tuple[int, int], int] = {}
    submitted: set[tuple[int, int]] = set()
    times, counts = [], []
    rows = zip(events.time_us, events.job, events.task, events.machine, events.event, strict=True)
    for time_us, job, task, machine, event in rows:
        key = (int(job), int(task))
        if event == EventType.SUBMIT:
            assert key not in where
            submitted.add(key)
        elif event == EventType.SCHEDULE:
            assert key not in where, "a task runs once at a time"
            assert key in submitted or time_us == 0
            assert machine != NO_MACHINE
            where[key] = int(machine)
        elif event == EventType.UPDATE_RUNNING:
            assert where[key] == machine
        elif event == EventType.UPDATE_PENDING:
            assert key in submitted
            assert key not in where
        elif key in where:
            assert where.pop(key) == machine
        times.append(int(time_us))
        counts.append(len(where))
    return np.array(times), np.array(counts)


def test_a_seed_gives_the_same_trace_and_another_seed_a_different_one(trace) -> None:
    again, other = ClusterTrace(SMALL), ClusterTrace(TraceSpec(**{**vars(SMALL), "seed": 6}))
    for name in vars(trace.part(3)):
        assert (getattr(trace.part(3), name) == getattr(again.part(3), name)).all()
    assert trace.part(3).time_us.tolist() != other.part(3).time_us.tolist()


def test_parts_do_not_depend_on_each_other_and_have_about_the_same_size(trace) -> None:
    last = ClusterTrace(SMALL).part(trace.parts - 1)
    assert (last.time_us == trace.part(trace.parts - 1).time_us).all()
    sizes = [len(trace.part(number).time_us) for number in range(trace.parts)]
    assert trace.parts == SMALL.parts
    assert max(sizes) < 1.5 * np.mean(sizes)


def test_the_trace_has_the_requested_events_in_order_of_time(events) -> None:
    assert len(events.time_us) == SMALL.events
    assert (np.diff(events.time_us) >= 0).all()
    assert events.time_us[0] == 0
    assert events.time_us[-1] <= START_US + (SMALL.span_s + 60) * 1e6


def test_every_task_follows_the_life_cycle_and_running_tasks_fall(events) -> None:
    times, counts = running(events)
    at_first = counts[np.searchsorted(times, START_US)] / SMALL.machines
    at_last = counts[-1] / SMALL.machines
    assert 8 < at_first < 12.5, "over 100,000 on 12,500 machines"
    assert 2.4 < at_last < 4.5, "about 40,000"
    assert {int(kind) for kind in np.unique(events.event)} >= set(EventType) - {EventType.LOST}


def test_no_machine_has_events_while_it_is_away(trace, events) -> None:
    machines = trace.machines
    assert len(machines.staying) < len(machines.ids)
    order = np.argsort(machines.ids)
    has = events.machine != NO_MACHINE
    index = order[np.searchsorted(machines.ids[order], events.machine[has])]
    inside = (events.time_us[has] > machines.away_from_us[index] + 1_000_000) & (
        events.time_us[has] < machines.away_until_us[index]
    )
    assert not inside.any()
    assert (machines.away_until_us > machines.away_from_us).sum() > 20, "some come and go"


def test_a_month_has_the_published_rates() -> None:
    trace = ClusterTrace(TraceSpec(machines=500))
    per_s = trace.events_by_minute / 60
    assert trace.events_by_minute.sum() + trace._initial == EVENTS
    for percent, rate in RATES_PER_S.items():
        assert np.percentile(per_s, percent) == pytest.approx(rate, rel=0.03)


def by_five(per_minute: np.ndarray) -> np.ndarray:
    return per_minute[: len(per_minute) // 5 * 5].reshape(-1, 5).sum(axis=1)


def correlations(events: np.ndarray) -> np.ndarray:
    """Of ln(events in 5 minutes) with that of one, four, twelve and 24 hours later."""
    five = np.log1p(events)
    five = five - five.mean()
    return np.array([(five[:-lag] * five[lag:]).mean() / five.var() for lag in (12, 48, 144, 288)])


def test_the_expected_correlations_are_those_of_the_real_month() -> None:
    with gzip.open(DATA / "google_jobs_5min.txt.gz", "rt") as lines:
        real = np.array([float(line) for line in lines])
    assert correlations(real) == pytest.approx(CORRELATIONS, abs=0.01)


def test_high_rates_last_as_long_as_in_the_real_month() -> None:
    """The correlations of one month differ by 0.06 to 0.08 between seeds, so take the mean of twelve."""
    months = [ClusterTrace(TraceSpec(machines=20, seed=seed)).events_by_minute for seed in range(12)]
    assert np.mean([correlations(by_five(made)) for made in months], axis=0) == pytest.approx(
        CORRELATIONS, abs=0.06
    )
    for made in months[:2]:
        part = np.log(made[: len(made) // 84 * 84].reshape(-1, 84))  # the length of the real part
        part = part - part.mean(axis=1, keepdims=True)
        assert (part[:, 1:] * part[:, :-1]).mean() / part.var() < 0.2, (
            "consecutive minutes are hardly correlated"
        )


@pytest.mark.parametrize("suffix", [CSV, PARQUET])
def test_files_have_the_generated_events(trace, tmp_path, suffix) -> None:
    written = [trace.write(number, tmp_path, suffix) for number in (0, 1)]
    assert written == [len(trace.part(number).time_us) for number in (0, 1)]
    part = read_part(TraceFolder(tmp_path).paths[1])
    made = trace.part(1)
    has = made.machine != NO_MACHINE
    assert (part.machine == made.machine[has]).all()
    assert (part.cpu == made.cpu[has]).all()
    assert (part.time_us == made.time_us[has]).all()
    assert not part.rejected
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"events": 0}, "at least 1 of events"),
        ({"machines": -1}, "at least 1 of machines"),
        ({"span_s": 10}, "at least a minute"),
        ({"parts": 0}, "at least 1 part"),
        ({"seed": -1}, "a seed is a whole number of 0 or more, not -1"),
        ({"parts": 20, "span_s": 480}, "the trace has 8: 20 parts are too many"),
        ({"first_tasks": 5, "last_tasks": 6}, "must be between 0 and the 5 at the start"),
        ({"span_s": 400 * 86_400.0}, "at most 365 days, not 400"),
        ({"span_s": float("inf")}, "at most 365 days, not inf"),
        ({"span_s": float("nan")}, "at least a minute"),
        ({"events": 2_000_000_000}, "use at most 1816[0-9]{6}, or set a span"),
        ({"events": 10**23}, "last more than 365 days"),
        ({"events": 10**23, "span_s": 86_400.0}, "in .* are more than 1000000 per second"),
        ({"machines": 10**12}, "at most 1000000 machines"),
    ],
)
def test_an_invalid_spec_is_an_error(options, words) -> None:
    with pytest.raises(InputError, match=words):
        TraceSpec(**options)


@pytest.mark.parametrize(
    "spec",
    [
        {"events": 500, "machines": 1000},
        {"events": 1000, "machines": 3000, "seed": 4},
        {"events": 20_000, "machines": 2000, "span_s": 29 * 86_400},
        {"events": 3_000, "machines": 300},
        {"events": 999, "machines": 50, "first_tasks": 900},
    ],
)
def test_too_few_events_are_an_error_with_numbers_that_suffice(spec) -> None:
    with pytest.raises(InputError, match="too few") as caught:
        ClusterTrace(TraceSpec(**spec)).parts  # noqa: B018
    events, machines = re.findall(r"use (\d+) events, or (\d+) machines?$", str(caught.value))[0]
    assert int(events) > spec["events"]
    assert int(machines) < spec["machines"]
    ClusterTrace(TraceSpec(**spec | {"events": int(events)})).parts  # noqa: B018
    if "first_tasks" not in spec:
        ClusterTrace(TraceSpec(**spec | {"machines": int(machines)})).parts  # noqa: B018


def test_too_few_events_for_one_machine_do_not_suggest_fewer_machines() -> None:
    with pytest.raises(InputError, match=r"too few for 1 machine: .* use \d+ events$"):
        ClusterTrace(TraceSpec(events=5, machines=1)).check()


def test_the_source_accepts_every_row_of_the_longest_trace(tmp_path) -> None:
    trace = ClusterTrace(TraceSpec(events=900, machines=1, span_s=MAX_DAYS * 86_400.0, parts=3))
    for number in range(trace.parts):
        trace.write(number, tmp_path)
    folder = TraceFolder(tmp_path)
    parts = [
        read_part(Path(piece.path), piece.floor_us, piece.ceiling_us, piece.next_us)
        for piece in folder.slices(folder.start, folder.end)
    ]
    assert [bad for part in parts for bad in part.rejected] == []
    assert sum(len(part.row) + len(part.without_machine_us) for part in parts) == 900
    assert max(part.last_us or 0 for part in parts) > START_US + 360 * 86_400_000_000


@pytest.mark.parametrize("seed", [0, 3, 7])
@pytest.mark.parametrize(
    ("machines", "events"), [(500, EVENTS), (MACHINES, EVENTS), (20, 5_003), (12_000, 1_000_000)]
)
def test_the_trace_has_exactly_the_requested_events(seed, machines, events) -> None:
    trace = ClusterTrace(TraceSpec(machines=machines, events=events, seed=seed))
    assert trace._initial + trace.events_by_minute.sum() == events
    assert (trace.events_by_minute >= trace._long_by_minute).all()


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**4)), min_size=1, max_size=30),
    st.integers(0, 10**8),
)
def test_minutes_are_fitted_exactly_to_any_total_and_never_below_their_minimum(minutes, more) -> None:
    wanted, least = (np.array(column) for column in zip(*minutes, strict=True))
    fitted = _fitted(wanted, least, int(least.sum()) + more)
    assert fitted.sum() == least.sum() + more
    assert (fitted >= least).all()


def test_as_many_tasks_run_as_requested() -> None:
    trace = ClusterTrace(
        TraceSpec(events=9_000, machines=100, span_s=3600, first_tasks=1500, last_tasks=1500)
    )
    events = TaskEvents.concatenate(*(trace.part(number) for number in range(trace.parts)))
    assert len(events.time_us) == 9_000
    _, counts = running(events)
    assert counts[np.searchsorted(events.time_us, START_US) - 1] == 1500
    assert counts[-1] == pytest.approx(1500, abs=100), "some move at the end"


def statistics(event, time_us, machine, cpu, without_machine_us) -> dict[str, float]:
    later = time_us > 0
    without = int((without_machine_us > 0).sum())
    return {
        "tasks at the start": int(((event == EventType.SCHEDULE) & ~later).sum()),
        "machines": len(np.unique(machine)),
        "share without a machine": without / (without + int(later.sum())),
        "share of schedules": float(np.mean(event[later] == EventType.SCHEDULE)),
        "mean cpu": float(cpu.mean()),
    }


def test_the_first_part_of_a_month_resembles_the_real_one() -> None:
    month = ClusterTrace(TraceSpec(seed=1)).part(0)
    has = month.machine != NO_MACHINE
    made = month.take(has)
    ours = statistics(made.event, made.time_us, made.machine, made.cpu, month.time_us[~has])
    assert ours["tasks at the start"] == pytest.approx(REAL_PART["tasks at the start"], rel=0.05)
    assert ours["machines"] == pytest.approx(REAL_PART["machines"], rel=0.05)
    assert ours["share without a machine"] == pytest.approx(REAL_PART["share without a machine"], abs=0.05)
    assert ours["share of schedules"] == pytest.approx(REAL_PART["share of schedules"], abs=0.06)
    assert ours["mean cpu"] == pytest.approx(REAL_PART["mean cpu"], rel=0.3)


@pytest.mark.long
def test_the_statistics_of_the_real_part_are_those_of_its_file(shared_data) -> None:
    real = read_part(shared_data / "google-cluster" / "task_events_part-00000-of-00500.csv.gz")
    measured = statistics(real.event, real.time_us, real.machine, real.cpu, real.without_machine_us)
    assert measured == pytest.approx(REAL_PART, rel=1e-3)
