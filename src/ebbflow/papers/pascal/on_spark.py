"""The sawtooth and the square on a real Spark cluster on this machine.

The application, its executors and its rates are those of ``papers.elysium.on_spark``: four executors of one core that
hold about 110 rows/s each. Loads are lower and shorter, with several periods, because nothing is learned before the
run: the forecaster starts with the first reading. Assessments take place every half minute.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence

from ebbflow.core.ports import Strategy
from ebbflow.core.run import Run
from ebbflow.errors import InputError
from ebbflow.papers import SPARK
from ebbflow.papers.elysium.on_spark import LIMITS, run_application
from ebbflow.papers.elysium.run import RunCurves
from ebbflow.papers.pascal.loads import PastAndPresent
from ebbflow.papers.pascal.published import SAWTOOTH, SQUARE, STATIC
from ebbflow.papers.pascal.run import FORECASTERS, Metrics, Result
from ebbflow.papers.rows import run_in_process
from ebbflow.strategies.proactive import Proactive
from ebbflow.strategies.static import Static

SHAPES: dict[str, tuple[str, float]] = {
    SAWTOOTH: ("sawtooth(base=60, peak=320, period=2m)", 480.0),
    SQUARE: ("square(base=60, peak=320, period=2m)", 480.0),
}
"""The load and the length of a run in seconds."""
ASSESSED_EVERY_S = 30.0
NOTE = "on Spark nothing is learned before the run, and loads are lower and shorter"


def spark_loads(loads: Sequence[PastAndPresent], *, named: bool) -> list[PastAndPresent]:
    """Those loads that also run on Spark. ``named``: whether another one is an error."""
    available = f"Spark runs {SAWTOOTH} and {SQUARE}"
    others = [load.name for load in loads if load.name not in SHAPES]
    found = [load for load in loads if load.name in SHAPES]
    if not found:
        raise InputError(f"{available}; select one of them")
    if named and others:
        raise InputError(f"{available}; leave {others[0]} out")
    return found


def run_selection(
    loads: Sequence[PastAndPresent], strategies: Sequence[str], *, say: Callable[[str], None]
) -> list[Result]:
    """Run each load under each strategy on Spark."""
    results = []
    for load in loads:
        text, seconds = SHAPES[load.name]
        for name in strategies:
            say(f"{load.name} {name} on Spark: {seconds:.0f} s after the cluster has started")
            answer = run_in_process(__name__, load.name, text, seconds, name, name=f"{load.name} {name}")
            results.append(
                Result(
                    load=load.name,
                    strategy=name,
                    metrics=Metrics(**answer["metrics"]),
                    runs=1,
                    target=SPARK,
                    note=NOTE,
                    curves=RunCurves.from_json(answer["curves"]),
                )
            )
    return results


def strategy_on_spark(name: str) -> Strategy:
    """The strategy of a row; nothing is known in advance."""
    if name == STATIC:
        return Static()
    return Proactive(forecaster=FORECASTERS[name], assess_s=ASSESSED_EVERY_S)


def run_on_spark(text: str, seconds: float, name: str) -> Run:
    """One run in real time: one executor at the start, all of them under ``static``."""
    nodes = LIMITS.max_nodes if name == STATIC else LIMITS.min_nodes
    run, _ = run_application(text, seconds, strategy_on_spark(name), initial_executors=nodes)
    return run


def main() -> None:
    """Run the load, seconds and strategy of the command line and print the result as one line of JSON."""
    load, text, seconds, name = sys.argv[1:]
    run = run_on_spark(text, float(seconds), name)
    curves = RunCurves.of({load: run}, {})
    sys.stdout.write(json.dumps({"metrics": vars(Metrics.of(run)), "curves": curves.to_json()}) + "\n")


if __name__ == "__main__":
    main()
