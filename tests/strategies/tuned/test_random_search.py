"""Recursive random search: better than random sampling with the same number of evaluations."""

from __future__ import annotations

import math
import statistics
from random import Random

from ebbflow.strategies.tuned.random_search import EXPLORED, FAILED, Point, RecursiveRandomSearch

EVALUATIONS = 100


def valley(point: Point) -> float:
    """A valley with ripples; the minimum of 0 is at 0.7 in each dimension."""
    return sum((x - 0.7) ** 2 + 0.01 * (1 - math.cos(40 * (x - 0.7))) for x in point)


def searched(seed: int) -> float:
    search = RecursiveRandomSearch((0.1,) * 6, Random(seed))
    for _ in range(EVALUATIONS):
        point = search.ask()
        assert all(0.0 <= x <= 1.0 for x in point)
        search.tell(valley(point))
    assert search.best_cost == valley(search.best)
    return search.best_cost


def sampled(seed: int) -> float:
    rng = Random(seed)
    return min(valley(tuple(rng.random() for _ in range(6))) for _ in range(EVALUATIONS))


def test_the_published_constants_give_the_numbers_of_points() -> None:
    assert (EXPLORED, FAILED) == (44, 3)  # ln 0.01 / ln 0.9 = 43.7; ln 0.01 / ln 0.2 = 2.9


def test_it_finds_better_points_than_random_sampling() -> None:
    seeds = range(30)
    assert statistics.mean(map(searched, seeds)) < 0.7 * statistics.mean(map(sampled, seeds))


def test_it_starts_where_it_is_told_and_repeats_with_its_seed() -> None:
    one, other = (RecursiveRandomSearch((0.25, 0.5), Random(7)) for _ in range(2))
    assert one.ask() == (0.25, 0.5)
    for _ in range(300):  # through exploitation, and back to exploration
        assert one.ask() == other.ask()
        cost = valley(one.ask())
        one.tell(cost)
        other.tell(cost)


def test_a_flat_function_ends_the_exploitation() -> None:
    search = RecursiveRandomSearch((0.5,), Random(1))
    asked = []
    for _ in range(200):
        asked.append(search.ask()[0])
        search.tell(1.0)
    # 44 points, then 3 at each of the volumes 0.1, 0.05, … 0.0016, around the first; then the whole space again
    near = asked[44 : 44 + 3 * 7]
    assert all(abs(x - 0.5) <= 0.05 for x in near)
    assert max(abs(x - 0.5) for x in asked[65:109]) > 0.3
