"""How many executors an action adds or removes (§5.3.5, Table 5.3). g is ``executorGranularity``.

static     g
linear     g · 1, 2, 4, 6, 8, … for the same action in a row; another action, also none, starts it again
relative   out: g · max(1, batches waiting), in: g. The text calls it queue-aware
"""

from __future__ import annotations

from typing import Protocol

from ebbflow.strategies.learner.state import Action


class HowMany(Protocol):
    """The size of the step of an action."""

    def step(self, action: Action, waiting_batches: int) -> int:
        """Executors to add or remove; called once per decision, also for no action."""
        ...


class StaticStep:
    """A fixed number."""

    def __init__(self, granularity: int) -> None:
        self._granularity = granularity

    def step(self, action: Action, waiting_batches: int) -> int:
        """The fixed number."""
        del waiting_batches
        return 0 if action is Action.NONE else self._granularity


class LinearStep:
    """More with each repetition.

    >>> ladder = LinearStep(1)
    >>> [ladder.step(Action.OUT, 0) for _ in range(5)], ladder.step(Action.IN, 0), ladder.step(Action.OUT, 0)
    ([1, 2, 4, 6, 8], 1, 1)
    """

    def __init__(self, granularity: int) -> None:
        self._granularity = granularity
        self._last = Action.NONE
        self._repeated = 0

    def step(self, action: Action, waiting_batches: int) -> int:
        """The next rung of the ladder."""
        del waiting_batches
        self._repeated = self._repeated + 1 if action is self._last else 0
        self._last = action
        return 0 if action is Action.NONE else self._granularity * max(1, 2 * self._repeated)


class RelativeStep:
    """Out by the length of the queue, in by a fixed number.

    >>> relative = RelativeStep(2)
    >>> [relative.step(Action.OUT, waiting) for waiting in (0, 1, 5)], relative.step(Action.IN, 5)
    ([2, 2, 10], 2)
    """

    def __init__(self, granularity: int) -> None:
        self._granularity = granularity

    def step(self, action: Action, waiting_batches: int) -> int:
        """One node for each waiting batch, times the granularity."""
        if action is Action.NONE:
            return 0
        return self._granularity * (max(1, waiting_batches) if action is Action.OUT else 1)


EXECUTOR_STRATEGIES = ("static", "linear", "relative")


def make_how_many(name: str, granularity: int) -> HowMany:
    """The executor strategy of a name in ``EXECUTOR_STRATEGIES``."""
    kinds: dict[str, type[StaticStep | LinearStep | RelativeStep]] = {
        "static": StaticStep, "linear": LinearStep, "relative": RelativeStep,
    }  # fmt: skip
    return kinds[name](granularity)
