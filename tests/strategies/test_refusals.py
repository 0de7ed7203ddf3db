"""What came of changes that were asked for: who is kept as it is, and for how long."""

from __future__ import annotations

from ebbflow.core.layout import Layout
from ebbflow.strategies.symbiotic.reconfiguration import RETRY, Refusals

ONE = Layout.of(1, split=1, count=1)
TWO = Layout.of(2, split=2, count=2)
ONLY_NODES = Layout.of(2, split=1, count=1)


def asked(
    refusals: Refusals, wanted: Layout, came: Layout, *, now_s: float, before: Layout = ONE
) -> set[str]:
    """Who is kept after a decision of which this came about."""
    refusals.asked(before, wanted)
    refusals.look(came, now_s)
    return set(refusals.kept(now_s))


def test_a_recommendation_that_nobody_carries_out_tells_nothing() -> None:
    refusals = Refusals()
    for minute in range(1, 30):
        assert asked(refusals, TWO, ONE, now_s=60.0 * minute) == set()


def test_only_the_operator_that_stayed_while_others_changed_is_kept() -> None:
    refusals = Refusals()
    assert asked(refusals, TWO, Layout.of(2, split=2, count=1), now_s=60.0) == {"count"}
    assert "count: did not come about, asked again in 5m" in refusals.told(60.0)


def test_an_operator_that_got_less_than_asked_for_is_kept_at_what_it_has() -> None:
    refusals = Refusals()
    assert asked(refusals, Layout.of(2, split=8, count=8), Layout.of(2, split=8, count=3), now_s=60.0) == {
        "count"
    }


def test_a_restart_that_failed_once_is_asked_again() -> None:
    refusals = Refusals()
    assert asked(refusals, TWO, ONLY_NODES, now_s=60.0) == set()
    assert asked(refusals, TWO, TWO, now_s=120.0, before=ONLY_NODES) == set()
    assert asked(refusals, Layout.of(2, split=3, count=3), TWO, now_s=180.0, before=TWO) == set()


def test_who_kept_a_restart_from_being_made_is_found_and_the_others_go_on() -> None:
    """``count`` cannot be repartitioned, so that a restart with it is not made at all. Nodes come each time."""
    refusals, planned, now_s = Refusals(), Layout.of(1, a=1, b=1, count=1, d=1), 0.0
    for _ in range(8):
        now_s += 60.0
        kept = refusals.kept(now_s)
        wanted = {name: n if name in kept else 4 for name, n in planned.parallelism.items()}
        before, more = planned, planned.main_nodes + 1
        made = wanted["count"] == planned.parallelism["count"]
        planned = Layout.of(more, **(wanted if made else dict(planned.parallelism)))
        refusals.asked(before, Layout.of(more, **wanted))
        refusals.look(planned, now_s)
    assert dict(planned.parallelism) == {"a": 4, "b": 4, "count": 1, "d": 4}
    assert set(refusals.kept(now_s)) == {"count"}


def test_it_is_asked_again_later_and_later_and_at_once_when_it_was_seen_to_change() -> None:
    refusals, now_s = Refusals(), 60.0
    half = Layout.of(2, split=2, count=1)
    asked(refusals, TWO, half, now_s=now_s)
    for times in range(1, 8):
        until_s = now_s + min(300.0 * 2 ** (times - 1), 3600.0)
        assert refusals.kept(until_s - 1.0)
        assert not refusals.kept(until_s)
        now_s = until_s
        asked(
            refusals, Layout.of(3, split=3, count=2), Layout.of(3, split=3, count=1), now_s=now_s, before=half
        )
    refusals.look(Layout.of(2, split=2, count=5), now_s)
    assert not refusals.kept(now_s)


def test_where_changes_are_made_three_in_a_row_that_are_not_count() -> None:
    refusals = Refusals()
    more = Layout.of(1, split=1, count=2)
    asked(refusals, Layout.of(2, split=1, count=1), ONLY_NODES, now_s=60.0)  # nodes come: it is no dry run
    kept = [asked(refusals, more, ONE, now_s=60.0 * minute) for minute in range(2, 5)]
    assert kept == [set(), set(), {"count"}]


def test_a_clock_that_is_set_back_does_not_keep_it_for_longer() -> None:
    refusals = Refusals()
    asked(refusals, TWO, Layout.of(2, split=2, count=1), now_s=36_000.0)
    refusals.start_over(100.0)
    assert refusals.kept(100.0) == {"count"}
    assert not refusals.kept(100.0 + RETRY.first_s)
