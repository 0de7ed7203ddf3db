"""PRESS: a repeating signature if the load has one, else a Markov chain (Gong, Gu & Wilkes, CNSM 2010)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import msgspec
import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.errors import InputError
from ebbflow.forecasting.load_periods import autocorrelation
from ebbflow.forecasting.trained.model import TrainingLoad


class SignatureModel(msgspec.Struct, frozen=True, kw_only=True, dict=True, tag="signature"):
    """The mean load at each step of the period. The first of them begins at ``start_s``.

    >>> model = SignatureModel(start_s=0.0, loads=(10.0, 20.0, 30.0))
    >>> model.ahead(np.array([7.0]), end_s=240.0, step_s=60.0, steps=4).tolist()
    [20.0, 30.0, 10.0, 20.0]
    """

    start_s: float
    loads: tuple[float, ...]

    @property
    def needs(self) -> int:
        """None of the recent values is used."""
        return 1

    @cached_property
    def _loads(self) -> Floats:
        return np.asarray(self.loads)

    def ahead(self, recent: Floats, end_s: float, step_s: float, steps: int) -> Floats:
        """The next steps of the signature."""
        del recent
        place = round((end_s - self.start_s) / step_s)
        return np.asarray(self._loads[(place + np.arange(steps)) % len(self.loads)])


class MarkovModel(msgspec.Struct, frozen=True, kw_only=True, dict=True, tag="markov"):
    """A discrete-time Markov chain over bins of the load: π·Pʰ after h steps, of which the mean is the forecast.

    >>> chain = MarkovModel(low=0.0, width=10.0, levels=(5.0, 15.0), chances=((0.5, 0.5), (1.0, 0.0)))
    >>> chain.ahead(np.array([3.0]), end_s=60.0, step_s=60.0, steps=2).tolist()  # 5/2 + 15/2; then 3·5/4 + 15/4
    [10.0, 7.5]
    """

    low: float
    width: float
    levels: tuple[float, ...]
    """Mean load in each bin."""
    chances: tuple[tuple[float, ...], ...]
    """P: the chance to go from the bin of the row to that of the column in one step."""

    @property
    def needs(self) -> int:
        """The last value."""
        return 1

    @cached_property
    def _arrays(self) -> tuple[Floats, Floats]:
        return np.asarray(self.levels), np.asarray(self.chances)

    def ahead(self, recent: Floats, end_s: float, step_s: float, steps: int) -> Floats:
        """Mean load after each step."""
        del end_s, step_s
        levels, chances = self._arrays
        state = np.zeros(len(levels))
        state[min(max(int((recent[-1] - self.low) / self.width), 0), len(levels) - 1)] = 1.0
        ahead = np.empty(steps)
        for step in range(steps):
            state = state @ chances
            ahead[step] = state @ levels
        return ahead


PressModel = SignatureModel | MarkovModel


class Press(msgspec.Struct, frozen=True, kw_only=True, tag="press"):
    """Fits PRESS.

    The period is that of the largest Fourier coefficient, refined to the lag near it with the highest
    autocorrelation. The newest ``most_windows`` windows of that length are compared. If each correlates with the
    next by at least ``similar`` and their means differ by at most ``mean_gap``, their average is the signature.
    Otherwise the load is cut into ``bins`` equal ranges, and the transitions between them are counted.
    """

    similar: float = 0.85
    mean_gap: float = 0.05
    bins: int = 40
    most_windows: int = 7

    def __post_init__(self) -> None:
        if self.bins < 2 or self.most_windows < 2:
            raise InputError("PRESS needs at least 2 bins and 2 windows")

    @property
    def least_steps(self) -> int:
        """A few transitions."""
        return 30

    def fit(self, series: TrainingLoad) -> PressModel:
        """The signature, or the chain."""
        return self._signature(series) or self._chain(series.values)

    def refit(self, series: TrainingLoad, model: PressModel) -> PressModel:
        """The same as ``fit``: nothing is chosen that could be kept."""
        del model
        return self.fit(series)

    def _signature(self, series: TrainingLoad) -> SignatureModel | None:
        values = series.values
        period = dominant_period(values)
        count = min(len(values) // period, self.most_windows) if period else 0
        if not period or count < 2:
            return None
        windows = values[len(values) - count * period :].reshape(count, period)
        means = windows.mean(axis=1)
        if (np.abs(np.diff(means)) > self.mean_gap * np.abs(means[1:])).any():
            return None
        if any(_correlation(windows[k], windows[k + 1]) < self.similar for k in range(count - 1)):
            return None
        return SignatureModel(
            start_s=series.end_s - period * series.step_s, loads=tuple(windows.mean(axis=0).tolist())
        )

    def _chain(self, values: Floats) -> MarkovModel:
        if len(values) < 2:
            raise InputError(f"a Markov chain needs at least 2 steps, but got {len(values)}")
        bins, low = self.bins, float(values.min())
        width = (float(values.max()) - low) / bins or 1.0
        places = np.minimum((values - low) / width, bins - 1).astype(np.int64)
        counts = np.bincount(places[:-1] * bins + places[1:], minlength=bins * bins).reshape(bins, bins)
        left = counts.sum(axis=1, keepdims=True)
        seen = np.bincount(places, minlength=bins)
        centres = low + width * (np.arange(bins) + 0.5)
        levels = np.where(
            seen > 0, np.bincount(places, values, minlength=bins) / np.maximum(seen, 1), centres
        )
        # A bin that the load was never seen to leave keeps it.
        chances = np.where(left > 0, counts / np.maximum(left, 1), np.eye(bins))
        return MarkovModel(
            low=low, width=width, levels=tuple(levels.tolist()), chances=tuple(map(tuple, chances.tolist()))
        )


def dominant_period(values: Floats) -> int | None:
    """The period of the strongest oscillation in steps; None for a load without one.

    >>> dominant_period(np.tile([1.0, 5.0, 9.0, 5.0], 20)), dominant_period(np.ones(50))
    (4, None)
    """
    count = len(values)
    correlation = autocorrelation(values)
    if count < 8 or not correlation.any():
        return None
    spectrum = np.abs(np.fft.rfft(values - values.mean()))
    spectrum[:2] = 0.0  # the mean, and an oscillation as long as the series
    peak = int(np.argmax(spectrum))
    first, last = max(int(count / (peak + 1)), 2), min(-(-count // (peak - 1)), count // 2)
    return first + int(np.argmax(correlation[first : last + 1])) if last >= first else None


def _correlation(one: Floats, other: Floats) -> float:
    spread = float(one.std() * other.std())
    return float(((one - one.mean()) * (other - other.mean())).mean()) / spread if spread > 0 else 0.0


METHODS: Mapping[str, Callable[[int], Press]] = {"press": lambda _seed: Press()}
