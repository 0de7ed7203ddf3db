"""The simulator as a Gymnasium environment, ``ebbflow/Scaling-v0``, for reinforcement learning.

A step is one decision of the loop: the agent chooses the number of nodes, then one cycle (``cycle_s``) passes. With c
the node-seconds held in the step, l the rows that became late in it, N the maximum of nodes, R all rows of the episode,
T its length, and K = T / cycle_s its steps,

    reward = − ( c / (N · cycle_s) + late_penalty · l · K / R )

so that the mean reward depends on the scores of the run alone:

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
from ebbflow.core.plural import counted
from ebbflow.core.ports import DEFAULT_LEAD_TIME_S
from ebbflow.core.slo import DEFAULT_SLO, Slo
from ebbflow.errors import InputError, UnknownNameError
from ebbflow.guards import default_guards
from ebbflow.runs.environment.episode import Episode, StepCost
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
"""What ``reset(options={"load": …})`` can change for one episode."""

Features = npt.NDArray[np.float32]


class ScalingEnv(gymnasium.Env[Features, np.int64]):
    """A pipeline under a load; the agent chooses the number of nodes.

    ``action="change"``: action a of 0 … 2·most_change requests a − most_change nodes more than the last plan.
    ``action="absolute"``: action a of 0 … max − min requests min + a nodes. The bounds guard clamps sizes to the
    limits; ``guarded`` adds the other default guards.

    With several loads, each episode draws one. ``scenario`` replaces all arguments that describe one (``pipeline`` …
    ``noise``). Each episode draws the seed of its scenario from the seed of ``reset``.

    >>> env = ScalingEnv(load="constant(300)", seconds=120.0, action="absolute")
    >>> features, info = env.reset(seed=1)
    >>> while True:
    ...     features, reward, terminated, truncated, info = env.step(np.int64(3))
    ...     if truncated:
    ...         break
    >>> info["scores"]["node_seconds"], info["scores"]["violation"], round(reward, 4)
    (480.0, 0.0, -0.25)
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012  as in the base class

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
            raise InputError(f"most_change is {most_change}; it must be 1 or more")
        if not late_penalty >= 0:
            raise InputError(f"late_penalty is {late_penalty:g}; it must be 0 or more")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise UnknownNameError("render mode", str(render_mode), self.metadata["render_modes"])
        loads = (load,) if isinstance(load, str) else tuple(load)
        if not loads:
            raise InputError("no load is given; pass one like constant(50)")
        self._engine_names: Mapping[str, str] = {"pipeline": pipeline, "engine": engine}
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
            raise InputError("an episode has one pipeline; remove the other tenants from the scenario")
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
        """Start an episode. ``options`` (``load``, ``pipeline``, ``engine``, ``seconds``) apply to this one only."""
        super().reset(seed=seed)
        scenario = self._draw_scenario(options or {})
        guards = default_guards() if self._guarded else None
        self._episode = Episode(scenario, guards=guards)
        self._observer = Observer(scenario)
        features = self._observer.features(0.0, self._episode.observation)
        return features, self._info(self._episode)

    def step(self, action: np.int64) -> tuple[Features, float, bool, bool, dict[str, Any]]:
        """Request nodes and advance one cycle. Episodes never terminate; they are truncated at the end of the load."""
        if self._episode is None or self._episode.over:
            raise gymnasium.error.ResetNeeded("the episode is over or was not started; call reset() first")
        if action not in self.action_space:
            raise gymnasium.error.InvalidAction(f"action {action!r} is not in {self.action_space}")
        episode = self._episode
        step = episode.step(self._nodes(episode, int(action)))
        features = self._observer.features(episode.time_s, episode.observation)
        info = self._info(episode) | {"node_seconds": step.node_seconds, "late_rows": step.late_rows}
        if episode.over:
            info["scores"] = self._scores(episode).to_json()
        return features, self._reward(episode, step), False, episode.over, info

    def render(self) -> str | None:
        """One line of text: time, load, backlog, freshness and nodes."""
        episode, now = self._episode, self._observer.measurements
        if self.render_mode != "ansi" or episode is None:
            return None
        bar = "#" * now.nodes_working + "." * max(0, now.nodes_requested - now.nodes_working)
        return (
            f"{format_duration(episode.time_s) or '0s':>9} {now.arrival_rate_per_s or 0.0:8.0f} rows/s "
            f"{now.queue_rows or 0.0:9.0f} waiting  fresh {now.freshness_s or 0.0:6.1f} s  "
            f"{counted(now.nodes_working, 'node'):>9} {bar}"
        )

    @property
    def scenario(self) -> Scenario:
        """The scenario of the episode, including its seed; before the first episode, the one it is drawn from."""
        return self._scenario if self._episode is None else self._episode.scenario

    @property
    def simulation(self) -> Simulation | None:
        """The finished run of the episode; None before its end."""
        return self._episode.simulation if self._episode is not None and self._episode.over else None

    def _draw_scenario(self, options: Mapping[str, Any]) -> Scenario:
        for name in options:
            if name not in OPTIONS:
                raise UnknownNameError("option of reset", name, OPTIONS)
        scenario = replace(self._scenario, seed=int(self.np_random.integers(2**31)))
        if len(self._loads) > 1:
            scenario = replace(scenario, load=self._loads[int(self.np_random.integers(len(self._loads)))])
        if "pipeline" in options or "engine" in options:
            names = {key: str(options.get(key, name)) for key, name in self._engine_names.items()}
            scenario = replace(scenario, engine=built_in_engine(**names, noise=self._noise))
        if "load" in options:
            scenario = replace(scenario, load=parse_load(str(options["load"])))
        return replace(scenario, seconds=float(options["seconds"])) if "seconds" in options else scenario

    def _nodes(self, episode: Episode, action: int) -> int:
        if self._most_change is None:
            return self._scenario.limits.min_nodes + action
        return episode.planned_nodes + action - self._most_change

    def _reward(self, episode: Episode, step: StepCost) -> float:
        scenario = episode.scenario
        cost = step.node_seconds / (scenario.limits.max_nodes * scenario.cycle_s)
        late = step.late_rows * scenario.duration_s / scenario.cycle_s / episode.rows if episode.rows else 0.0
        return -(cost + self._late_penalty * late)

    def _scores(self, episode: Episode) -> Scores:
        simulation, scenario = episode.simulation, replace(episode.scenario, seed=0)
        if self._oracle is None or self._oracle[0] != scenario:  # it depends on the load, not on the seed
            oracle = oracle_of(scenario, simulation.run)
            self._oracle = (scenario, None if oracle is None else oracle.node_seconds)
        return score(simulation.run, oracle_node_seconds=self._oracle[1])

    def _info(self, episode: Episode) -> dict[str, Any]:
        bound = () if episode.entry is None else episode.entry.decision.bound_by
        return {
            "time_s": episode.time_s,
            "planned_nodes": episode.planned_nodes,
            "bound_by": ", ".join(constraint.name for constraint in bound),
            **self._observer.measurements.to_json(),
        }


def feature_names() -> list[str]:
    """Names of the numbers in an observation, in order."""
    return [feature.name for feature in FEATURES]


if ENV_ID not in gymnasium.registry:
    gymnasium.register(id=ENV_ID, entry_point="ebbflow.runs.environment:ScalingEnv")
