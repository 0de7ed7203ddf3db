"""How far off a profile is on a load that it was not learned from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Reading
from ebbflow.profiling.fitting import relative_errors
from ebbflow.profiling.profile import Fitted, Profile
from ebbflow.profiling.samples import WINDOW_S, Sample, Sampler


class Accuracy(msgspec.Struct, frozen=True, kw_only=True):
    """Mean relative errors of the estimates, as ``fitting`` counts them."""

    cpu: Mapping[str, float]
    """Of the CPU of an instance at its own input rate, by operator."""
    node: float | None
    """Of the CPU of a node; None where no node's was read."""
    outside: float
    """Share of the windows of operators that lay outside of the range of their profile."""

    @property
    def mean(self) -> float | None:
        """Over all operators; None without one."""
        return sum(self.cpu.values()) / len(self.cpu) if self.cpu else None

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {"cpu": dict(self.cpu), "mean": self.mean, "node": self.node, "outside": self.outside}


def accuracy(
    profile: Profile, pipeline: Pipeline, readings: Iterable[Reading], *, window_s: float = WINDOW_S
) -> Accuracy:
    """Compare a profile with what was read on another load."""
    sampler = Sampler(window_s=window_s)
    sampler.add(readings)
    seen = sampler.take(pipeline)
    judged = {
        name: (profile.cpu[name], samples)
        for name, samples in seen.cpu.items()
        if samples and name in profile.cpu
    }
    windows = [
        curve.low <= sample.x <= curve.high for curve, samples in judged.values() for sample in samples
    ]
    return Accuracy(
        cpu={name: _mean_error(curve, samples) for name, (curve, samples) in judged.items()},
        node=_mean_error(profile.node, seen.node) if seen.node else None,
        outside=1 - sum(windows) / len(windows) if windows else 0.0,
    )


def _mean_error(curve: Fitted, samples: Iterable[Sample]) -> float:
    pairs = [(curve.estimate(sample.x).value, sample.y) for sample in samples]
    estimates, measured = np.array(pairs).T
    return float(relative_errors(estimates, measured).mean())
