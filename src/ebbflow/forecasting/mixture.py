"""The default forecaster: a mixture of experts that is used only while it beats the last value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Floats
from ebbflow.core.duration import format_duration
from ebbflow.forecasting.bands import TRACKED, Bands
from ebbflow.forecasting.change import ChangeTest
from ebbflow.forecasting.correction import Correction
from ebbflow.forecasting.experts.analogues import Analogues
from ebbflow.forecasting.experts.autoregression import Autoregression
from ebbflow.forecasting.experts.damped_trend import DampedTrend
from ebbflow.forecasting.experts.expert import Expert
from ebbflow.forecasting.experts.jumps import Jumps
from ebbflow.forecasting.experts.last_value import LastValue
from ebbflow.forecasting.experts.outside import Outside
from ebbflow.forecasting.experts.seasonal_naive import SeasonalNaive, UsualPeriod
from ebbflow.forecasting.experts.smoothing import Smoothing
from ebbflow.forecasting.grid import GRID, Ints, between
from ebbflow.forecasting.history import History
from ebbflow.forecasting.made import Made
from ebbflow.forecasting.port import LEVELS, Forecast, Forecaster
from ebbflow.forecasting.weights import Weights

if TYPE_CHECKING:
    from ebbflow.forecasting.training import Trainer

Bools = npt.NDArray[np.bool_]

JUDGED = 50
"""Steps over which the mixture is compared with the last value."""
CAPPED = 10.0
"""An error counts at most this many times the last value's mean error, so that one burst does not decide."""
FITS = ((100.0, 1.0), (1000.0, 1.0), (1000.0, 10.0), (100_000.0, 20.0))
"""Memory in steps and ridge in samples of the autoregression."""
DOUBT = 0.3
SHOWN = 3


def default_experts(step_s: float) -> list[Expert]:
    """The experts of the default mixture. All learn at every step; nothing has to be trained."""
    return [
        Smoothing(0.7, 0.4, 0.2, 0.05),
        DampedTrend(1.0, 1.0, 0.8),
        SeasonalNaive(),
        UsualPeriod(),
        Autoregression(step_s, fits=FITS),
        Analogues(step_s),
        Jumps(),
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Mixed:
    """What was forecast at a step, one row per horizon of the grid."""

    experts: Floats
    parts: Floats
    """The two mixtures that are blended."""
    blend: Floats
    known: Floats
    """Input of the correction."""
    corrected: Floats
    """The blend, corrected."""
    used: Floats
    """The corrected blend, or the last value where that is better."""
    limits: Floats


class Mixture(Forecaster):
    """Weighs experts by their recent errors at each horizon, with conformal bands.

    At each step the forecasts made for it are compared with it, for each horizon of the grid (1 to 30 steps): the
    weights (``Weights``), the errors of the mixture and of the last value, and the bands (``Bands``) learn from that.
    Where the mixture's recent error is above the last value's, the last value is used, and ``basis`` says so.
    ``experts`` adds forecasters to the default ones, or replaces them.

    >>> mixture = Mixture(60.0)
    >>> for minute in range(1, 121):
    ...     mixture.learn(60.0 * minute, 100.0 + 50.0 * (minute % 10))  # a sawtooth
    >>> ahead = mixture.forecast(5)
    >>> ahead.at(0.5).round(-1).tolist()  # minute 120 was at 100
    [150.0, 200.0, 250.0, 300.0, 350.0]
    """

    name = "mixture"

    def __init__(
        self,
        step_s: float,
        extra: Sequence[Forecaster] = (),
        *,
        experts: Sequence[Expert] | None = None,
        judged: int = JUDGED,
    ) -> None:
        self._step_s = step_s
        own = default_experts(step_s) if experts is None else list(experts)
        self._experts: list[Expert] = [LastValue(), *own, *(Outside(each) for each in extra)]
        self._history = History(step_s)
        count, grid = len(self.names), len(GRID)
        self._weights = Weights(grid, count)
        self._correction = Correction()
        self._bands = Bands()
        self._judged = judged
        self._change = ChangeTest()
        self._changed: int | None = None
        self._seen = np.zeros(grid)
        self._usual = np.zeros(grid)
        """Mean absolute error of the last value; the next two are capped at ``CAPPED`` times this."""
        self._error = np.zeros(grid)
        self._last_error = np.zeros(grid)
        self._made = Made(
            _Mixed,
            experts=(count,),
            parts=(2,),
            blend=(),
            known=(),
            corrected=(),
            used=(),
            limits=(len(TRACKED),),
        )

    def learn(self, time_s: float, value: float) -> None:
        """Learn the mean load of the step that ends at ``time_s``."""
        history = self._history
        if not history.push(time_s, value):
            return
        if history.seen == 1:
            self._bands.start(value)
        else:
            self._judge(history.index, value)
        for expert in self._experts:
            expert.update(history)
        rows = self._ahead(GRID).T
        parts, mixed = self._weights.mix(rows), (self._weights.values * rows).sum(axis=1)
        corrected = np.maximum(mixed + self._correction.offsets(), 0.0)
        used = np.where(self.is_better, corrected, value)
        limits = self._bands.limits(used)
        made = _Mixed(
            experts=rows,
            parts=parts,
            blend=mixed,
            known=np.full(len(GRID), self._correction.last),
            corrected=corrected,
            used=used,
            limits=limits,
        )
        self._made.keep(history.index, made)

    def train_with(self, trainer: Trainer) -> None:
        """Train with this trainer from now on."""
        for expert in self._experts:
            expert.train_with(trainer)

    def forecast(self, steps: int, levels: Sequence[float] = LEVELS) -> Forecast | None:
        """Forecast the next steps; None before the first value."""
        history = self._history
        if not history.seen:
            return None
        horizons = np.arange(1, steps + 1)
        weights = between(self._weights.values, horizons)
        mixed = np.einsum("hk,kh->h", weights, self._ahead(horizons))
        corrected = np.maximum(mixed + between(self._correction.offsets(), horizons), 0.0)
        better = between(self.is_better.astype(np.float64), horizons) > 0.5
        points = np.where(better, corrected, history.values[-1])
        return Forecast(
            start_s=history.end_s,
            step_s=self._step_s,
            levels=tuple(levels),
            values=self._bands.at(np.asarray(levels, dtype=np.float64), points, horizons),
            basis=self._basis(weights, better, steps),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The experts, in the order of ``weights``."""
        return tuple(name for expert in self._experts for name in expert.names)

    @property
    def weights(self) -> Floats:
        """Weights of the experts: one row per horizon of the grid."""
        return self._weights.values

    @property
    def error_ratio(self) -> Floats:
        """Recent error of the mixture divided by that of the last value, for each horizon of the grid."""
        known = (self._last_error > 0) & (self._seen > 0)
        same = np.where(self._error > 0, np.inf, 1.0)
        return np.divide(self._error, self._last_error, out=same, where=known)

    @property
    def is_better(self) -> Bools:
        """Where the mixture beats the last value. With n errors known it has the benefit of a doubt of 0.3/√n."""
        doubt = DOUBT / np.sqrt(np.maximum(self._seen, 1.0))
        return np.asarray((self._seen > 0) & (self._error < self._last_error * (1.0 + doubt)))

    def _ahead(self, horizons: Ints) -> Floats:
        rows = [expert.ahead(self._history, horizons) for expert in self._experts]
        return np.asarray(np.maximum(np.vstack(rows), 0.0))

    def _judge(self, index: int, value: float) -> None:
        """Compare the step with what was forecast for it."""
        due = self._made.due(index)
        valid, made = due.valid, due.tables
        if valid[0] and self._change.add(float(value - made.used[0])):
            self._changed = index
        self._seen += valid
        share = valid * np.maximum(1.0 / self._judged, 1.0 / np.maximum(self._seen, 1.0))
        last_error = np.abs(value - made.experts[:, 0])
        self._usual += share * (last_error - self._usual)
        most = CAPPED * self._usual
        self._error += share * (np.minimum(np.abs(value - made.corrected), most) - self._error)
        self._last_error += share * (np.minimum(last_error, most) - self._last_error)
        self._weights.learn(value, made.parts, made.experts, self._usual, valid)
        self._correction.learn(value - made.blend, made.known, valid)
        self._bands.learn(value, made.used, made.limits, valid)

    def _basis(self, weights: Floats, better: Bools, steps: int) -> str:
        if not self._seen[0]:
            return "last value, because there is nothing to compare forecasts with yet"
        text = self._compared(weights, better, steps)
        if self._changed is not None and self._history.index - self._changed < self._judged:
            ago_s = (self._history.index - self._changed) * self._step_s
            text += f"; the load changed {format_duration(ago_s)} ago"
        return text

    def _compared(self, weights: Floats, better: Bools, steps: int) -> str:
        window = format_duration(min(float(self._seen[0]), self._judged) * self._step_s)
        ratio = between(np.minimum(self.error_ratio, 99.0), np.arange(1, steps + 1))
        if not better.any():
            compared = f"{ratio[0]:.2f} × that of the last value in the last {window}"
            return f"last value, because the mixture's error was {compared}"
        used = weights[better].mean(axis=0)
        best = np.argsort(-used)[:SHOWN]
        named = ", ".join(f"{self.names[k]} {used[k]:.0%}" for k in best)
        compared = f"{ratio[better].mean():.2f} × that of the last value in the last {window}"
        text = f"mixture ({named}); its error was {compared}"
        if not better.all():
            text += f"; last value for {int((~better).sum())} of {steps} steps, where it is better"
        return text
