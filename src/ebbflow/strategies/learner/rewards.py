"""Rewards (§5.3.4). The thesis gives rules, not formulas; these are ours.

A reward depends on the region that the action led to, the direction of the load when it was taken, the action, and
n = latency / target where it led. The region is by the change of latency since the last state, as in Figure 5.2: it
fell (regions 3 and 4), or not (1 and 2).

| region | load | out | in | none |
|---|---|---|---|---|
| 1 below, not fallen | rising | n | −n | 2 − 2n |
| 1 below, not fallen | falling | −1 | 1 − 3n/2 | (n − 1)/2 |
| 2 above, not fallen | rising | n | −2n | −n |
| 2 above, not fallen | falling | −n/2 | −2n | −n |
| 3 above, fallen | rising | 0 | −1 | 1 |
| 3 above, fallen | falling | −1/2 | −1 | 1 |
| 4 below, fallen | rising | n − 1 | −n | n |
| 4 below, fallen, *prefer scale-in* | falling | −1 | 1 − 3n/2 | (n − 1)/2 |
| 4 below, fallen, *prefer no action* | falling | −1 | n − 1 | 1 − n |

The rules of the thesis, and the exceptions that it announces without naming them:

1. An action after which latency has not improved (regions 1 and 2) gets no positive reward. Exceptions, all of them
   below the target, where there is nothing to improve: no action while the load rises, and scale-in that leads to less
   than two thirds of the target. It raises latency on purpose, so it is judged by where that leads.
2. While latency and load rise together, rule 1 does not hold for scale-out: it gets a positive reward.
3. In region 3, no action gets a positive reward.

The two functions differ in region 4 with a falling load only: one punishes no action there, the other rewards it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ebbflow.strategies.learner.state import Action, Direction, Region

PREFER_SCALE_IN, PREFER_NO_ACTION = "prefer-scale-in", "prefer-no-action"
REWARDS = (PREFER_SCALE_IN, PREFER_NO_ACTION)

Key = tuple[Region, Direction, Action]
Line = tuple[float, float]
"""(a, b) of the reward a + b · n."""
Table = Mapping[Key, Line]


def _row(region: Region, direction: Direction, out: Line, scale_in: Line, none: Line) -> dict[Key, Line]:
    return {
        (region, direction, Action.OUT): out,
        (region, direction, Action.IN): scale_in,
        (region, direction, Action.NONE): none,
    }


_RISING, _FALLING = Direction.RISING, Direction.FALLING
_SHARED = {
    **_row(Region.BELOW_RISING, _RISING, (0, 1), (0, -1), (2, -2)),
    **_row(Region.BELOW_RISING, _FALLING, (-1, 0), (1, -1.5), (-0.5, 0.5)),
    **_row(Region.ABOVE_RISING, _RISING, (0, 1), (0, -2), (0, -1)),
    **_row(Region.ABOVE_RISING, _FALLING, (0, -0.5), (0, -2), (0, -1)),
    **_row(Region.ABOVE_FALLING, _RISING, (0, 0), (-1, 0), (1, 0)),
    **_row(Region.ABOVE_FALLING, _FALLING, (-0.5, 0), (-1, 0), (1, 0)),
    **_row(Region.BELOW_FALLING, _RISING, (-1, 1), (0, -1), (0, 1)),
}
TABLES: Mapping[str, Table] = MappingProxyType(
    {
        PREFER_SCALE_IN: _SHARED | _row(Region.BELOW_FALLING, _FALLING, (-1, 0), (1, -1.5), (-0.5, 0.5)),
        PREFER_NO_ACTION: _SHARED | _row(Region.BELOW_FALLING, _FALLING, (-1, 0), (-1, 1), (1, -1)),
    }
)
"""The rewards by the name of the function."""


def reward(table: Table, region: Region, direction: Direction, action: Action, n: float) -> float:
    """The reward of an action that led to a region, with ``n`` = latency / target there.

    >>> reward(TABLES["prefer-scale-in"], Region.BELOW_FALLING, Direction.FALLING, Action.NONE, 0.25)
    -0.375
    >>> reward(TABLES["prefer-no-action"], Region.BELOW_FALLING, Direction.FALLING, Action.NONE, 0.25)
    0.75
    """
    constant, slope = table[region, direction, action]
    return constant + slope * n
