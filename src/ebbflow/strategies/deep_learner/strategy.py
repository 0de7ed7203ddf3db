"""``deep-learner``: nodes by a small neural network, trained by DQN or PPO.

Every cycle the agent sees ten measurements (``features``) and chooses a change of −2, −1, 0, +1, +2 or +4 nodes. Its
reward is

    r = − planned / max nodes − late_price · clip(freshness / SLO − 0.8, 0, 1) − change_price, if the size was changed

The networks are the modern comparison to the table of ``learner``, trained with the same budget of steps:
`ebbflow learner train --strategy 'deep-learner(agent=ppo)'`. They run on numpy alone, so training and running need no
further library (``network`` says why).

**Safety** is that of the learner: guards restrain what it proposes, and without data it holds. It explores and learns
only with ``policy=explore``. While rows are later than the SLO allows it does neither explore nor decide: the largest
step out is taken, in training as well. An agent that knows nothing yet would never find its way out of a backlog.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.core.decision import Decision, hold, want
from ebbflow.core.parameters import Choice, File, Number, Whole
from ebbflow.core.ports import Strategy
from ebbflow.core.snapshot import Snapshot
from ebbflow.errors import InputError
from ebbflow.strategies.deep_learner import weights_file
from ebbflow.strategies.deep_learner.agents import AGENTS, DeepAgent, Transition
from ebbflow.strategies.deep_learner.features import FEATURES, FeatureReader
from ebbflow.strategies.deep_learner.network import Network
from ebbflow.strategies.deep_learner.weights_file import StoredWeights

FORMULA = "n' = n + argmax over changes of the network's output"
CHANGES = (-2, -1, 0, 1, 2, 4)
MARGIN = 0.8
"""Share of the SLO from which on waiting costs."""
GREEDY, EXPLORE = "greedy", "explore"


class DeepLearner(Strategy):
    """A deep agent. The module docstring has its features, actions and rewards."""

    name = "deep-learner"

    def __init__(
        self,
        *,
        agent: Annotated[str, Choice("Algorithm.", tuple(AGENTS))] = "ppo",
        weights: Annotated[
            Path | None,
            File(
                "Weights to use. With policy=explore, on Spark they are also kept there.",
                unset="those that come with Ebbflow; with policy=explore random ones",
            ),
        ] = None,
        policy: Annotated[str, Choice("Whether to explore and learn.", (GREEDY, EXPLORE))] = GREEDY,
        late_price: Annotated[
            float, Number("Weight of rows that wait too long in the reward; learning only.", at_least=0)
        ] = 5.0,
        change_price: Annotated[
            float, Number("Cost of a change of size in the reward; learning only.", at_least=0)
        ] = 0.05,
        seed: Annotated[int, Whole("Seed of weights and exploration.", at_least=0)] = 1,
    ) -> None:
        self._kind, self._learns = agent, policy == EXPLORE
        self._late_price, self._change_price = late_price, change_price
        self._rng = np.random.default_rng(seed)
        self._file = None if weights is None else Path(weights)
        self._reader = FeatureReader()
        self._last: tuple[Floats, int, int] | None = None
        """Features, action chosen and nodes planned of the last decision."""
        self._steps = 0
        self._changed = False
        self._agent: DeepAgent = self._make({})
        if self._file is not None and (self._file.exists() or not self._learns):
            self._take(weights_file.read(self._file), str(self._file))
        elif not self._learns:
            shipped = files("ebbflow.strategies.deep_learner") / f"{agent}.json"
            self._take(
                weights_file.from_text(shipped.read_text(encoding="utf-8"), f"{agent}.json"), f"{agent}.json"
            )

    def decide(self, snapshot: Snapshot) -> Decision:
        """Learn from the last step, and choose a change."""
        features = self._reader.features(snapshot)
        if features is None:
            self._last = None
            return hold(snapshot, self._reader.missing, FORMULA)
        planned, limits = snapshot.planned.main_nodes, snapshot.limits
        waited = self._reader.freshness_s / snapshot.slo.freshness_s
        if self._learns and self._last is not None:
            before, chosen, nodes = self._last
            carried_out = min(range(len(CHANGES)), key=lambda k: abs(CHANGES[k] - (planned - nodes)))
            reward = -planned / limits.max_nodes - self._late_price * min(1.0, max(0.0, waited - MARGIN))
            reward -= self._change_price if planned != nodes else 0.0
            self._agent.learn(
                Transition(
                    features=before, action=carried_out, chosen=chosen, reward=reward, following=features
                )
            )
            self._steps += 1
            self._changed = True
        late = waited > 1.0
        if late:
            action = len(CHANGES) - 1
        else:
            action = self._agent.explore(features) if self._learns else self._agent.best(features)
        self._last = (features, action, planned)
        inputs: dict[str, float | str] = {
            name: round(float(value), 4) for name, value in zip(FEATURES, features, strict=True)
        }
        change = CHANGES[action]
        reason = f"{self._kind} chooses {change:+d}" if change else f"{self._kind} keeps {planned}"
        if late:
            reason = f"rows wait {self._reader.freshness_s:.0f} s, longer than the SLO allows: {change:+d}"
        if not change or limits.clamp(planned + change) == planned:
            return hold(snapshot, reason, FORMULA, inputs)
        return want(snapshot, planned + change, reason, FORMULA, inputs)

    # -- remembering ---------------------------------------------------------------------------------------

    @property
    def state_file(self) -> Path | None:
        """The file of ``weights``, while learning."""
        return self._file if self._learns else None

    def state(self) -> str | None:
        """The weights as text; None if they have not changed since the last call."""
        if not self._changed:
            return None
        self._changed = False
        return weights_file.to_text(
            StoredWeights(
                agent=self._kind,
                features=list(FEATURES),
                changes=list(CHANGES),
                steps=self._steps,
                networks=self._agent.networks(),
            )
        )

    def restore(self, state: str) -> None:
        """Continue from the text of weights."""
        self._take(weights_file.from_text(state, "the state"), "the state")

    def _take(self, weights: StoredWeights, where: str) -> None:
        if weights.agent != self._kind:
            raise InputError(
                f"{where} has weights of {weights.agent}; set agent={weights.agent}, or train {self._kind}"
            )
        if weights.features != list(FEATURES) or weights.changes != list(CHANGES):
            raise InputError(f"{where} was trained for other features or changes; train it again")
        sizes = AGENTS[self._kind].sizes(len(FEATURES), len(CHANGES))
        if set(weights.networks) != set(sizes):
            raise InputError(
                f"{where} has networks {', '.join(weights.networks)}; {', '.join(sizes)} are needed"
            )
        self._steps = weights.steps
        self._agent = self._make(
            {name: Network.of(weights.networks[name], sizes[name], where) for name in sizes}
        )

    def _make(self, stored: dict[str, Network]) -> DeepAgent:
        return AGENTS[self._kind](len(FEATURES), len(CHANGES), self._rng, stored=stored, steps=self._steps)
