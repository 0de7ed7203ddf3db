"""Rankers: the best words of a window do not depend on how rows are distributed."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow.errors import PipelineError
from ebbflow.papers.elysium.pipelines.steps import ROW_MARK, best
from ebbflow.papers.elysium.pipelines.top_words import Rankings, TopWords

Rows = list[tuple[int, str, int]]
SCHEMA = pa.schema([("ends_s", pa.int64()), ("word", pa.string()), ("count", pa.int64())])


def ranked(rows: Rows, top: int, pieces: int = 1) -> Rows:
    batches = [
        pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in part], SCHEMA)
        for part in (rows[i::pieces] for i in range(pieces))
    ]
    return [tuple(row.values()) for batch in best(iter(batches), top) for row in batch.to_pylist()]


def plainly(rows: Rows, top: int) -> Rows:
    ends = sorted({end for end, _, _ in rows})
    return [
        (end, word, count)
        for end in ends
        for count, word in sorted(((c, w) for e, w, c in rows if e == end), key=lambda x: (-x[0], x[1]))[:top]
    ]


COUNTS = st.dictionaries(
    st.tuples(st.sampled_from([20, 40, 60]), st.text("abc", min_size=1, max_size=3)), st.integers(1, 5)
)


@given(COUNTS, st.integers(1, 6), st.integers(1, 3))
def test_the_best_of_each_window_are_found_and_ties_broken_by_the_alphabet(counts, top, pieces) -> None:
    rows = [(end, word, count) for (end, word), count in counts.items()]
    assert ranked(rows, top, pieces) == plainly(rows, top)


@given(COUNTS, st.integers(1, 6), st.integers(1, 4))
def test_ranking_in_two_steps_gives_what_one_step_gives(counts, top, instances) -> None:
    rows = [(end, word, count) for (end, word), count in counts.items()]
    firsts = [row for i in range(instances) for row in ranked(rows[i::instances], top)]
    assert ranked(firsts, top) == ranked(rows, top)


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from([20, 40]), st.sampled_from("abcdef")), max_size=12), max_size=6
    ),
    st.integers(1, 4),
)
def test_rankers_need_only_the_changed_words(batches, top) -> None:
    """Counts of a window only grow: a word that is not among the best and does not change stays out."""
    total: Counter[tuple[int, str]] = Counter()
    rankings = Rankings(window_s=60, slide_s=20, top=top)
    for batch in batches:
        total.update(batch)
        changed = [(end, word, total[end, word]) for end, word in set(batch)]
        rankings.add(ranked(changed, top))
        rankings.add(ranked(changed, top))  # a repeated batch changes nothing
    rows = [(end, word, count) for (end, word), count in total.items()]
    found = [(end, word, count) for end, ranking in rankings.windows().items() for word, count in ranking]
    assert found == plainly(rows, top)


def test_marks_of_tweets_pass_once_and_are_not_ranked() -> None:
    rows = [
        (20, f"{ROW_MARK}7", 1),
        (40, f"{ROW_MARK}7", 1),
        (20, f"{ROW_MARK}8", 2),
        (20, "a", 1),
        (20, "b", 9),
    ]
    assert sorted(ranked(rows, 1)) == [(20, f"{ROW_MARK}8", 2), (20, "b", 9), (40, f"{ROW_MARK}7", 1)]
    assert ranked(rows[:2], 5) == [(40, f"{ROW_MARK}7", 1)]


def test_without_rows_there_is_no_ranking() -> None:
    assert ranked([], 5) == []
    assert Rankings(window_s=60, slide_s=20, top=1).top() == []


def test_the_top_is_that_of_the_oldest_open_window() -> None:
    rankings = Rankings(window_s=60, slide_s=20, top=2)
    rankings.add([(60, "old", 9), (80, "old", 2), (100, "new", 1)])
    assert rankings.top() == [("old", 9)]
    rankings.add([(120, "new", 1)])
    assert rankings.top() == [("old", 2)]


def test_only_the_last_windows_are_kept() -> None:
    rankings = Rankings(window_s=60, slide_s=20, top=1, windows=4)
    for end in range(0, 400, 20):
        rankings.add([(end, "tea", 1)])
    assert list(rankings.windows()) == [320, 340, 360, 380]


def test_the_audit_finds_a_lost_row_and_a_repeated_one() -> None:
    rankings = Rankings(window_s=60, slide_s=20, top=2)
    rankings.add([(60, f"{ROW_MARK}0", 1), (60, f"{ROW_MARK}1", 1), (60, f"{ROW_MARK}3", 2), (60, "tea", 8)])
    assert rankings.audit(4) == ([2], 1)
    rankings.add([(60, f"{ROW_MARK}2", 1), (60, f"{ROW_MARK}3", 1)])
    assert rankings.audit(4) == ([], 0)


@pytest.mark.parametrize(("window_s", "slide_s"), [(60, 0), (60, 25), (10, 20)])
def test_a_window_slides_by_a_divisor_of_its_length(window_s, slide_s) -> None:
    with pytest.raises(PipelineError, match="cannot slide by"):
        TopWords(load="constant(1)", window_s=window_s, slide_s=slide_s)


def test_an_empty_ranking_is_refused() -> None:
    with pytest.raises(PipelineError, match="1 or more"):
        TopWords(load="constant(1)", top=0)
