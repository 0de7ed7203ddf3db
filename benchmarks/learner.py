"""``learner``: the time of a decision, of loading a table of 10,000 states, and of 100 simulated hours of training.

`ebbflow bench learner` measures what training achieves.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from random import Random

from benchmarks.figures import Figure
from benchmarks.synthetic import snapshot
from ebbflow.core.readings import Windows
from ebbflow.papers.learner.evaluation.loads import LEARNING
from ebbflow.papers.learner.training import train
from ebbflow.runs.spec import Spec
from ebbflow.runs.sweep import SweepCase
from ebbflow.strategies.learner import Learner, table_file
from ebbflow.strategies.learner.q_table import QTable
from ebbflow.strategies.learner.state import Action, Direction, State
from ebbflow.workloads import parse_load

HOURS = 5
"""Of an episode: two agents with ten of them, and an evaluation that is not counted, are 100 hours."""


def measure() -> list[Figure]:
    return [
        Figure(what="decision of learner", value=decision_ms(), unit="ms", bar=1.0),
        Figure(what="loading a table of 10,000 states", value=loading_s(), unit="s", bar=0.5),
        Figure(what="training, 100 simulated hours", value=training_s(), unit="s", bar=300.0),
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


def training_s() -> float:
    """Seconds for 100 simulated hours on all cores, evaluations included."""
    cases = [
        SweepCase(load=name, scenario=Spec(seconds=f"{HOURS}h").scenario(parse_load(text)))
        for name, text in LEARNING.items()
    ]
    began = time.perf_counter()
    trained = train(cases, "learner", episodes=10, seeds=(1, 2))
    return (time.perf_counter() - began) * 360_000 / trained.simulated_s
