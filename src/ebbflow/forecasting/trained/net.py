"""The small net of Pascal (§7) and Elysium (§5.1), trained by resilient back-propagation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Floats
from ebbflow.errors import InputError
from ebbflow.forecasting.trained.model import CYCLE_S, TrainingLoad, at_least, time_features

PASCAL = ("day", "weekday", "month", "hour")
ELYSIUM = ("weekday", "hour", "minute")

ETA_PLUS, ETA_MINUS = 1.2, 0.5
FIRST_STEP, LEAST_STEP, MOST_STEP = 0.1, 1e-6, 50.0

Singles = npt.NDArray[np.float32]
"""Training uses single precision: RPROP reads only the sign of a gradient."""


class Rprop:
    """Resilient back-propagation (Riedmiller & Braun, IEEE ICNN 1993), with weight backtracking.

    Each weight has a step size Δ of its own, which depends only on the sign of its gradient g = ∂E/∂w:

        g·g′ > 0:  Δ = min(1.2·Δ′, 50),    w −= sign(g)·Δ
        g·g′ < 0:  Δ = max(0.5·Δ′, 1e-6),  w takes back its last change, and g counts as 0 in the next step
        g·g′ = 0:  w −= sign(g)·Δ

    where ′ marks the step before; Δ starts at 0.1.

    >>> rule, weights = Rprop((1,)), np.array([1.0], dtype=np.float32)
    >>> for gradient in (2.0, 0.5, -0.5, -0.5):
    ...     weights = rule.step(weights, np.array([gradient], dtype=np.float32))
    ...     print(round(float(weights[0]), 3), round(float(rule.sizes[0]), 3))
    0.9 0.1
    0.78 0.12
    0.9 0.06
    0.96 0.06
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.sizes: Singles = np.full(shape, FIRST_STEP, dtype=np.float32)
        self._gradient: Singles = np.zeros(shape, dtype=np.float32)
        self._change: Singles = np.zeros(shape, dtype=np.float32)

    def step(self, weights: Singles, gradient: Singles) -> Singles:
        """The weights after one step."""
        product = gradient * self._gradient
        turned = product < 0
        factor = np.where(
            product > 0, np.float32(ETA_PLUS), np.where(turned, np.float32(ETA_MINUS), np.float32(1))
        )
        self.sizes = np.clip(self.sizes * factor, np.float32(LEAST_STEP), np.float32(MOST_STEP))
        self._change = np.where(turned, -self._change, -np.sign(gradient) * self.sizes)
        self._gradient = np.where(turned, np.float32(0), gradient)
        return weights + self._change


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """Min-max scaling to [0, 1]."""

    feature_low: tuple[float, ...]
    feature_span: tuple[float, ...]
    """0 for a time feature that is not used."""
    low: float
    span: float
    """One range for all loads, inputs and outputs: they are the same quantity."""

    def inputs(self, features: Floats, lags: Floats) -> Floats:
        """Scaled inputs, and a column of ones for the bias."""
        span = np.asarray(self.feature_span)
        scaled = (features - np.asarray(self.feature_low)) / np.where(span > 0, span, 1.0) * (span > 0)
        return np.concatenate((scaled, (lags - self.low) / self.span, np.ones((len(lags), 1))), axis=1)


class NetModel(msgspec.Struct, frozen=True, kw_only=True, dict=True, tag="net"):
    """A trained net: inputs → tanh → tanh."""

    features: tuple[str, ...]
    lags: int
    lag_steps: int
    epochs: int
    """Chosen by cross-validation."""
    scale: Scale
    hidden_weights: tuple[tuple[float, ...], ...]
    """One row per input, and one for the bias."""
    output_weights: tuple[tuple[float, ...], ...]

    @property
    def needs(self) -> int:
        """The steps of all lags."""
        return self.lags * self.lag_steps

    @cached_property
    def _weights(self) -> tuple[Floats, Floats]:
        return np.asarray(self.hidden_weights), np.asarray(self.output_weights)

    def ahead(self, recent: Floats, end_s: float, step_s: float, steps: int) -> Floats:
        """The next steps; after its last output the net continues from its own forecast."""
        values = at_least(recent[-self.needs :], self.needs)
        first, second = self._weights
        done = 0
        while done < steps:
            features = time_features(np.array([end_s + done * step_s]), self.features)
            lags = values[-self.needs :].reshape(1, self.lags, self.lag_steps).mean(axis=2)
            hidden = np.append(np.tanh(self.scale.inputs(features, lags) @ first)[0], 1.0)
            loads = np.tanh(hidden @ second) * self.scale.span + self.scale.low
            values = np.concatenate((values, loads))
            done += len(loads)
        return values[self.needs : self.needs + steps]


class Net(msgspec.Struct, frozen=True, kw_only=True, tag="net"):
    """Fits the net.

    Pascal (§7): 4 time features (day, day of the week, month, hour) and 10 lags → 24 tanh → 5 tanh, everything
    min-max scaled to [0, 1]. A lag is the mean load of an assessment period (5 minutes, ``lag_steps`` steps), an
    output the load of one of the next 5 steps. Elysium (§5.1): ``Net(features=ELYSIUM, lag_steps=1)``, 13 inputs.

    The number of epochs is chosen by ``folds``-fold cross-validation: the one with the least mean error on the
    folds left out. Folds are contiguous, because neighbouring steps are correlated. Then the net is trained for
    that many epochs on all examples. A time feature is used only once a whole cycle of it was observed: a net that
    saw a single morning takes it for the rule. Of a long series ``most_examples`` are used, evenly spread;
    ``most_work`` limits epochs × examples.
    """

    features: tuple[str, ...] = PASCAL
    lags: int = 10
    lag_steps: int = 5
    hidden: int = 24
    outputs: int = 5
    folds: int = 10
    epochs: int = 2000
    patience: int = 100
    """Epochs without improvement after which cross-validation stops."""
    most_examples: int = 1500
    most_work: int = 600_000
    seed: int = 0

    def __post_init__(self) -> None:
        unknown = [name for name in self.features if name not in CYCLE_S]
        if unknown:
            raise InputError(f"unknown time feature {unknown[0]!r}; choose from: {', '.join(CYCLE_S)}")
        if min(self.lags, self.lag_steps, self.hidden, self.outputs, self.epochs) < 1 or self.folds < 2:
            raise InputError(
                "lags, lag_steps, hidden, outputs and epochs must be at least 1, folds at least 2"
            )

    @property
    def least_steps(self) -> int:
        """Two examples in each fold."""
        return self.lags * self.lag_steps + self.outputs + 2 * self.folds

    def fit(self, series: TrainingLoad) -> NetModel:
        """Choose the number of epochs, then train."""
        return self._fit(series, None)

    def refit(self, series: TrainingLoad, model: NetModel) -> NetModel:
        """Train for as many epochs as ``model``."""
        return self._fit(series, model.epochs)

    def _fit(self, series: TrainingLoad, epochs: int | None) -> NetModel:
        features, lags, wanted = self._examples(series)
        observed_s = series.step_s * len(series)
        used = np.array([observed_s >= CYCLE_S[name] for name in self.features])
        low, high = float(min(lags.min(), wanted.min())), float(max(lags.max(), wanted.max()))
        scale = Scale(
            feature_low=tuple(features.min(axis=0).tolist()),
            feature_span=tuple((np.ptp(features, axis=0) * used).tolist()),
            low=low,
            span=high - low if high > low else 1.0,
        )
        inputs = scale.inputs(features, lags).astype(np.float32)
        targets = ((wanted - low) / scale.span).astype(np.float32)
        if epochs is None:
            held = np.zeros((self.folds, len(inputs)), dtype=bool)
            for fold, part in enumerate(np.array_split(np.arange(len(inputs)), self.folds)):
                held[fold, part] = True
            most = max(1, min(self.epochs, self.most_work // len(inputs)))
            epochs = max(1, int(np.argmin(self._train(inputs, targets, held, most)[2])))
        nothing = np.zeros((1, len(inputs)), dtype=bool)
        first, second, _ = self._train(inputs, targets, nothing, epochs)
        return NetModel(
            features=self.features,
            lags=self.lags,
            lag_steps=self.lag_steps,
            epochs=epochs,
            scale=scale,
            hidden_weights=tuple(map(tuple, first[0].tolist())),
            output_weights=tuple(map(tuple, second[0].tolist())),
        )

    def _examples(self, series: TrainingLoad) -> tuple[Floats, Floats, Floats]:
        """Time features, lags and outputs of the steps with enough values before and after them."""
        values, window = series.values, self.lags * self.lag_steps
        if len(values) < self.least_steps:
            raise InputError(f"the net needs at least {self.least_steps} steps, but got {len(values)}")
        rows = np.lib.stride_tricks.sliding_window_view(values, window + self.outputs)
        chosen = np.linspace(0, len(rows) - 1, min(len(rows), self.most_examples)).round().astype(np.int64)
        lags = rows[chosen, :window].reshape(len(chosen), self.lags, self.lag_steps).mean(axis=2)
        features = time_features(series.ends_s[chosen + window - 1], self.features)
        return features, lags, rows[chosen, window:]

    def _train(
        self, inputs: Singles, targets: Singles, held: npt.NDArray[np.bool_], epochs: int
    ) -> tuple[Singles, Singles, Floats]:
        """Train one net for each row of ``held``, without the examples marked in it, all nets at once.

        Returns the weights, and the mean square error on the marked examples after each epoch. With marked examples
        it stops when that error has not improved for ``patience`` epochs.
        """
        random = np.random.default_rng(self.seed)
        nets, width = len(held), inputs.shape[1]
        first = random.uniform(-1, 1, (width, self.hidden)) * np.sqrt(3 / width)
        second = random.uniform(-1, 1, (self.hidden + 1, self.outputs)) * np.sqrt(3 / (self.hidden + 1))
        w1: Singles = np.repeat(first[None].astype(np.float32), nets, axis=0)
        w2: Singles = np.repeat(second[None].astype(np.float32), nets, axis=0)
        rule1, rule2 = Rprop(w1.shape), Rprop(w2.shape)
        learned = (~held).astype(np.float32)[:, :, None]
        validated = bool(held.any())
        errors: list[float] = []
        for _ in range(epochs):
            missed, gradient1, gradient2 = gradients(inputs, targets, w1, w2, learned)
            if validated:
                errors.append(float(np.square(missed[held]).mean()))
                if len(errors) - int(np.argmin(errors)) > self.patience:
                    break
            w1, w2 = rule1.step(w1, gradient1), rule2.step(w2, gradient2)
        return w1, w2, np.asarray(errors)


def gradients(
    inputs: Singles, targets: Singles, w1: Singles, w2: Singles, learned: Singles
) -> tuple[Singles, Singles, Singles]:
    """What several nets miss, and the gradients of E = ½·Σ missed² over the examples where ``learned`` is 1.

    out = tanh([tanh(inputs·w1), 1]·w2); axes: net, example, unit.
    """
    hidden = np.tanh(inputs @ w1)
    out = np.tanh(hidden @ w2[:, :-1] + w2[:, -1:])
    missed = out - targets
    delta2 = missed * (1 - out * out) * learned
    delta1 = (delta2 @ w2[:, :-1].transpose(0, 2, 1)) * (1 - hidden * hidden)
    gradient2 = np.concatenate(
        (hidden.transpose(0, 2, 1) @ delta2, delta2.sum(axis=1, keepdims=True)), axis=1
    )
    return missed, inputs.T @ delta1, gradient2


METHODS: Mapping[str, Callable[[int], Net]] = {
    "net": lambda seed: Net(seed=seed),
    "elysium-net": lambda seed: Net(features=ELYSIUM, lag_steps=1, seed=seed),
}
