"""A trained table on a real Spark cluster on this machine, beside a model and Spark's legacy allocation.

The application, its executors and its rates are those of ``papers.elysium.on_spark``: four executors of one core that
hold about 110 rows/s each, a trigger of 5 s. The table is trained in the simulator for ten hours, on the learning loads
of the other studies: a state has no number of executors, so a table that was trained on 16 nodes serves four as well.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ebbflow.core.folders import replace_file, scratch_folder
from ebbflow.core.run import Run
from ebbflow.papers import SPARK
from ebbflow.papers.elysium.on_spark import run_application
from ebbflow.papers.elysium.run import RunCurves
from ebbflow.papers.learner.evaluation.contenders import Measured, Taught
from ebbflow.papers.learner.evaluation.run import MeanOfSeeds, StudyRow
from ebbflow.papers.rows import run_in_process
from ebbflow.strategies import make_strategy

STUDY = "on-spark"
NAME, LOAD, SECONDS = "sawtooth", "sawtooth(base=60, peak=320, period=5m)", 600.0
PASSES = 4
TRAINED, MODEL, LEGACY = "learner, trained", "capacity", "spark-legacy"
SETTINGS = (TRAINED, MODEL, LEGACY)


def trained_table(path: Path, seed: int = 1) -> None:
    """Train a table in the simulator and write it."""
    replace_file(path, Taught(strategy="learner", passes=PASSES).table(seed))


def run_selection(
    settings: Sequence[str] = SETTINGS, *, say: Callable[[str], None]
) -> tuple[list[StudyRow], Mapping[str, RunCurves]]:
    """Run each setting on Spark; returns a row and the curves of each."""
    parts, curves = dict[str, Measured](), dict[str, RunCurves]()
    with scratch_folder("learner") as folder:
        table = Path(folder) / "table.json"
        say(f"training a table for {PASSES * 5 // 2} simulated hours")
        trained_table(table)
        for setting in settings:
            say(f"{NAME} {setting} on Spark: {SECONDS:.0f} s after the cluster has started")
            expression = f"learner(table={table}, policy=greedy)" if setting == TRAINED else setting
            answer = run_in_process(__name__, LOAD, SECONDS, expression, name=f"{NAME} {setting}")
            parts[setting] = Measured(**answer["part"])
            curves[setting] = RunCurves.from_json(answer["curves"])
            say(
                f"{setting}: {answer['rows_out']:,} of {answer['rows_in']:,} rows done, {answer['rows_lost']} lost"
            )
    reference = parts.get(MODEL)
    return [
        StudyRow(
            study=STUDY,
            setting=setting,
            load=NAME,
            phase=part.phase,
            hours=part.hours,
            node_seconds=MeanOfSeeds.of([part.node_seconds]),
            violation=MeanOfSeeds.of([part.violation]),
            cost_ratio=None
            if reference is None
            else MeanOfSeeds.of(
                [part.node_seconds / part.hours / (reference.node_seconds / reference.hours)]
            ),
            reconfigurations=part.reconfigurations,
            seeds=1,
            target=SPARK,
        )
        for setting, part in parts.items()
    ], curves


def run_on_spark(load: str, seconds: float, expression: str) -> Run:
    """One run in real time, from one executor on."""
    run, _ = run_application(load, seconds, make_strategy(expression))
    return run


def main() -> None:
    """Run the load, seconds and strategy of the command line and print the result as one line of JSON."""
    load, seconds, expression = sys.argv[1:]
    run = run_on_spark(load, float(seconds), expression)
    part = Measured.of(run, NAME)
    arrived, done = float(run.arrived.values[-1]), float(run.processed.values[-1])
    answer = {
        "part": vars(part),
        "rows_in": round(arrived),
        "rows_out": round(done),
        "rows_lost": None if run.lost is None else round(float(run.lost.values[-1])),
        "curves": RunCurves.of({NAME: run}, {}).to_json(),
    }
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
