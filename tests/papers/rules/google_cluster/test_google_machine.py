"""The state of the machine operator: exact, whatever the batches."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbflow.papers.rules.google_cluster.events import REPORT_US, START_US, EventType, in_units
from ebbflow.papers.rules.google_cluster.machine import Events, MachineState, Reports

SUBMIT, SCHEDULE, EVICT, FAIL, FINISH, KILL, LOST, UPDATE_PENDING, UPDATE_RUNNING = EventType
A, B = 7, 11


def events(*rows: tuple, first: int = 0) -> Events:
    """Rows of (second after the start, event, machine, task, cpu)."""
    columns = list(zip(*rows, strict=True)) or [(), (), (), (), ()]
    numbers = [np.array(column, np.int64) for column in columns[:4]]
    cpu = in_units(np.array(columns[4], float))
    zero = np.zeros(len(rows), np.int64)
    return Events(
        position=np.arange(first, first + len(rows)),
        time_us=START_US + numbers[0] * 1_000_000,
        event=numbers[1],
        machine=numbers[2],
        job=zero + 1,
        task=numbers[3],
        cpu=cpu,
        memory=cpu * 2,
        disk=zero,
    )


def rows(reported: Reports) -> list[tuple[int, int, int, float]]:
    return [
        (int(r), int(m), int(n), int(c) / 1e12)
        for r, m, n, c in zip(reported.report, reported.machine, reported.tasks, reported.cpu, strict=True)
    ]


def after(*trace: tuple, reports: int = 1) -> list[tuple[int, int, int, float]]:
    return rows(MachineState().advance(events(*trace), reports)[1])


def test_a_task_counts_from_its_schedule_to_its_end() -> None:
    trace = ((10, SUBMIT, A, 1, 0.5), (20, SCHEDULE, A, 1, 0.5), (1000, FINISH, A, 1, 0.5))
    assert after(*trace, reports=2) == [(1, A, 1, 0.5), (2, A, 0, 0.0)]


def test_an_update_changes_requests_of_a_running_task_and_of_no_other() -> None:
    ran = ((1, SCHEDULE, A, 1, 0.5), (2, UPDATE_RUNNING, A, 1, 0.25))
    assert after(*ran) == [(1, A, 1, 0.25)]
    ended = (*ran, (3, KILL, A, 1, 0.25), (4, UPDATE_RUNNING, A, 1, 0.75))
    assert after(*ended) == [(1, A, 0, 0.0)]
    assert after((1, UPDATE_RUNNING, A, 1, 0.5)) == [(1, A, 0, 0.0)]
    assert after((1, SCHEDULE, A, 1, 0.5), (2, UPDATE_PENDING, A, 1, 0.75)) == [(1, A, 1, 0.5)]


def test_a_task_evicted_and_scheduled_elsewhere_counts_there() -> None:
    moved = ((1, SCHEDULE, A, 1, 0.5), (2, EVICT, A, 1, 0.5), (3, SCHEDULE, B, 1, 0.125))
    assert after(*moved) == [(1, A, 0, 0.0), (1, B, 1, 0.125)]
    assert after(*moved, (4, EVICT, B, 1, 0), (5, SCHEDULE, A, 1, 0.25)) == [(1, A, 1, 0.25), (1, B, 0, 0.0)]


def test_a_task_that_ends_twice_or_starts_twice_counts_once() -> None:
    assert after((1, SCHEDULE, A, 1, 0.5), (2, FAIL, A, 1, 0.5), (3, KILL, A, 1, 0.5)) == [(1, A, 0, 0.0)]
    assert after((1, SCHEDULE, A, 1, 0.5), (2, SCHEDULE, A, 1, 0.25)) == [(1, A, 1, 0.25)]
    assert after((1, LOST, A, 1, 0.5)) == [(1, A, 0, 0.0)]


def test_the_state_before_the_trace_counts_in_the_first_report() -> None:
    assert after((-600, SUBMIT, A, 1, 0.5), (-600, SCHEDULE, A, 1, 0.5)) == [(1, A, 1, 0.5)]


def test_an_event_at_the_time_of_a_report_belongs_to_the_next_one() -> None:
    assert after((1, SUBMIT, A, 0, 0), (900, SCHEDULE, A, 1, 0.5), reports=2) == [
        (1, A, 0, 0.0),
        (2, A, 1, 0.5),
    ]


def test_a_machine_reports_from_its_first_event_on_with_or_without_tasks() -> None:
    trace = ((1, SCHEDULE, A, 1, 0.5), (1000, SUBMIT, B, 2, 0.5))
    assert after(*trace, reports=3) == [
        (1, A, 1, 0.5),
        (2, A, 1, 0.5),
        (2, B, 0, 0),
        (3, A, 1, 0.5),
        (3, B, 0, 0),
    ]


def test_nothing_is_reported_without_a_mark_and_nothing_twice() -> None:
    state, reported = MachineState().advance(events((1, SCHEDULE, A, 1, 0.5)))
    assert rows(reported) == []
    state, reported = state.advance(events(), 1)
    assert rows(reported) == [(1, A, 1, 0.5)]
    assert rows(state.advance(events(), 1)[1]) == []


def test_sums_above_the_precision_of_a_float_are_exact() -> None:
    odd = tuple((1, SCHEDULE, A, task, 100 - 1e-12) for task in range(999))
    state, _ = MachineState().advance(events(*odd, (2, SCHEDULE, A, 1000, 1e-12)))
    assert state.advance(events(), 1)[1].cpu.tolist() == [999 * (100 * 10**12 - 1) + 1]


one_event = st.tuples(
    st.integers(0, 5_000), st.sampled_from(list(EventType)), st.integers(1, 4), st.integers(0, 3),
    st.sampled_from([0.0, 0.125, 0.02499, 3.815e-07]),
)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(st.lists(one_event, max_size=60), st.lists(st.integers(0, 60), max_size=4), st.randoms())
def test_results_depend_neither_on_batches_nor_on_the_order_of_rows_in_them(trace, cuts, random) -> None:
    trace = sorted(trace, key=lambda row: row[0])
    reports = 7
    expected = rows(MachineState().advance(events(*trace), reports)[1])
    assert expected == plain(trace, reports)
    state, reported = MachineState(), []
    edges = sorted({0, len(trace), *(cut for cut in cuts if cut < len(trace))})
    for first, end in pairwise(edges):
        piece = events(*trace[first:end], first=first)
        shuffled = list(range(end - first))
        random.shuffle(shuffled)
        piece = Events(**{name: values[shuffled] for name, values in vars(piece).items()})
        known_s = trace[min(end, len(trace) - 1)][0]
        state = MachineState.from_bytes(state.to_bytes())
        state, out = state.advance(piece, known_s * 1_000_000 // REPORT_US or None)
        reported += rows(out)
    reported += rows(state.advance(events(), reports)[1])
    assert reported == expected


def plain(trace, reports: int) -> list[tuple[int, int, int, float]]:
    running: dict[int, dict[int, float]] = {}
    reported, left = [], list(trace)
    for report in range(1, reports + 1):
        while left and left[0][0] < report * 900:
            _, kind, machine, task, cpu = left.pop(0)
            tasks = running.setdefault(machine, {})
            if kind == SCHEDULE or (kind == UPDATE_RUNNING and task in tasks):
                tasks[task] = cpu
            elif kind in (EVICT, FAIL, FINISH, KILL, LOST):
                tasks.pop(task, None)
        reported += [
            (report, machine, len(tasks), sum(round(cpu * 1e12) for cpu in tasks.values()) / 1e12)
            for machine, tasks in sorted(running.items())
        ]
    return reported
