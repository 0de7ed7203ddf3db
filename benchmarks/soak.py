"""An hour of the real loop on a real cluster: memory and CPU of the driver stay flat (``make soak``)."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

import psutil

from benchmarks.figures import Figure, show
from ebbflow.bench.live_run import LiveScenario, run_live
from ebbflow.control.loop import CycleReport


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    minutes = parser.parse_args().minutes
    process = psutil.Process()
    samples: list[tuple[float, float]] = []

    def sample(report: CycleReport) -> None:
        if report.observation is None:
            return
        now_s = report.observation.time_s
        if not samples or now_s - samples[-1][0] >= 30:
            samples.append((now_s, process.memory_info().rss / 1e6))
            print(
                f"  {(now_s - samples[0][0]) / 60:5.1f} min  {samples[-1][1]:.1f} MB",
                file=sys.stderr,
                flush=True,
            )

    before_mb = process.memory_info().rss / 1e6
    scenario = replace(LiveScenario(), seconds=minutes * 60, base_per_s=20.0, peak_per_s=80.0)
    run_live(scenario, "capacity", on_cycle=sample)
    third = samples[len(samples) // 3][1]
    figures = [
        Figure(
            what="memory added to the driver's Python", value=samples[-1][1] - before_mb, unit="MB", bar=100.0
        ),
        Figure(what="growth over the last two thirds", value=samples[-1][1] - third, unit="MB", bar=10.0),
    ]
    show(figures)
    return 0 if all(figure.ok for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
