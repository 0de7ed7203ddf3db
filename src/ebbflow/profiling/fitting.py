"""Fits the model that predicts unseen samples best: cross-validation over simple models and a small net.

Elysium (§5.1) trains one net per operator: one hidden layer of 3 tanh neurons, 10-fold cross-validation. Here, the net
competes with simpler models on the same folds. A simpler model wins if it is as good within the standard error of the
difference, because it extrapolates better (Breiman et al., Classification and Regression Trees, 1984, §3.4.3: the
one-standard-error rule).

Errors are relative: |estimate − measured| / measured. So that the noise of an idle operator does not count, a measured
value counts as at least 5 % of the largest one and at least 1 % of a core (or of a node): no decision depends on less.
Least squares use the same weights.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Floats
from ebbflow.profiling.models import Knots, LinearCurve, Model, NetCurve, Proportional, fall
from ebbflow.profiling.profile import Fitted

FOLDS = 10
LEAST_SHARE = 0.05
"""Relative errors take measured values as at least this share of the largest one,"""
LEAST = 0.01
"""and as at least this share of a core or node."""
MOST_SAMPLES = 300
"""More are thinned out evenly: a net of 10 parameters learns nothing more from them."""
FEWEST_FOR_FREEDOM = 20
"""With fewer samples only straight lines are tried."""
MOST_KNOTS = 12
HIDDEN = 3
_SAME = 1e-6
"""Errors that differ by less are equal."""
_ALIKE = 1e-3
"""Inputs closer than this share of the largest are the same."""
_TELLING = 0.2
"""If all inputs lie within this share of the largest, they cannot show a fixed part of the output: a line would follow
the noise, and extrapolate badly."""

QUICK = ("proportional", "line", "knots")
"""Models that fit in milliseconds: for learning while a pipeline runs."""
ALL = (*QUICK, "net")


def fit(
    x: Sequence[float], y: Sequence[float], *, kinds: Sequence[str] = ALL, seed: int = 0
) -> Fitted | None:
    """The best model of y by x, both 0 or more, of some kinds; None if there is nothing to learn from.

    >>> x = [float(n) for n in range(1, 61)]
    >>> found = fit(x, [0.2 + 0.01 * n for n in x])
    >>> round(found.model.at(30.0), 9), found.low, found.high, found.error < 1e-9
    (0.5, 1.0, 60.0, True)
    """
    xs, ys = _thinned(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
    if not len(xs) or not ys.max() > 0 or not xs.max() > 0:
        return None
    fold_of = np.random.default_rng(seed).permutation(len(xs)) % FOLDS
    errors: dict[str, Floats] = {}
    tried: dict[str, float] = {}
    for kind in _worth_trying(xs, kinds):
        if kind == "net" and errors and not _may_win(own := _own_errors(_net, xs, ys), errors):
            tried[kind] = float(own.mean())
            continue
        errors[kind] = _held_out_errors(FITTERS[kind], xs, ys, fold_of)
        tried[kind] = float(errors[kind].mean())
    low, high = float(xs.min()), float(xs.max())
    winner = _winner(errors)
    model = FITTERS[winner](xs, ys, _weights(ys))
    if fall(model, low, high) is not None:  # a net that follows the noise: take the best of the others
        del errors[winner]
        if not errors:
            errors["knots"] = _held_out_errors(_knots, xs, ys, fold_of)
        winner = _winner(errors)
        model = FITTERS[winner](xs, ys, _weights(ys))
    return Fitted(
        model=model,
        low=low,
        high=high,
        slope=_slope(model, xs, ys),
        error=float(errors[winner].mean()),
        samples=len(x),
        tried=tried,
    )


def relative_errors(estimates: Floats, measured: Floats) -> Floats:
    """|estimate − measured| / measured of each sample (see the module docstring).

    >>> relative_errors(np.array([1.1, 0.2]), np.array([1.0, 0.0])).round(6).tolist()
    [0.1, 4.0]
    """
    return np.asarray(np.abs(estimates - measured) / np.maximum(measured, _least(measured)))


def _slope(model: Model, x: Floats, y: Floats) -> float:
    """The slope beyond the samples: that of a straight model, else of the line through all samples; if that is flat, in
    proportion."""
    straight = model if isinstance(model, Proportional | LinearCurve) else _line(x, y, _weights(y))
    return straight.per_unit or _proportional(x, y, _weights(y)).per_unit


def _least(measured: Floats) -> float:
    return max(LEAST_SHARE * float(measured.max()), LEAST)


# -- cross-validation ------------------------------------------------------------------------------


def _may_win(known: Floats, errors: dict[str, Floats]) -> bool:
    """Whether the training error of a model leaves it a chance to win: its held-out error is no better.

    A net takes ten times as long as all other models. Mostly the data are straight, and it need not run the folds.
    """
    best = errors[_winner(errors)]
    better = best - known
    return bool(better.mean() > better.std() / np.sqrt(len(better)))


def _own_errors(fitter: Fitter, x: Floats, y: Floats) -> Floats:
    model = fitter(x, y, _weights(y))
    return relative_errors(np.array([max(0.0, model.at(each)) for each in x.tolist()]), y)


def _held_out_errors(fitter: Fitter, x: Floats, y: Floats, fold_of: npt.NDArray[np.int64]) -> Floats:
    """The relative error at each sample, of a model fitted without its fold; 1 if there is only one sample."""
    if len(x) < 2:
        return np.ones(len(x))
    estimates = np.empty_like(y)
    for fold in np.unique(fold_of):
        held = fold_of == fold
        model = fitter(x[~held], y[~held], _weights(y[~held]))
        estimates[held] = [max(0.0, model.at(each)) for each in x[held].tolist()]
    return relative_errors(estimates, y)


def _winner(errors: dict[str, Floats]) -> str:
    """The simplest model that is not clearly worse than the best."""
    best = min(errors, key=lambda kind: float(errors[kind].mean()))
    for kind, error in errors.items():
        worse = error - errors[best]
        doubt = float(worse.std()) / np.sqrt(len(worse))
        if kind == best or float(worse.mean()) <= max(doubt, _SAME):
            return kind
    return best


def _worth_trying(x: Floats, kinds: Sequence[str]) -> list[str]:
    varied = float(np.ptp(x)) > _TELLING * float(x.max())
    if not varied or len(x) < 3:
        return ["proportional"]
    simple = len(x) < FEWEST_FOR_FREEDOM
    return [k for k in ALL if k in kinds and not (simple and k in ("knots", "net"))] or ["proportional"]


def _thinned(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    if len(x) <= MOST_SAMPLES:
        return x, y
    chosen = np.linspace(0, len(x) - 1, MOST_SAMPLES).round().astype(int)
    return x[chosen], y[chosen]


def _weights(y: Floats) -> Floats:
    """1 / y², for least squares of relative errors."""
    return np.asarray(1.0 / np.maximum(y, _least(y)) ** 2)


# -- kinds of models ---------------------------------------------------------------------------------


def _proportional(x: Floats, y: Floats, weights: Floats) -> Proportional:
    squares = float(np.sum(weights * x * x))
    return Proportional(per_unit=float(np.sum(weights * x * y)) / squares if squares > 0 else 0.0)


def _line(x: Floats, y: Floats, weights: Floats) -> LinearCurve:
    total = float(weights.sum())
    mean_x, mean_y = float(weights @ x) / total, float(weights @ y) / total
    spread = float(weights @ (x - mean_x) ** 2)
    if spread <= 1e-12 * total * max(mean_x * mean_x, 1e-12):
        return LinearCurve(fixed=0.0, per_unit=mean_y / mean_x if mean_x > 0 else 0.0)
    # More rows never cost less: if noise says so, the line is flat.
    slope = max(0.0, float(weights @ ((x - mean_x) * (y - mean_y))) / spread)
    return LinearCurve(fixed=mean_y - slope * mean_x, per_unit=slope)


def _knots(x: Floats, y: Floats, weights: Floats) -> Model:
    """Means of equal parts of the samples, made monotonic (isotonic regression), joined by lines up to both ends."""
    from scipy.optimize import isotonic_regression

    order = np.argsort(x, kind="stable")
    parts = [part for part in np.array_split(order, min(MOST_KNOTS, max(1, len(x) // 5))) if len(part)]
    heavy = np.array([weights[part].sum() for part in parts])
    mean_x = np.array([np.average(x[part], weights=weights[part]) for part in parts])
    mean_y = np.array([np.average(y[part], weights=weights[part]) for part in parts])
    rising = isotonic_regression(mean_y, weights=heavy).x
    apart = np.concatenate(([True], np.diff(mean_x) > _ALIKE * float(x.max())))
    knots_x, knots_y = mean_x[apart], rising[apart]
    if len(knots_x) < 2:
        return _line(x, y, weights)
    low, high = min(float(x.min()), float(knots_x[0])), max(float(x.max()), float(knots_x[-1]))
    points = [(low, _on_line(knots_x[:2], knots_y[:2], low))] if low < knots_x[0] else []
    points += zip(knots_x.tolist(), knots_y.tolist(), strict=True)
    points += [(high, _on_line(knots_x[-2:], knots_y[-2:], high))] if high > knots_x[-1] else []
    return Knots(x=tuple(p[0] for p in points), y=tuple(max(0.0, p[1]) for p in points))


def _on_line(x: Floats, y: Floats, at: float) -> float:
    return float(y[0] + (y[1] - y[0]) * (at - x[0]) / (x[1] - x[0]))


def _net(x: Floats, y: Floats, weights: Floats) -> Model:
    """Elysium's net, fitted with L-BFGS: its RPROP is for far more data than this."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor

    x_middle, x_scale = float(x.max() + x.min()) / 2, max(float(np.ptp(x)) / 2, 1e-12)
    y_middle, y_scale = float(y.max() + y.min()) / 2, max(float(np.ptp(y)) / 2, 1e-12)
    z, t = ((x - x_middle) / x_scale)[:, None], (y - y_middle) / y_scale
    net = MLPRegressor(
        hidden_layer_sizes=(HIDDEN,),
        activation="tanh",
        solver="lbfgs",
        alpha=1e-5,
        max_iter=100,
        random_state=1,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        net.fit(z, t, sample_weight=weights / weights.mean())
    return NetCurve(
        x_middle=x_middle, x_scale=x_scale, y_middle=y_middle, y_scale=y_scale,
        weights=tuple(net.coefs_[0][0].tolist()),
        shifts=tuple(net.intercepts_[0].tolist()),
        outputs=tuple(net.coefs_[1][:, 0].tolist()),
        output_shift=float(net.intercepts_[1][0]),
    )  # fmt: skip


Fitter = Callable[[Floats, Floats, Floats], Model]
FITTERS: dict[str, Fitter] = {
    "proportional": _proportional, "line": _line, "knots": _knots, "net": _net,
}  # fmt: skip
