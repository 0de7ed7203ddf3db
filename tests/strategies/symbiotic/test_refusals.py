"""Changes that are not carried out: which operators keep their parallelism, and for how long."""

from __future__ import annotations

from ebbflow.core.layout import Layout
from ebbflow.strategies.symbiotic.reconfiguration import Refusals

ONE = Layout.of(1, split=1, count=1)
TWO = Layout.of(2, split=2, count=2)
ONLY_NODES = Layout.of(2, split=1, count=1)


def fixed_after(
    refusals: Refusals, wanted: Layout, result: Layout, *, now_s: float, before: Layout = ONE
) -> set[str]:
    """Operators that keep their parallelism after a request of which ``result`` was carried out."""
    refusals.request(before, wanted)
    refusals.check(result, now_s)
    return set(refusals.fixed(now_s))


def test_a_dry_run_fixes_nothing() -> None:
    refusals = Refusals()
    for minute in range(1, 30):
        assert fixed_after(refusals, TWO, ONE, now_s=60.0 * minute) == set()


def test_only_the_operator_that_did_not_change_with_the_others_is_fixed() -> None:
    refusals = Refusals()
    assert fixed_after(refusals, TWO, Layout.of(2, split=2, count=1), now_s=60.0) == {"count"}
    assert "count: resize not carried out, retry in 5m" in refusals.describe(60.0)


def test_an_operator_that_got_fewer_instances_than_requested_is_fixed() -> None:
    refusals = Refusals()
    assert fixed_after(
        refusals, Layout.of(2, split=8, count=8), Layout.of(2, split=8, count=3), now_s=60.0
    ) == {"count"}


def test_a_restart_that_failed_once_is_requested_again() -> None:
    refusals = Refusals()
    assert fixed_after(refusals, TWO, ONLY_NODES, now_s=60.0) == set()
    assert fixed_after(refusals, TWO, TWO, now_s=120.0, before=ONLY_NODES) == set()
    assert fixed_after(refusals, Layout.of(2, split=3, count=3), TWO, now_s=180.0, before=TWO) == set()


def test_the_operator_that_makes_restarts_fail_is_found_by_bisection() -> None:
    """``count`` cannot be repartitioned, so a restart with it fails. Nodes change each time."""
    refusals, planned, now_s = Refusals(), Layout.of(1, a=1, b=1, count=1, d=1), 0.0
    for _ in range(8):
        now_s += 60.0
        fixed = refusals.fixed(now_s)
        wanted = {name: n if name in fixed else 4 for name, n in planned.parallelism.items()}
        before, more = planned, planned.main_nodes + 1
        made = wanted["count"] == planned.parallelism["count"]
        planned = Layout.of(more, **(wanted if made else dict(planned.parallelism)))
        refusals.request(before, Layout.of(more, **wanted))
        refusals.check(planned, now_s)
    assert dict(planned.parallelism) == {"a": 4, "b": 4, "count": 1, "d": 4}
    assert set(refusals.fixed(now_s)) == {"count"}


def test_retries_back_off_and_start_at_once_when_the_parallelism_changes() -> None:
    refusals, now_s = Refusals(), 60.0
    half = Layout.of(2, split=2, count=1)
    fixed_after(refusals, TWO, half, now_s=now_s)
    for times in range(1, 8):
        until_s = now_s + min(300.0 * 2 ** (times - 1), 3600.0)
        assert refusals.fixed(until_s - 1.0)
        assert not refusals.fixed(until_s)
        now_s = until_s
        fixed_after(
            refusals, Layout.of(3, split=3, count=2), Layout.of(3, split=3, count=1), now_s=now_s, before=half
        )
    refusals.check(Layout.of(2, split=2, count=5), now_s)
    assert not refusals.fixed(now_s)


def test_three_ignored_requests_in_a_row_count_if_others_were_carried_out() -> None:
    refusals = Refusals()
    more = Layout.of(1, split=1, count=2)
    fixed_after(
        refusals, Layout.of(2, split=1, count=1), ONLY_NODES, now_s=60.0
    )  # nodes change: it is no dry run
    fixed = [fixed_after(refusals, more, ONE, now_s=60.0 * minute) for minute in range(2, 5)]
    assert fixed == [set(), set(), {"count"}]
