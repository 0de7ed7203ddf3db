"""The simulator as a Gymnasium environment, ``ebbflow/Scaling-v0``: learn to scale by trying.

A step is one decision of the loop. Before each, the agent says how many nodes there shall be; then one period
(``cycle_s``) passes. With c the node-seconds held in the step, l the rows that became late in it, N the most nodes,
R all rows of the episode, T its length, and K = T / cycle_s its steps,

    reward = − ( c / (N · cycle_s) + late_penalty · l · K / R )

so that the mean reward is made of the scores that every run here gets, and of nothing else:

    Σ reward / K = − ( (1 − nodes_saved) + late_penalty · violation )

Importing this module registers the environment with Gymnasium (the extra ``learning``), and so does
``gymnasium.make("ebbflow.runs.environment:ebbflow/Scaling-v0")``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ebbflow.core.duration import format_duration, parse_duration_s
from ebbflow.core.limits import Limits
from ebbflow.core.ports import DEFAULT_LEAD_TIME_S
from ebbflow.core.slo import DEFAULT_SLO, Slo
from ebbflow.errors import InputError, UnknownNameError
from ebbflow.guards import default_guards
from ebbflow.runs.environment.episode import Episode, Step
from ebbflow.runs.environment.features import FEATURES, HIGH, LOW, Observer
from ebbflow.runs.score import Scores, score
from ebbflow.runs.simulation import Simulation, oracle_of
from ebbflow.targets.simulator.nodes import NodeKind
from ebbflow.targets.simulator.scenario import MICRO_BATCH, Scenario, built_in_engine
from ebbflow.workloads.expression import parse_load

try:
    import gymnasium
except ImportError:
    raise ImportError(
        "ebbflow.runs.environment needs Gymnasium; install it with: pip install 'ebbflow[learning]'"
    ) from None

ENV_ID = "ebbflow/Scaling-v0"
CHANGE, ABSOLUTE = "change", "absolute"
OPTIONS = ("engine", "load", "pipeline", "seconds")
"""What may be another in one episode: ``reset(options={"load": …})``."""

Features = npt.NDArray[np.float32]


class ScalingEnv(gymnasium.Env[Features, np.int64]):
    """A pipeline on a load; the agent says how many nodes it has.

    ``action="change"``: action a of 0 … 2·most_change asks for a − most_change nodes more than were asked for last.
    ``action="absolute"``: action a of 0 … max − min asks for min + a nodes. Sizes outside of the limits are brought
    to the nearest allowed one by the guard that does it everywhere; ``guarded`` adds the other default guards.

    ``load`` may be several; each episode then draws one of them. ``scenario`` takes the place of all that describes
    one (``pipeline`` … ``noise``). The scenario's own seed is drawn anew in each episode, from the seed of ``reset``.

    >>> env = ScalingEnv(load="constant(300)", seconds=120.0, action="absolute")
    >>> features, info = env.reset(seed=1)
    >>> while True:
    ...     features, reward, terminated, truncated, info = env.step(np.int64(3))
    ...     if truncated:
    ...         break
    >>> info["scores"]["node_seconds"], info["scores"]["violation"], round(reward, 4)
    (480.0, 0.0, -0.25)
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012  as the base class has it

    def __init__(
        self,
        *,
        scenario: Scenario | None = None,
        pipeline: str = "top-words",
        engine: str = MICRO_BATCH,
        load: str | Sequence[str] = "sine(base=200, peak=1800, period=1h)",
        nodes: str = "1:16",
        slo: str = str(DEFAULT_SLO),
        lead_time: str = format_duration(DEFAULT_LEAD_TIME_S),
        seconds: float | None = None,
        cycle_s: float = 10.0,
        noise: float = 0.0,
        action: str = CHANGE,
        most_change: int = 4,
        late_penalty: float = 10.0,
        guarded: bool = False,
        render_mode: str | None = None,
    ) -> None:
        if action not in (CHANGE, ABSOLUTE):
            raise UnknownNameError("action", action, (CHANGE, ABSOLUTE))
        if most_change < 1:
            raise InputError(f"most_change={most_change} leaves nothing to choose; it must be 1 or more")
        if not late_penalty >= 0:
            raise InputError(f"late_penalty={late_penalty:g} rewards late rows; it must be 0 or more")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise UnknownNameError("render mode", str(render_mode), self.metadata["render_modes"])
        loads = (load,) if isinstance(load, str) else tuple(load)
        if not loads:
            raise InputError("no load is given; write one like constant(50)")
        self._words: Mapping[str, str] = {"pipeline": pipeline, "engine": engine}
        self._noise = noise
        self._loads = tuple(parse_load(each) for each in loads) if scenario is None else ()
        self._scenario = scenario or Scenario(
            engine=built_in_engine(pipeline, engine, noise=noise),
            load=self._loads[0],
            limits=Limits.parse(nodes),
            slo=Slo.parse(slo),
            nodes=NodeKind(lead_time_s=parse_duration_s(lead_time)),
            seconds=seconds,
            cycle_s=cycle_s,
        )
        if self._scenario.others:
            raise InputError("an episode has one pipeline; take the others out of the scenario")
        limits = self._scenario.limits
        self._most_change = most_change if action == CHANGE else None
        self._late_penalty = late_penalty
        self._guarded = guarded
        self.render_mode = render_mode
        sizes = limits.max_nodes - limits.min_nodes + 1
        self.action_space = gymnasium.spaces.Discrete(2 * most_change + 1 if action == CHANGE else sizes)
        self.observation_space = gymnasium.spaces.Box(LOW, HIGH, dtype=np.float32)
        self._episode: Episode | None = None
        self._observer = Observer(self._scenario)
        self._oracle: tuple[Scenario, float | None] | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Features, dict[str, Any]]:
        """A new episode. ``options`` holds for this one: ``load``, ``pipeline``, ``engine``, ``seconds``."""
        super().reset(seed=seed)
        scenario = self._drawn(options or {})
        guards = default_guards() if self._guarded else None
        self._episode = Episode(scenario, guards=guards)
        self._observer = Observer(scenario)
        features = self._observer.look(0.0, self._episode.seen)
        return features, self._info(self._episode)

    def step(self, action: np.int64) -> tuple[Features, float, bool, bool, dict[str, Any]]:
        """Ask for nodes, and let one period pass. It never ends by itself; it is cut off with the load."""
        if self._episode is None or self._episode.over:
            raise gymnasium.error.ResetNeeded("the episode is over, or none was begun; call reset() first")
        if action not in self.action_space:
            raise gymnasium.error.InvalidAction(f"action {action!r} is not one of {self.action_space}")
        episode = self._episode
        step = episode.step(self._nodes(episode, int(action)))
        features = self._observer.look(episode.time_s, episode.seen)
        info = self._info(episode) | {"node_seconds": step.node_seconds, "late_rows": step.late_rows}
        if episode.over:
            info["scores"] = self._scores(episode).to_json()
        return features, self._reward(episode, step), False, episode.over, info

    def render(self) -> str | None:
        """One line of text: when it is, how many nodes there are, how the rows fare."""
        episode, known = self._episode, self._observer.measured
        if self.render_mode != "ansi" or episode is None:
            return None
        bar = "#" * known.nodes_working + "." * max(0, known.nodes_requested - known.nodes_working)
        return (
            f"{format_duration(episode.time_s) or '0s':>9} {known.arrival_rate_per_s or 0.0:8.0f} rows/s "
            f"{known.queue_rows or 0.0:9.0f} waiting  fresh {known.freshness_s or 0.0:6.1f} s  "
            f"{known.nodes_working:3d} nodes {bar}"
        )

    @property
    def scenario(self) -> Scenario:
        """What the episode plays in, its seed included; before the first, what they are drawn from."""
        return self._scenario if self._episode is None else self._episode.scenario

    @property
    def simulation(self) -> Simulation | None:
        """The record of the episode once it is over, to be drawn or scored as any other run."""
        return self._episode.simulation if self._episode is not None and self._episode.over else None

    def _drawn(self, options: Mapping[str, Any]) -> Scenario:
        for name in options:
            if name not in OPTIONS:
                raise UnknownNameError("option of reset", name, OPTIONS)
        scenario = replace(self._scenario, seed=int(self.np_random.integers(2**31)))
        if len(self._loads) > 1:
            scenario = replace(scenario, load=self._loads[int(self.np_random.integers(len(self._loads)))])
        if "pipeline" in options or "engine" in options:
            words = {name: str(options.get(name, word)) for name, word in self._words.items()}
            scenario = replace(scenario, engine=built_in_engine(**words, noise=self._noise))
        if "load" in options:
            scenario = replace(scenario, load=parse_load(str(options["load"])))
        return replace(scenario, seconds=float(options["seconds"])) if "seconds" in options else scenario

    def _nodes(self, episode: Episode, action: int) -> int:
        if self._most_change is None:
            return self._scenario.limits.min_nodes + action
        return episode.planned_nodes + action - self._most_change

    def _reward(self, episode: Episode, step: Step) -> float:
        world = episode.scenario
        cost = step.node_seconds / (world.limits.max_nodes * world.cycle_s)
        late = step.late_rows * world.duration_s / world.cycle_s / episode.rows if episode.rows else 0.0
        return -(cost + self._late_penalty * late)

    def _scores(self, episode: Episode) -> Scores:
        simulation, world = episode.simulation, replace(episode.scenario, seed=0)
        if self._oracle is None or self._oracle[0] != world:  # it depends on the load and not on the seed
            oracle = oracle_of(world, simulation.run)
            self._oracle = (world, None if oracle is None else oracle.node_seconds)
        return score(simulation.run, oracle_node_seconds=self._oracle[1])

    def _info(self, episode: Episode) -> dict[str, Any]:
        bound = () if episode.entry is None else episode.entry.decision.bound_by
        return {
            "time_s": episode.time_s,
            "planned_nodes": episode.planned_nodes,
            "bound_by": ", ".join(constraint.name for constraint in bound),
            **self._observer.measured.to_json(),
        }


def feature_names() -> list[str]:
    """Names of the numbers in an observation, in their order."""
    return [feature.name for feature in FEATURES]


if ENV_ID not in gymnasium.registry:
    gymnasium.register(id=ENV_ID, entry_point="ebbflow.runs.environment:ScalingEnv")
