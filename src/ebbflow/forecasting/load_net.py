"""Elysium's input load profiler (§3.2 ILP, §5.1): a small neural net that is used only if it beats the straight line.

    13 inputs (day of the week, hour, minute; the loads of the last 10 minutes) → 24 tanh → 5 outputs (next 5 minutes)

Inputs and outputs are scaled to [0, 1] by their range in the training part, the first 70 %. The weight penalty is
chosen there by 10-fold cross-validation. On the other 30 % the net is compared with the straight line by
|max of 5 predicted − max of 5 observed| ÷ mean, because decisions use the highest of the five; the better one predicts.
Training uses the newest two days. It starts when there is enough data, again when that has doubled, and then once a
day. Each prediction does at most one fit of it (0.1 s), so that the loop is never blocked.

Unlike in the paper, the output is linear and training uses L-BFGS (scikit-learn has neither a tanh output nor RPROP).
And minute, hour and weekday are inputs only once a whole cycle was observed, because a net that saw a single morning
takes it for the rule.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.errors import InputError
from ebbflow.forecasting.forecast import HORIZON_MINUTES, MINUTE_S, Loads
from ebbflow.forecasting.line import MOST_GROWTH, Naive
from ebbflow.forecasting.minutes import by_minute

LAGS = 10
HIDDEN = 24
TRAINING_SHARE = 0.7
FOLDS = 10
RESTRAINTS = (1e-3, 1e-1)
"""Weight penalties to choose from."""
ITERATIONS = 120
MOST_MINUTES = 2 * 24 * 60
"""Longest history for training in operation; a fit to more would take longer than a cycle may."""
MOST_WORK = ITERATIONS * 24 * 60
"""Largest product of iterations and minutes of a fit in operation."""
LONGEST_WAIT_S = 24 * 3600.0
"""Longest time until the net is trained again."""
DONE = object()
LEAST_MINUTES = 60
"""Shortest history; less leaves nothing to test on."""
CYCLES_MINUTES = (7 * 24 * 60, 24 * 60, 60)
"""Cycles of weekday, hour and minute."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """Result of a training."""

    minutes: int
    net_error: float
    """Error on the 30 % not used for training."""
    naive_error: float
    restraint: float

    @property
    def net_wins(self) -> bool:
        """Whether the net may predict."""
        return self.net_error < self.naive_error

    def __str__(self) -> str:
        return f"mean error {100 * self.net_error:.1f} %, the line's {100 * self.naive_error:.1f} %"


class LoadNet:
    """Predicts with the net if that was better in training, otherwise with the line; ``basis`` says which, and why.

    ``least``: minutes of loads before the first training. ``seed``: random seed of the initial weights.

    >>> net = LoadNet(least=80)
    >>> net.predict([(60.0 * k, 100.0) for k in range(40)], now_s=2400.0)
    [100.0, 100.0, 100.0, 100.0, 100.0]
    >>> net.basis
    'the line through the last minutes: 40 of the 80 minutes that the net needs'
    """

    def __init__(self, *, least: int = 150, seed: int = 0, naive: Naive | None = None) -> None:
        if least < LEAST_MINUTES:
            raise InputError(f"{least} minutes are too few to learn from; use at least {LEAST_MINUTES}")
        self._least, self._seed = least, seed
        self._naive = naive or Naive()
        self._steps: Iterator[None] | None = None
        """Remaining steps of a training."""
        self._trained_s: float | None = None
        self._wait_s = 0.0
        self._net: _Fit | None = None
        self.training: Training | None = None
        self.basis = "no prediction yet"

    def learn(self, loads: Loads) -> Training:
        """Train on a history now, as in a profiling phase."""
        minutes = by_minute(loads)
        if len(minutes) < LEAST_MINUTES:
            raise InputError(
                f"the net needs at least {LEAST_MINUTES} minutes of loads, but got {len(minutes)}"
            )
        self._begin(minutes, ITERATIONS)
        while self._steps is not None:
            self._step()
        assert self.training is not None
        return self.training

    def _begin(self, minutes: Loads, iterations: int) -> None:
        self._steps = self._train(minutes, iterations)
        self._trained_s = minutes[-1][0]
        self._wait_s = min(len(minutes) * MINUTE_S, LONGEST_WAIT_S)

    def _step(self) -> None:
        if self._steps is not None and next(self._steps, DONE) is DONE:
            self._steps = None

    def _train(self, minutes: Loads, iterations: int) -> Iterator[None]:
        """Train in steps of one fit each."""
        values = np.asarray([load for _, load in minutes])
        starts = np.asarray([time_s for time_s, _ in minutes])
        inputs, outputs = _examples(starts, values)
        first = math.ceil(TRAINING_SHARE * len(inputs))
        came = outputs[first:].max(axis=1)
        scale = max(float(came.mean()), 1e-9)
        yield
        line = [max(self._straight(minutes, first + k)) for k in range(len(came))]
        missed = dict.fromkeys(RESTRAINTS, 0.0)
        # Folds are contiguous, because neighbouring minutes are correlated.
        for fold in np.array_split(np.arange(first), min(FOLDS, first)):
            rest = np.setdiff1d(np.arange(first), fold)
            for restraint in RESTRAINTS:
                yield
                fit = _fit(inputs[rest], outputs[rest], restraint, self._seed, iterations)
                missed[restraint] += float(np.abs(fit.predict(inputs[fold]) - outputs[fold]).sum())
        restraint = min(RESTRAINTS, key=lambda each: missed[each])
        yield
        predicted = (
            _fit(inputs[:first], outputs[:first], restraint, self._seed, iterations)
            .predict(inputs[first:])
            .max(axis=1)
        )
        training = Training(
            minutes=len(minutes),
            net_error=float(np.abs(predicted - came).mean()) / scale,
            naive_error=float(np.abs(np.asarray(line) - came).mean()) / scale,
            restraint=restraint,
        )
        yield
        self._net = _fit(inputs, outputs, restraint, self._seed, iterations) if training.net_wins else None
        self.training = training

    def predict(self, loads: Loads, now_s: float) -> Sequence[float]:
        """Predict the next five minutes."""
        known = round((loads[-1][0] - loads[0][0]) / MINUTE_S) + 1 if loads else 0
        if known >= self._least and self._steps is None and self._is_due(loads[-1][0]):
            minutes = by_minute(loads[-MOST_MINUTES:])
            if len(minutes) >= LEAST_MINUTES:
                self._begin(minutes, min(ITERATIONS, MOST_WORK // len(minutes)))
        else:
            self._step()
        line = self._naive.basis
        if self._net is None:
            why = f"{known} of the {self._least} minutes that the net needs"
            self.basis = f"{line}: " + (
                why if self.training is None else f"the net did worse ({self.training})"
            )
            return self._naive.predict(loads, now_s)
        recent = by_minute(loads[bisect_left(loads, (now_s - (LAGS + 2) * MINUTE_S, -math.inf)) :])
        if len(recent) < LAGS:
            self.basis = f"{line}: {len(recent)} of the {LAGS} minutes before this one are known"
            return self._naive.predict(loads, now_s)
        self.basis = f"the net ({self.training})"
        starts, values = np.asarray([t for t, _ in recent]), np.asarray([load for _, load in recent])
        ahead: list[float] = self._net.predict(_inputs(starts, values, len(recent))[None, :])[0].tolist()
        return ahead

    def _is_due(self, now_s: float) -> bool:
        if self._trained_s is None:
            return True
        self._trained_s = min(self._trained_s, now_s)  # training data may be from another clock
        return now_s - self._trained_s >= self._wait_s

    def _straight(self, minutes: Loads, example: int) -> list[float]:
        """Prediction of the line for a training example."""
        known = example + LAGS
        return self._naive.predict(minutes[example:known], minutes[known - 1][0])


def _inputs(starts: Floats, values: Floats, known: int) -> Floats:
    """The 13 inputs for a prediction after the first ``known`` minutes."""
    minute = int(starts[known - 1] // MINUTE_S) + 1
    clock = (minute // (24 * 60) % 7, minute // 60 % 24, minute % 60)
    return np.concatenate((np.asarray(clock, dtype=np.float64), values[known - LAGS : known]))


def _examples(starts: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Inputs and outputs of every minute with 10 minutes before and 5 after it. Times whose cycle was not observed
    completely are 0."""
    last = len(values) - HORIZON_MINUTES
    inputs = np.stack([_inputs(starts, values, known) for known in range(LAGS, last + 1)])
    for column, cycle in enumerate(CYCLES_MINUTES):
        if len(values) < cycle:
            inputs[:, column] = 0.0
    outputs = np.stack([values[known : known + HORIZON_MINUTES] for known in range(LAGS, last + 1)])
    return inputs, outputs


@dataclass(frozen=True, eq=False)
class _Fit:
    """A trained net with its scaling."""

    net: Any
    least: Floats
    span: Floats
    used: Floats
    """1 for inputs that varied in training, otherwise 0."""
    least_load: float
    load_span: float

    def predict(self, inputs: Floats) -> Floats:
        scaled = (inputs - self.least) / self.span * self.used
        loads = self.net.predict(scaled) * self.load_span + self.least_load
        return np.asarray(np.clip(loads, 0.0, MOST_GROWTH * (self.least_load + self.load_span)))


def load_learner() -> None:
    """Import the training library ahead of time; it takes a second."""
    import sklearn.neural_network  # noqa: F401


def _fit(inputs: Floats, outputs: Floats, restraint: float, seed: int, iterations: int = ITERATIONS) -> _Fit:
    from sklearn.exceptions import ConvergenceWarning  # takes a second to import, and most runs never train
    from sklearn.neural_network import MLPRegressor
    from threadpoolctl import threadpool_limits

    least, most = inputs.min(axis=0), inputs.max(axis=0)
    used = (most > least).astype(np.float64)
    # One scale for all loads, inputs and outputs, so that the net need not learn that they are the same quantity.
    low, high = float(min(inputs[:, -LAGS:].min(), outputs.min())), float(outputs.max())
    load_span = max(high - low, 1e-9)
    least[-LAGS:], most[-LAGS:] = low, low + load_span
    span = np.where(most > least, most - least, 1.0)
    net = MLPRegressor(
        hidden_layer_sizes=(HIDDEN,), activation="tanh", solver="lbfgs", alpha=restraint, max_iter=iterations,
        random_state=seed,
    )  # fmt: skip
    # One thread: matrices this small gain nothing from more.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        net.fit((inputs - least) / span * used, (outputs - low) / load_span)
    return _Fit(net=net, least=least, span=span, used=used, least_load=low, load_span=load_span)
