"""``learner``: the time of a decision, of loading a table and of training; what training achieves; what the initialiser
and a teacher are worth.

Agents train on loads between 300 and 1,500 rows/s and are judged on others: the built-in shapes of the leaderboard
between 190 and 1,905 rows/s, with other seeds. ``python -m benchmarks.learner`` prints the runs behind the figures.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from benchmarks.figures import Figure
from benchmarks.synthetic import snapshot
from ebbflow.core.readings import Windows
from ebbflow.papers.learner.training import Training, train
from ebbflow.runs.loads import built_in_loads
from ebbflow.runs.score import score
from ebbflow.runs.simulation import run_simulation
from ebbflow.runs.spec import Spec
from ebbflow.runs.sweep import SweepCase
from ebbflow.strategies import make_strategy
from ebbflow.strategies.learner import Learner, table_file
from ebbflow.strategies.learner.q_table import QTable
from ebbflow.strategies.learner.state import Action, Direction, State
from ebbflow.workloads import parse_load

BETWEEN = "base=300, peak=1500"
TRAINING = {
    f"sine({BETWEEN}, period=90m)": "3h",
    f"square({BETWEEN}, period=3h)": "6h",
    f"stair({BETWEEN}, steps=4, hold=30m)": "2h",
    f"sawtooth({BETWEEN}, period=2h)": "4h",
    f"periodic({BETWEEN}, period=3h, peaks=3)": "3h",
}
"""Loads to train on, with the length of an episode: 18 hours together."""
EPISODES, SEEDS = 15, 2
"""Three times each load: 54 hours for each of two agents."""
JUDGED = {"sine": "4h", "square": "8h", "sawtooth": "6h", "stair": "7h", "bursts": "6h"}
"""Built-in loads to judge on, with the length of a run."""
PEAK_PER_S = 1905.0
FIRST_S = 7200.0
START_SEEDS = range(1, 11)


def measure() -> list[Figure]:
    took_s, trained = timed_training()
    figures = [
        Figure(what="decision of learner", value=decision_ms(), unit="ms", bar=1.0),
        Figure(what="loading a table of 10,000 states", value=loading_s(), unit="s", bar=0.5),
        Figure(
            what="training, 100 simulated hours",
            value=took_s * 360_000 / trained.simulated_s,
            unit="s",
            bar=300.0,
        ),
    ]
    rows = judged(trained.best.table)
    worst = max(rows, key=lambda row: row[2] / row[4])
    latest = max(rows, key=lambda row: row[3])
    late, taught_late = teachers(("capacity", "learner(teacher=capacity)"))
    starts = first_hours()
    return [
        *figures,
        Figure(
            what=f"trained, node-seconds ÷ capacity, highest ({worst[0]})",
            value=worst[2] / worst[4],
            unit="×",
            bar=1.15,
        ),
        Figure(what=f"trained, late rows, most ({latest[0]})", value=100 * latest[3], unit="%", bar=1.0),
        Figure(
            what="learning with a teacher, late rows ÷ the teacher's",
            value=taught_late / late if late else float(taught_late > 0),
            unit="×",
            bar=1.2,
        ),
        Figure(
            what="first two hours, late rows with optimal ÷ the better of zero and random",
            value=starts["optimal"] / min(starts["zero"], starts["random"]),
            unit="×",
            bar=1.0,
        ),
    ]


def decision_ms() -> float:
    agent, windows, took = Learner(), Windows(), []
    for number in range(1, 400):
        seen = snapshot(2 * number, stages=10, nodes=8, windows=windows, max_nodes=20)
        began = time.perf_counter()
        agent.decide(seen)
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took[5:])


def loading_s(states: int = 10_000) -> float:
    rng, agent = Random(1), Learner(incomingMessageGranularity=10.0)
    table = QTable(lambda _: (rng.uniform(-1, 1), rng.uniform(-1, 1), rng.uniform(-1, 1)))
    for number in range(states):
        entry = table[State(number % 50, Direction.RISING, number // 50)]
        for action in Action:
            for after in range(4):
                entry.count(action, rng.random(), State(after, Direction.FALLING, after))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.json"
        path.write_text(table_file.to_text(table, agent._space, agent._parameters, 1))
        began = time.perf_counter()
        Learner(incomingMessageGranularity=10.0, table=path)
        return time.perf_counter() - began


def timed_training() -> tuple[float, Training]:
    cases = [
        SweepCase(load=text, scenario=Spec(seconds=length).scenario(parse_load(text)))
        for text, length in TRAINING.items()
    ]
    began = time.perf_counter()
    trained = train(cases, "learner", episodes=EPISODES, seeds=range(1, SEEDS + 1))
    return time.perf_counter() - began, trained


def judged(table: str) -> list[tuple[str, int, float, float, float, float]]:
    """Load, seed, node-seconds and late rows of the trained agent, then those of capacity."""
    rows = []
    for name, seed in ((name, seed) for name in JUDGED for seed in (101, 102)):
        agent = Learner(policy="greedy")
        agent.restore(table)
        cost, late = run(name, agent, seed)
        rows.append((name, seed, cost, late, *run(name, make_strategy("capacity"), seed)))
    return rows


def teachers(strategies: Sequence[str]) -> list[float]:
    """Mean share of late rows on the judged loads, for each strategy."""
    return [
        statistics.mean(run(name, make_strategy(strategy), 103)[1] for name in JUDGED)
        for strategy in strategies
    ]


def first_hours() -> dict[str, float]:
    """Mean share of late rows of untrained agents in their first two hours, by initialiser."""
    return {
        mode: statistics.mean(
            run(name, Learner(initializationMode=mode, seed=seed), seed, FIRST_S)[1]
            for seed in START_SEEDS
            for name in ("sine", "sawtooth")
        )
        for mode in ("optimal", "zero", "random")
    }


def run(name: str, strategy: object, seed: int, seconds: float | None = None) -> tuple[float, float]:
    """Node-seconds and share of late rows on a built-in load."""
    load = next(each.load for each in built_in_loads(PEAK_PER_S) if each.name == name)
    scenario = replace(Spec(seconds=JUDGED[name], seed=seed).scenario(load))
    if seconds is not None:
        scenario = replace(scenario, seconds=seconds)
    scores = score(run_simulation(scenario, strategy).run, oracle_node_seconds=None)  # type: ignore[arg-type]
    return scores.node_seconds or 0.0, scores.violation or 0.0


def main() -> int:
    """Print the tables."""
    took_s, trained = timed_training()
    print(f"{trained.simulated_s / 3600:.0f} simulated hours of training in {took_s:.0f} s\n")
    print(
        "| load | seed | learner, node-s | late | capacity, node-s | late | cost ÷ |\n|---|---|---|---|---|---|---|"
    )
    for name, seed, cost, late, other, other_late in judged(trained.best.table):
        print(
            f"| {name} | {seed} | {cost:,.0f} | {late:.2%} | {other:,.0f} | {other_late:.2%} | {cost / other:.2f} |"
        )
    print("\n| load | capacity, late | learner with capacity as its teacher, late |\n|---|---|---|")
    for name in JUDGED:
        alone, taught = (
            run(name, make_strategy(s), 103)[1] for s in ("capacity", "learner(teacher=capacity)")
        )
        print(f"| {name} | {alone:.2%} | {taught:.2%} |")
    print("\n| initialiser | late rows in the first two hours |\n|---|---|")
    for mode, late in first_hours().items():
        print(f"| {mode} | {late:.2%} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
