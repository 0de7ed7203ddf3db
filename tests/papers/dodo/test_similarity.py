"""The incremental state of the movie stream against counting everything anew."""

from __future__ import annotations

import itertools
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow.papers.dodo.movies.similarity import Fans, MovieList, Similar, codes_of, first_of, second_of

FAN = st.tuples(st.integers(0, 4), st.integers(0, 12))
BATCHES = st.lists(st.lists(FAN, max_size=25), max_size=8)


def recount(fans: set[tuple[int, int]], top: int) -> dict[int, list[tuple[int, int]]]:
    """Lists from all fans, as a batch job makes them."""
    mutual: Counter[tuple[int, int]] = Counter()
    for user in {user for user, _ in fans}:
        own = [movie for other, movie in fans if other == user]
        mutual.update((a, b) for a, b in itertools.permutations(own, 2))
    lists: dict[int, list[tuple[int, int]]] = {}
    for (a, b), count in sorted(mutual.items(), key=lambda each: (each[0][0], -each[1], each[0][1])):
        lists.setdefault(a, []).append((b, count))
    return {movie: entries[:top] for movie, entries in lists.items()}


def as_lists(lists: dict[int, MovieList]) -> dict[int, list[tuple[int, int]]]:
    return {k: list(zip(v.similar, v.mutual_fans, strict=True)) for k, v in lists.items()}


@given(batches=BATCHES, top=st.integers(1, 4), max_pairs=st.sampled_from([None, 0, 7, 60]))
def test_lists_are_those_of_counting_everything_anew_after_every_batch(
    batches: list[list[tuple[int, int]]], top: int, max_pairs: int | None
) -> None:
    fans, similar, lists = Fans(), Similar(), dict[int, MovieList]()
    so_far: set[tuple[int, int]] = set()
    for batch in batches:
        coming = codes_of([u for u, _ in batch], [m for _, m in batch])
        first = True
        while first or len(fans.waiting):
            made = fans.add(coming if first else coming[:0], max_pairs)
            fans, first = Fans.from_bytes(made.fans.to_bytes()), False
            after = similar.add(made.pairs, top=top)
            similar = Similar.from_bytes(after.similar.to_bytes())
            lists |= {each.movie: each for each in after.lists}
        so_far |= set(batch)
        assert as_lists(lists) == recount(so_far, top)


@given(batches=BATCHES)
def test_only_lists_that_changed_are_sent_again(batches: list[list[tuple[int, int]]]) -> None:
    fans, similar, sent = Fans(), Similar(), dict[int, MovieList]()
    for batch in batches:
        made = fans.add(codes_of([u for u, _ in batch], [m for _, m in batch]))
        after = similar.add(made.pairs, top=3)
        for each in after.lists:
            before = sent.get(each.movie)
            assert before is None or (before.similar, before.mutual_fans) != (each.similar, each.mutual_fans)
            assert before is None or before.version < each.version
            sent[each.movie] = each
        fans, similar = made.fans, after.similar


def test_a_user_with_thousands_of_movies_does_not_stall_a_batch() -> None:
    known = Fans(codes=codes_of(np.full(20_000, 1), np.arange(20_000)))
    others = codes_of(np.arange(2, 500), np.full(498, 7))
    coming = np.concatenate((codes_of(np.full(2_000, 1), np.arange(20_000, 22_000)), others))
    unbounded = 2 * (2_000 * 20_000 + 2_000 * 1_999 // 2)  # 84 million
    began_s, fans, pairs, most, calls = time.process_time(), known, 0, 0, 0
    while calls == 0 or len(fans.waiting):
        made = fans.add(coming if calls == 0 else coming[:0], max_pairs=1_000_000)
        fans, calls = made.fans, calls + 1
        most, pairs = max(most, len(made.pairs)), pairs + len(made.pairs)
        if calls == 3:
            assert len(fans.waiting) < len(coming)
            break
    assert most <= 1_000_000, "a batch made more pairs than allowed"
    assert pairs < unbounded / 20
    assert time.process_time() - began_s < 5.0
    # Negative control: without the bound, a tenth of these movies alone makes eight times as many pairs.
    assert len(known.add(coming[:200]).pairs) == 2 * (200 * 20_000 + 200 * 199 // 2)


def test_a_fan_with_more_pairs_than_the_bound_is_taken_alone() -> None:
    known = Fans(codes=codes_of(np.full(100, 1), np.arange(100)))
    made = known.add(codes_of([1, 1], [100, 101]), max_pairs=10)
    assert len(made.pairs) == 200
    assert second_of(made.fans.waiting).tolist() == [101]
    assert set(first_of(made.pairs)) == set(range(101))


@pytest.mark.parametrize("max_pairs", [None, 40])
def test_movies_wait_in_the_order_of_their_arrival(max_pairs: int | None) -> None:
    known = Fans(codes=codes_of(np.repeat([1, 2], 10), np.tile(np.arange(10), 2)))
    made = known.add(codes_of([2, 1, 2, 1], [50, 60, 70, 80]), max_pairs)
    assert second_of(made.fans.waiting).tolist() == ([] if max_pairs is None else [70, 80])
