"""What the seed shows besides its table: thresholds, overheads, the estimator's accuracy (Figures 6 to 8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ebbflow.papers.elysium.accuracy import Accuracy, estimator_accuracy
from ebbflow.papers.elysium.kit import Kit, profiled
from ebbflow.papers.elysium.overheads import Overhead, reconfiguration_overheads
from ebbflow.papers.elysium.published import T1
from ebbflow.papers.elysium.thresholds import ThresholdStudy, study_thresholds


@dataclass(frozen=True, kw_only=True)
class Studies:
    """All of them."""

    accuracy: Accuracy
    overheads: Sequence[Overhead]
    thresholds: Sequence[ThresholdStudy]
    """cpu_max, core_max and core_min."""

    @classmethod
    def made(
        cls, kit: Kit, *, workers: int | None = None, on_trial: Callable[[], None] = lambda: None
    ) -> Studies:
        """With the profile of T1 in the kit, or one learned for it.

        ``on_trial`` is called after each run for a threshold, of which there are ``threshold_runs()``; the rest takes a
        second or two.
        """
        profile = kit.profiles.get(T1) or profiled(T1)
        with_profile = Kit(profiles={**kit.profiles, T1: profile}, forecasts=kit.forecasts)
        return cls(
            accuracy=estimator_accuracy(profile),
            overheads=reconfiguration_overheads(),
            thresholds=study_thresholds(with_profile, workers=workers, on_done=on_trial),
        )

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "accuracy": self.accuracy.to_json(),
            "overheads": [each.to_json() for each in self.overheads],
            "thresholds": {each.name: each.to_json() for each in self.thresholds},
        }
