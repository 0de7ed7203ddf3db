"""Estimators: the questions that a strategy asks of a profile (Elysium §3.2, Figure 4), and how accurate the answers
are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Reading
from ebbflow.errors import InputError, ProfileError, UnknownNameError
from ebbflow.profiling.fitting import relative_errors
from ebbflow.profiling.profile import SIMULATOR, Estimate, Fitted, Profile
from ebbflow.profiling.samples import WINDOW_S, Sampler, WindowSample

if TYPE_CHECKING:
    from ebbflow.core.placement import Placement
    from ebbflow.forecasting.port import Forecaster

UNKNOWN = Estimate(value=0.0, error=1.0, inside=False)
"""For an operator whose CPU was not measured: it is fused with one that was, or costs next to nothing."""


class Estimator:
    """Predicts rates and CPU of an application for any layout.

    >>> from ebbflow.profiling.models import Proportional
    >>> from ebbflow.profiling.profile import CpuProfile, NodeProfile, Spread
    >>> cpu = CpuProfile(model=Proportional(per_unit=0.002), low=10.0, high=400.0, slope=0.002, error=0.01, samples=90)
    >>> profile = Profile(pipeline="words", cpu={"read": cpu, "split": cpu}, node=NodeProfile.assumed(cores=4),
    ...                   selectivity={("read", "split"): Spread(mean=3.0)})
    >>> ask = Estimator(Pipeline.chain("words", "read", "split"), profile)
    >>> rates = ask.input_rates({"read": 100.0})
    >>> rates, round(ask.instance_cpu("split", rates["split"] / 2).value, 3)
    ({'read': 100.0, 'split': 300.0}, 0.3)
    >>> nodes = ask.node_cpu(((1, 0), (1, 1)), rates, {"read": 1, "split": 2})
    >>> [round(node.value, 3) for node in nodes]  # (0.2 + 0.3) / 4, 0.3 / 4
    [0.125, 0.075]
    """

    def __init__(self, pipeline: Pipeline, profile: Profile, *, forecaster: Forecaster | None = None) -> None:
        self.pipeline, self.profile = pipeline, profile
        self.forecaster = forecaster
        learned = profile.selectivity
        self._streams: dict[str, list[tuple[str, float]]] = {name: [] for name in pipeline.order}
        for stream in pipeline.streams:
            known = learned.get((stream.source, stream.target))
            selectivity = stream.selectivity if known is None else known.mean
            self._streams[stream.source].append((stream.target, selectivity))
        self._from_source = {
            name: learned[pipeline.name, name].mean if (pipeline.name, name) in learned else 1.0
            for name in pipeline.sources
        }

    def input_rates(self, source_rates: Mapping[str, float]) -> dict[str, float]:
        """Question 1: rows/s into each operator, from the graph and the learned selectivities.

        ``source_rates``: by source operator, or by the name of the pipeline for all of its sources.
        """
        for name, rate in source_rates.items():
            if name != self.pipeline.name and name not in self._from_source:
                raise UnknownNameError("source", name, (self.pipeline.name, *self._from_source))
            _check_rate(rate, name)
        everywhere = source_rates.get(self.pipeline.name, 0.0)
        rates = dict.fromkeys(self.pipeline.order, 0.0)
        for name, share in self._from_source.items():
            rates[name] = float(source_rates.get(name, everywhere * share))
        for name in self.pipeline.order:
            for target, selectivity in self._streams[name]:
                rates[target] += rates[name] * selectivity
        return rates

    def instance_cpu(self, operator: str, rate_per_s: float) -> Estimate:
        """Question 2: cores that one instance of an operator uses at its own input rate."""
        _check_rate(rate_per_s, operator)
        profile = self.profile.cpu.get(operator)
        return UNKNOWN if profile is None else profile.estimate(rate_per_s)

    def node_cpu(
        self, placement: Placement, rates: Mapping[str, float], parallelism: Mapping[str, int]
    ) -> tuple[Estimate, ...]:
        """Question 3: share of its cores that each node uses, for a placement of the instances.

        ``placement``: a row for each operator in the order of the pipeline. ``rates``: of whole operators.
        """
        cores = [
            self.instance_cpu(name, rates.get(name, 0.0) / max(1, parallelism.get(name, 1)))
            for name in self.pipeline.order
        ]
        on_nodes = np.asarray(placement, dtype=np.float64)
        if on_nodes.ndim != 2 or len(on_nodes) != len(cores):
            raise InputError(
                f"the placement has {len(on_nodes)} rows, but {self.pipeline.name} has {len(cores)} operators; "
                "each needs a row with its instances on every node"
            )
        sums, which = np.unique(np.asarray([each.value for each in cores]) @ on_nodes, return_inverse=True)
        inside = all(each.inside for each in cores if each is not UNKNOWN)
        kinds = []
        for total in sums.tolist():
            found = self.profile.node.estimate(total)
            kinds.append(found if inside else Estimate(value=found.value, error=found.error, inside=False))
        return tuple([kinds[kind] for kind in which.tolist()])


def _check_rate(rate_per_s: float, name: str) -> None:
    if not 0 <= rate_per_s < math.inf:
        raise InputError(f"{rate_per_s:g} rows/s into {name}; a rate is a number of 0 or more")


# -- estimators for given profiles -----------------------------------------------------------------------


def read_profiles(files: Iterable[str | Path]) -> dict[str, Profile]:
    """Profiles by file name."""
    return {str(file): Profile.read(Path(file)) for file in files}


def estimators_for(
    profiles: Mapping[str, Profile], pipelines: Sequence[Pipeline], *, in_batches: bool
) -> dict[str, Estimator]:
    """Estimators by pipeline, for known pipelines. An error names the file that does not fit.

    Profiles need the costs of batches if the engine runs batches, else the CPU of every operator.
    """
    _check_unique(profiles)
    by_name = {pipeline.name: pipeline for pipeline in pipelines}
    found = {}
    for file, profile in profiles.items():
        pipeline = by_name.get(profile.pipeline)
        if pipeline is None:
            raise ProfileError(
                f"{file} is a profile of '{profile.pipeline}', not of {' or '.join(map(repr, by_name))}; "
                f"learn one with `ebbflow profile --pipeline {pipelines[0].name}`"
            )
        _check_operators(file, profile, pipeline)
        if in_batches and (profile.costs is None or not profile.costs.stages):
            raise ProfileError(
                f"{file} has no costs of batches, which the micro-batch engine needs; learn one with "
                "`ebbflow profile --engine micro-batch`, or simulate with --engine continuous"
            )
        if not in_batches and (unknown := [name for name in pipeline.order if name not in profile.cpu]):
            raise ProfileError(
                f"{file} has no CPU of operator '{unknown[0]}', which the continuous engine needs; "
                "learn one with `ebbflow profile --engine continuous`"
            )
        found[pipeline.name] = Estimator(pipeline, profile)
    return found


def estimators_on_spark(profiles: Mapping[str, Profile]) -> dict[str, Estimator]:
    """Estimators by query, with the operators of the profile: those of the job are known only once it runs."""
    _check_unique(profiles)
    for file, profile in profiles.items():
        if profile.target == SIMULATOR:
            raise ProfileError(
                f"{file} was learned in the simulator, where rows cost something else than on Spark; learn one with "
                "`ebbflow profile --target spark`, or from the store of a run with `ebbflow profile --store`"
            )
    return {profile.pipeline: Estimator(profile.graph, profile) for profile in profiles.values()}


def _check_unique(profiles: Mapping[str, Profile]) -> None:
    files: dict[str, str] = {}
    for file, profile in profiles.items():
        if profile.pipeline in files:
            raise ProfileError(
                f"{files[profile.pipeline]} and {file} are both profiles of '{profile.pipeline}'; give only one of them"
            )
        files[profile.pipeline] = file


def _check_operators(file: str, profile: Profile, pipeline: Pipeline) -> None:
    for name in profile.graph.order:
        if name not in pipeline.order:
            raise ProfileError(
                f"{file} has operator '{name}', which pipeline {pipeline.name} does not have "
                f"({', '.join(pipeline.order)}); learn one with `ebbflow profile --pipeline {pipeline.name}`"
            )


# -- accuracy --------------------------------------------------------------------------------------------


class ProfileAccuracy(msgspec.Struct, frozen=True, kw_only=True):
    """Mean relative errors of a profile on a load that it was not learned from (see ``fitting``)."""

    cpu: Mapping[str, float]
    """Error of the CPU of an instance at its own input rate, by operator."""
    node: float | None
    """Error of the CPU of a node; None if none was read."""
    outside: float
    """Share of the operators' windows outside the range of their profile."""

    @property
    def mean(self) -> float | None:
        """Mean error of all operators; None without one."""
        return sum(self.cpu.values()) / len(self.cpu) if self.cpu else None

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {"cpu": dict(self.cpu), "mean": self.mean, "node": self.node, "outside": self.outside}


def accuracy(
    profile: Profile, pipeline: Pipeline, readings: Iterable[Reading], *, window_s: float = WINDOW_S
) -> ProfileAccuracy:
    """Compare a profile with the readings of another load."""
    sampler = Sampler(window_s=window_s)
    sampler.add(readings)
    observed = sampler.take(pipeline)
    compared = {
        name: (profile.cpu[name], samples)
        for name, samples in observed.cpu.items()
        if samples and name in profile.cpu
    }
    windows = [
        curve.low <= sample.x <= curve.high for curve, samples in compared.values() for sample in samples
    ]
    return ProfileAccuracy(
        cpu={name: _mean_error(curve, samples) for name, (curve, samples) in compared.items()},
        node=_mean_error(profile.node, observed.node) if observed.node else None,
        outside=1 - sum(windows) / len(windows) if windows else 0.0,
    )


def _mean_error(curve: Fitted, samples: Iterable[WindowSample]) -> float:
    pairs = [(curve.estimate(sample.x).value, sample.y) for sample in samples]
    estimates, measured = np.array(pairs).T
    return float(relative_errors(estimates, measured).mean())
