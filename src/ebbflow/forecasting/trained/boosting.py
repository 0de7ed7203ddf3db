"""Gradient-boosted regression trees on lags, calendar and the value one season before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.errors import InputError
from ebbflow.forecasting.grid import GRID, Ints
from ebbflow.forecasting.load_periods import SAME, SEARCHED, find_period
from ebbflow.forecasting.trained.model import CYCLE_S, TrainingLoad, at_least, time_features

NEVER = 1e300
"""Threshold of a node that does not split: every row goes left."""
CALENDAR = ("minute", "hour", "weekday")
SEASONS_S = (3600.0, 86_400.0, 7 * 86_400.0)
CYCLES = 3
"""A season is used after this many of them."""
PATIENCE = 20
"""Trees without improvement after which no more are added."""


class Trees(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Boosted trees of equal depth as arrays: node k has the children 2k+1 (x ≤ threshold) and 2k+2.

    >>> stump = Trees(base=1.0, features=((0,),), thresholds=((5.0,),), leaves=((-1.0, 1.0),))
    >>> stump.predict(np.array([[4.0], [6.0]])).tolist()
    [0.0, 2.0]
    """

    base: float
    features: tuple[tuple[int, ...], ...]
    """One row per tree, one column per node."""
    thresholds: tuple[tuple[float, ...], ...]
    leaves: tuple[tuple[float, ...], ...]

    @cached_property
    def _arrays(self) -> tuple[Ints, Floats, Floats]:
        return (
            np.asarray(self.features, dtype=np.int64).ravel(),
            np.asarray(self.thresholds).ravel(),
            np.asarray(self.leaves).ravel(),
        )

    def predict(self, rows: Floats) -> Floats:
        """One value per row."""
        trees = len(self.leaves)
        if not trees:
            return np.full(len(rows), self.base)
        features, thresholds, leaves = self._arrays
        inner = len(self.thresholds[0])
        offset = np.arange(trees) * inner
        place = np.zeros((len(rows), trees), dtype=np.int64)
        each = np.arange(len(rows))[:, None]
        for _ in range((inner + 1).bit_length() - 1):
            node = offset + place
            place = 2 * place + 1 + (rows[each, features[node]] > thresholds[node])
        return np.asarray(self.base + leaves[np.arange(trees) * (inner + 1) + place - inner].sum(axis=1))


class BoostingModel(msgspec.Struct, frozen=True, kw_only=True, dict=True, tag="boosting"):
    """Trees for the change from the last value, relative to the recent mean load."""

    lags: int
    horizon: int
    """Steps ahead that were trained; further ones are forecast like the last of them."""
    seasons: tuple[int, ...]
    """Periods in steps."""
    calendar: tuple[str, ...]
    mean: float
    """Mean load in training."""
    spread: tuple[float, ...]
    """Mean size of the change at each horizon. Trees predict multiples of it, so that all horizons count alike."""
    trees: Trees

    @property
    def needs(self) -> int:
        """Lags, or a season and the horizon."""
        return max(self.lags + 1, *(season + self.horizon + 1 for season in self.seasons), 1)

    def ahead(self, recent: Floats, end_s: float, step_s: float, steps: int) -> Floats:
        """The next steps."""
        values = at_least(recent, self.needs)
        reach = np.minimum(np.arange(1, steps + 1), self.horizon)
        rows, level = self.rows(values, np.full(steps, len(values) - 1), reach, end_s, step_s)
        return np.asarray(values[-1] + level * self._spread[reach - 1] * self.trees.predict(rows))

    @cached_property
    def _spread(self) -> Floats:
        return np.asarray(self.spread)

    def rows(
        self, values: Floats, origins: Ints, reach: Ints, end_s: float, step_s: float
    ) -> tuple[Floats, Floats]:
        """Inputs of forecasts from the steps ``origins``, ``reach`` steps ahead, and the recent mean load of each."""
        now = values[origins]
        lags = values[origins[:, None] - np.arange(1, self.lags + 1)]
        level = (now + lags.sum(axis=1)) / (self.lags + 1) + 0.01 * self.mean + 1e-12
        columns = [reach.astype(np.float64), now / (self.mean + 1e-12)]
        columns += list(((lags - now[:, None]) / level[:, None]).T)
        for season in self.seasons:
            back = season * -(-reach // season)  # seasons from the target to a step that is known
            then = values[origins + reach - back]
            columns += [(then - now) / level, (then - values[np.maximum(origins - back, 0)]) / level]
        if self.calendar:
            ends_s = np.asarray(end_s - step_s * (len(values) - 1 - origins - reach), dtype=np.float64)
            columns += list(time_features(ends_s, self.calendar).T)
        return np.stack(columns, axis=1), level


class Boosting(msgspec.Struct, frozen=True, kw_only=True, tag="boosting"):
    """Fits boosted trees (Friedman, Annals of Statistics 29, 2001) on histograms, for all horizons at once.

    Inputs: the horizon, the level, the lags, calendar fields, and for each season the value one season before the
    target. Wanted is the change from the last value divided by the recent mean load, so that trees also work for
    loads higher than any before. Each tree of ``depth`` levels is fitted to what is left, clipped at its 90 %
    quantile so that bursts do not rule, and adds ``rate`` of it. Trees are added while they improve the last fifth
    of the series. Of a long series ``most_examples`` steps are used, evenly spread, each with a random horizon.
    """

    lags: int = 10
    horizon: int = 30
    depth: int = 4
    trees: int = 150
    rate: float = 0.1
    bins: int = 32
    most_examples: int = 12_000
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.lags, self.horizon, self.depth, self.trees) < 1:
            raise InputError("lags, horizon, depth and trees of boosting must be at least 1")
        if not 0 < self.rate <= 1 or not 2 <= self.bins <= 256:
            raise InputError(
                f"boosting with rate={self.rate:g} and bins={self.bins}; use (0, 1] and 2 to 256"
            )

    @property
    def least_steps(self) -> int:
        """A few examples beyond lags and horizon."""
        return self.lags + self.horizon + 100

    def fit(self, series: TrainingLoad) -> BoostingModel:
        """As many trees as improve the last fifth of the series."""
        return self._fit(series, None)

    def refit(self, series: TrainingLoad, model: BoostingModel) -> BoostingModel:
        """As many trees as ``model`` has."""
        return self._fit(series, len(model.trees.leaves))

    def _fit(self, series: TrainingLoad, count: int | None) -> BoostingModel:
        values, step_s = series.values, series.step_s
        if len(values) < self.least_steps:
            raise InputError(f"boosting needs at least {self.least_steps} steps, but got {len(values)}")
        model = BoostingModel(
            lags=self.lags,
            horizon=self.horizon,
            seasons=_seasons(values, step_s),
            calendar=tuple(
                name
                for name in CALENDAR
                if 2 * CYCLE_S[name] <= len(values) * step_s and step_s < CYCLE_S[name]
            ),
            mean=float(values.mean()),
            spread=(1.0,) * self.horizon,
            trees=Trees(base=0.0, features=(), thresholds=(), leaves=()),
        )
        origins = np.arange(min(model.needs, len(values) // 2), len(values) - self.horizon)
        if len(origins) > self.most_examples:
            origins = origins[np.linspace(0, len(origins) - 1, self.most_examples).round().astype(np.int64)]
        some = np.unique(np.minimum(GRID, self.horizon))
        reach = np.random.default_rng(self.seed).choice(some, len(origins))
        rows, level = model.rows(values, origins, reach, series.end_s, step_s)
        wanted = (values[origins + reach] - values[origins]) / level
        sizes = [float(np.abs(wanted[reach == each]).mean()) for each in some]
        spread = np.maximum(np.interp(np.arange(1, self.horizon + 1), some, sizes), 1e-9)
        trees = self._grow(rows, wanted / spread[reach - 1], count)
        return msgspec.structs.replace(model, spread=tuple(spread.tolist()), trees=trees)

    def _grow(self, rows: Floats, wanted: Floats, count: int | None) -> Trees:
        """``count`` trees; with None as many as improve the last fifth, which then is not learned."""
        first = len(rows) if count is not None else int(0.8 * len(rows))
        shares = np.linspace(0, 1, self.bins + 1)[1:-1]
        edges = [np.unique(np.quantile(column[:first], shares)) for column in rows.T]
        binned = np.stack(
            [np.searchsorted(cuts, column) for cuts, column in zip(edges, rows[:first].T, strict=True)]
        )
        base = float(np.median(wanted[:first]))
        predicted = np.full(len(rows), base)
        grown: list[_Tree] = []
        best, best_count = np.inf, 0
        for number in range(1, 1 + (self.trees if count is None else count)):
            left = wanted[:first] - predicted[:first]
            limit = float(np.quantile(np.abs(left), 0.9))
            tree = self._tree(binned, np.clip(left, -limit, limit), edges)
            grown.append(tree)
            predicted += tree.predict(rows)
            if count is None:
                error = float(np.abs(wanted[first:] - predicted[first:]).mean())
                if error < best:
                    best, best_count = error, number
                elif number - best_count >= PATIENCE:
                    break
        kept = grown if count is not None else grown[:best_count]
        return Trees(
            base=base,
            features=tuple(tuple(tree.features.tolist()) for tree in kept),
            thresholds=tuple(tuple(tree.thresholds.tolist()) for tree in kept),
            leaves=tuple(tuple(tree.leaves.tolist()) for tree in kept),
        )

    def _tree(self, binned: Ints, left: Floats, edges: list[Floats]) -> _Tree:
        """One tree, level by level. Each node splits where Σ sum²/count over its two parts grows most."""
        inputs, count = binned.shape
        bins = self.bins
        least = max(count // 500, 5)
        everyone = np.arange(count)
        place = np.zeros(count, dtype=np.int64)
        features: list[int] = []
        thresholds: list[float] = []
        for level in range(self.depth):
            nodes = 1 << level
            sums, counts = np.empty((nodes, inputs, bins)), np.empty((nodes, inputs, bins))
            first = place * bins
            for number in range(inputs):
                index = first + binned[number]
                sums[:, number] = np.bincount(index, left, minlength=nodes * bins).reshape(nodes, bins)
                counts[:, number] = np.bincount(index, minlength=nodes * bins).reshape(nodes, bins)
            np.cumsum(sums, axis=2, out=sums)
            np.cumsum(counts, axis=2, out=counts)
            low, low_count, all_, all_count = (
                sums[:, :, :-1],
                counts[:, :, :-1],
                sums[:, :, -1:],
                counts[:, :, -1:],
            )
            high, high_count = all_ - low, all_count - low_count
            gain = low**2 / np.maximum(low_count, 1) + high**2 / np.maximum(high_count, 1)
            gain -= all_**2 / np.maximum(all_count, 1)
            gain = np.where((low_count < least) | (high_count < least), 0.0, gain).reshape(nodes, -1)
            best = gain.argmax(axis=1)
            splits = gain[np.arange(nodes), best] > 1e-12
            feature, cut = np.divmod(best, bins - 1)
            cut = np.where(splits, cut, bins)
            features += feature.tolist()
            thresholds += [
                float(edges[f][c]) if c < len(edges[f]) else NEVER for f, c in zip(feature, cut, strict=True)
            ]
            place = 2 * place + (binned[feature[place], everyone] > cut[place])
        leaves = 1 << self.depth
        total, size = np.bincount(place, left, minlength=leaves), np.bincount(place, minlength=leaves)
        return _Tree(np.asarray(features), np.asarray(thresholds), self.rate * total / (size + 1.0))


class _Tree(NamedTuple):
    features: Ints
    thresholds: Floats
    leaves: Floats

    def predict(self, rows: Floats) -> Floats:
        place = np.zeros(len(rows), dtype=np.int64)
        everyone = np.arange(len(rows))
        for _ in range(len(self.leaves).bit_length() - 1):
            place = 2 * place + 1 + (rows[everyone, self.features[place]] > self.thresholds[place])
        return np.asarray(self.leaves[place - len(self.features)])


def _seasons(values: Floats, step_s: float) -> tuple[int, ...]:
    """Hour, day, week and a period found by autocorrelation, in steps, each after three cycles."""
    calendar = [round(each / step_s) for each in SEASONS_S if each >= 2 * step_s]
    known = [each for each in calendar if CYCLES * each <= len(values)]
    searched = values[-SEARCHED:]
    found = find_period(searched)
    if (
        found
        and CYCLES * found <= len(searched)
        and all(abs(found - each) > SAME * each for each in calendar)
    ):
        known.append(found)
    return tuple(known)


METHODS: Mapping[str, Callable[[int], Boosting]] = {"boosting": lambda seed: Boosting(seed=seed)}
