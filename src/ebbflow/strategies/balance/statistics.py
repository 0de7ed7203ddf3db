"""Mean, variance, covariance and correlation of load series: equations 2 to 5 of DoDo (§6.2.2), with 1/k throughout.

A series is the last axis of an array, so that all operators of a cluster are computed at once.
"""

from __future__ import annotations

import numpy as np

from ebbflow.core.curve import Floats

_CONSTANT = 1e-12
"""A variance below this share of the mean square is rounding: the series is constant."""


def mean(series: Floats) -> Floats:
    """ES = 1/k · Σ sᵢ   (equation 2)

    >>> float(mean(np.array([1.0, 2.0, 6.0])))
    3.0
    """
    return np.asarray(np.mean(series, axis=-1))


def variance(series: Floats) -> Floats:
    """var S = 1/k · Σ sᵢ² − (1/k · Σ sᵢ)²   (equation 3)

    >>> round(float(variance(np.array([1.0, 2.0, 6.0]))), 6)  # 41/3 − 9
    4.666667
    """
    squares = mean(np.square(series))
    spread = squares - np.square(mean(series))
    return np.where(spread > _CONSTANT * squares, spread, 0.0)


def covariance(one: Floats, other: Floats) -> Floats:
    """cov(S₁, S₂) = 1/k · Σ s₁ᵢ·s₂ᵢ − (1/k · Σ s₁ᵢ)·(1/k · Σ s₂ᵢ)   (equation 4)

    >>> float(covariance(np.array([1.0, 2.0, 6.0]), np.array([3.0, 3.0, 0.0])))  # 9/3 − 3·2
    -3.0
    """
    return np.asarray(mean(one * other) - mean(one) * mean(other))


def correlation(one: Floats, other: Floats) -> Floats:
    """ρ = cov(S₁, S₂) / (√var S₁ · √var S₂)   (equation 5); 0 if one of them is constant, for which it is undefined.

    >>> round(float(correlation(np.array([1.0, 2.0, 6.0]), np.array([3.0, 3.0, 0.0]))), 4)  # −3 / √(14/3 · 2)
    -0.982
    >>> float(correlation(np.array([1.0, 2.0, 6.0]), np.array([5.0, 5.0, 5.0])))
    0.0
    """
    spread = np.sqrt(variance(one) * variance(other))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(spread > 0, covariance(one, other) / spread, 0.0)
