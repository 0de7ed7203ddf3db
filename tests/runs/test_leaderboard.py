"""The ranking: its rule on cases worked out by hand, and laws that hold for any results."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from sweep_builders import result

from ebbflow.runs.leaderboard import SCORE_NAMES, rank_strategies
from ebbflow.runs.sweep import HINDSIGHT, Failure, Sweep


def ranked(*results, failures=(), quantile=0.95):
    return rank_strategies(Sweep(results=tuple(results), failures=tuple(failures)), quantile=quantile)


def names(standings) -> list[str]:
    return [row.strategy for row in standings]


def test_strategies_that_kept_the_slo_come_first_ordered_by_cost() -> None:
    board = ranked(
        result("cheap-and-late", 10.0, 0.2),
        result("dear", 90.0, 0.0),
        result("cheaper", 60.0, 0.05),
        result("cheapest-and-latest", 5.0, 0.9),
    )
    assert names(board) == ["cheaper", "dear", "cheap-and-late", "cheapest-and-latest"]
    assert [row.ranked_means.slo_kept for row in board] == [True, True, False, False]
    assert [row.rank for row in board] == [1, 2, 3, 4]


def test_means_are_over_all_runs_of_a_strategy() -> None:
    (row,) = ranked(
        result("s", 10.0, 0.0), result("s", 30.0, 0.08, seed=2), result("s", 20.0, 0.04, load="b")
    )
    assert row.overall.scores["node_seconds"] == 20.0
    assert abs(row.overall.scores["violation"] - 0.04) < 1e-12
    assert (row.overall.runs, row.overall.runs_kept, row.overall.slo_kept) == (3, 2, True)


def test_the_spread_is_over_the_seeds_and_not_over_the_loads() -> None:
    # Means over the loads a and b: (10 + 100) / 2 = 55 with seed 1, (14 + 100) / 2 = 57 with seed 2, 59 with seed 3:
    # s² = (4 + 0 + 4) / 2 = 4. Late rows 0, 0.02 and 0.04 on a and none on b: means 0, 0.01, 0.02, s = 0.01.
    (row,) = ranked(
        *(result("s", 10.0 + 4 * k, 0.02 * k, seed=k + 1) for k in range(3)),
        *(result("s", 100.0, 0.0, load="b", seed=k + 1) for k in range(3)),
    )
    output = row.to_json()
    assert output["node_seconds_sd"] == 2.0
    assert abs(output["violation_sd"] - 0.01) < 1e-12
    assert output["by_step"]["fine"]["node_seconds_sd"] == 2.0


def test_there_is_no_spread_with_one_seed_and_incomplete_seeds_are_left_out() -> None:
    (row,) = ranked(result("s", 10.0), result("s", 90.0, load="b"))
    assert (row.to_json()["node_seconds_sd"], row.to_json()["violation_sd"]) == (None, None)
    both = [
        result("s", cost, load=load, seed=seed)
        for load, cost in (("a", 10.0), ("b", 90.0))
        for seed in (1, 2)
    ]
    (row,) = ranked(*both, result("s", 10.0, seed=3))
    assert row.overall.spread["node_seconds"] == 0.0, "seed 3 has had only the cheap load"
    (row,) = ranked(result("s", 10.0, None), result("s", 12.0, None, seed=2))
    assert row.overall.spread["violation"] is None, "no rows, no share of them"


def test_a_load_is_won_by_the_strategy_that_is_first_on_it() -> None:
    board = ranked(
        result("x", 50.0, 0.0, load="a"), result("y", 60.0, 0.0, load="a"),
        result("x", 50.0, 0.5, load="b"), result("y", 60.0, 0.0, load="b"),
        result("x", 50.0, 0.0, load="c"), result("y", 40.0, 0.9, load="c"),
    )  # fmt: skip
    assert {row.strategy: row.overall.wins for row in board} == {"x": 2, "y": 1}


def test_a_load_without_rows_is_kept_and_its_unknown_scores_are_left_out() -> None:
    (row,) = ranked(result("s", 10.0, None), result("s", 20.0, 0.02, load="b"))
    assert row.ranked_means.slo_kept
    assert row.ranked_means.scores["violation"] == 0.02


def test_a_strategy_with_a_failed_run_is_last_however_cheap() -> None:
    failure = Failure(load="b", seed=1, strategy="frail", error="ZeroDivisionError")
    lost = Failure(load="b", seed=1, strategy="lost", error="ZeroDivisionError")
    board = ranked(result("frail", 1.0), result("late", 9.0, 0.9), failures=[failure, lost])
    assert names(board) == ["late", "frail", "lost"]
    assert [(row.overall.runs, row.failed) for row in board] == [(1, 0), (1, 1), (0, 1)]
    assert not board[-1].ranked_means.slo_kept
    assert board[-1].ranked_means.scores["node_seconds"] is None


def test_a_run_with_unknown_cost_comes_after_those_with_known_cost() -> None:
    board = ranked(result("recorded", None), result("dear", 1e9), result("late", 1.0, 0.9))
    assert names(board) == ["dear", "recorded", "late"]


def test_hindsight_is_not_a_strategy() -> None:
    missed = Failure(load="a", seed=1, strategy=HINDSIGHT, error="MemoryError")
    assert names(ranked(result("s", 1.0), failures=[missed])) == ["s"]


def test_a_row_has_every_score_and_its_rank() -> None:
    row = ranked(result("s", 1.0))[0].to_json()
    assert set(SCORE_NAMES) < set(row)
    assert (row["rank"], row["strategy"], row["loads_won"]) == (1, "s", 1)


def test_infeasible_loads_are_counted() -> None:
    hopeless = [replace(result("s", 1.0, 0.9, load="b", seed=k), oracle_feasible=False) for k in (1, 2)]
    (row,) = ranked(replace(result("s", 1.0), oracle_feasible=True), *hopeless, result("s", 1.0, load="c"))
    assert row.to_json()["loads_infeasible"] == 1, "a load, however many seeds; not known is not infeasible"


RESULTS = st.lists(
    st.builds(
        result,
        st.sampled_from(["x", "y", "z"]),
        st.floats(1.0, 1e6),
        st.one_of(st.none(), st.floats(0.0, 1.0)),
        load=st.sampled_from(["a", "b"]),
    ),
    min_size=1,
)


@given(RESULTS, st.randoms())
def test_ranks_count_from_one_whatever_the_order_of_the_runs(results, random) -> None:
    board = ranked(*results)
    shuffled = list(results)
    random.shuffle(shuffled)
    assert names(ranked(*shuffled)) == names(board)
    assert [row.rank for row in board] == list(range(1, len(board) + 1))
    assert sum(row.overall.wins for row in board) == len({r.load for r in results})
    kept = [row.ranked_means.slo_kept for row in board]
    assert kept == sorted(kept, reverse=True)
    costs = [row.ranked_means.scores["node_seconds"] for row in board if row.ranked_means.slo_kept]
    assert costs == sorted(costs)


# -- coarse loads ----------------------------------------------------------------------------------


def test_with_fine_and_coarse_loads_the_ranking_uses_the_fine_ones() -> None:
    board = ranked(
        result("x", 50.0, 0.0, load="fine"),
        result("y", 60.0, 0.0, load="fine"),
        result("x", 500.0, 0.6, load="coarse", step_s=300.0),
        result("y", 40.0, 0.0, load="coarse", step_s=1800.0),
    )
    assert names(board) == ["x", "y"], "all runs together would have y first"
    first = board[0]
    assert first.ranked_means.scores["node_seconds"] == 50.0
    assert first.ranked_means.slo_kept
    assert first.coarse_means is not None
    assert (
        first.coarse_means.scores["node_seconds"],
        first.coarse_means.slo_kept,
        first.coarse_means.runs,
    ) == (500.0, False, 1)
    assert [row.coarse_means.wins if row.coarse_means else None for row in board] == [0, 1]
    output = first.to_json()
    assert output["node_seconds"] == 275.0, "the mean of every score is over all runs, as ever"
    assert (output["ranked_on"], output["slo_kept"], output["runs"]) == ("fine", True, 2)
    assert set(output["by_step"]) == {"fine", "coarse"}
    assert set(SCORE_NAMES) < set(output["by_step"]["coarse"])
    assert output["by_step"]["coarse"]["violation"] == 0.6


def test_with_one_kind_of_loads_the_ranking_uses_all() -> None:
    for step_s, kind in ((60.0, "fine"), (300.0, "coarse")):
        board = ranked(result("x", 50.0, step_s=step_s), result("y", 40.0, step_s=step_s))
        assert names(board) == ["y", "x"]
        assert all(row.coarse_means is None and row.ranked_on == kind for row in board)
        assert board[0].ranked_means.scores == board[0].overall.scores


def test_a_failure_on_a_coarse_load_also_puts_a_strategy_last() -> None:
    failure = Failure(load="coarse", seed=1, strategy="x", error="ZeroDivisionError")
    runs = [result("x", 1.0), result("y", 9.0), result("y", 9.0, load="coarse", step_s=300.0)]
    board = ranked(*runs, failures=[failure])
    assert names(board) == ["y", "x"]
    assert board[1].coarse_means is not None
    assert board[1].coarse_means.scores["node_seconds"] is None
