"""The loads: five to learn on, others to judge on, and one that changes its nature midway.

Agents learn, and rules are calibrated, between 300 and 1,500 rows/s, half an hour of each load at a time. They are
judged between 190 and 1,905 rows/s, 75 % of what the maximum of 16 nodes holds, on other periods and other noise. The
judged loads but ``day`` are built-in shapes of the leaderboard. Arrivals of each second vary by 5 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ebbflow.core.curve import Curve
from ebbflow.papers.learner.training import episode_seed
from ebbflow.runs.loads import NamedLoad, built_in_loads
from ebbflow.runs.spec import Spec
from ebbflow.targets.simulator import Scenario
from ebbflow.workloads import Load, parse_load
from ebbflow.workloads.trace import Recorded

JITTER = 0.05
HOUR_S = 3600.0
PEAK_PER_S = 1905.0
_LEARNED = "base=300, peak=1500"
_JUDGED = f"base=190, peak={PEAK_PER_S:g}"

LEARNING: Mapping[str, str] = {
    "sine": f"sine({_LEARNED}, period=30m)",
    "square": f"square({_LEARNED}, period=30m)",
    "stair": f"stair({_LEARNED}, steps=4, hold=200s)",
    "sawtooth": f"sawtooth({_LEARNED}, period=30m)",
    "bursts": f"periodic({_LEARNED}, period=1h, peaks=3)",
}
"""Loads to learn on, half an hour each. All five are one pass, of 2.5 hours."""
EPISODE_S = HOUR_S / 2
ALL_FIVE = "learning loads"
"""The name of all five in results."""

HOURS: Mapping[str, float] = {
    "sine": 2.0,
    "square": 4.0,
    "sawtooth": 3.0,
    "stair": 4.0,
    "bursts": 6.0,
    "day": 4.0,
}
"""Loads to judge on, with the length of a run: one period; of the stair, four steps up."""
SHAPES = ("sine", "square", "sawtooth", "stair", "bursts")
SHORT = ("sine", "square")
"""Enough to see the effect of a parameter."""

CHANGED = "sine, then bursts"
CHANGE_S, CHANGED_S = 4 * HOUR_S, 10 * HOUR_S
"""When it changes, and its length."""
_PARTS = (
    (f"sine({_JUDGED}, period=2h)", CHANGE_S),
    (f"periodic({_JUDGED}, period=3h, peaks=4, seed=1)", CHANGED_S - CHANGE_S),
)


@dataclass(frozen=True, kw_only=True)
class Loads:
    """The loads of a run of the benchmark."""

    traces: Sequence[NamedLoad] = ()
    _named: Mapping[str, Load] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        named = {each.name: each.load for each in built_in_loads(PEAK_PER_S)}
        named["day"] = parse_load(f"day({_JUDGED}, period=4h)")
        named[CHANGED] = changed()
        object.__setattr__(self, "_named", named | {each.name: each.load for each in self.traces})

    @property
    def trace_names(self) -> tuple[str, ...]:
        """The traces to judge on."""
        return tuple(each.name for each in self.traces)

    def judged(self, name: str, seed: int) -> Scenario:
        """A load to judge on, with the noise of a seed."""
        load = self._named[name]
        whole_s = load.duration_s if name in self.trace_names or name == CHANGED else HOURS[name] * HOUR_S
        noise = NamedLoad(name=name, load=load).with_jitter(JITTER, seed)
        return Spec(seconds=whole_s, seed=seed).scenario(noise)


def learning_scenario(names: Sequence[str], seed: int, episode: int) -> Scenario:
    """Half an hour of each of these loads, one after the other, with the noise of an episode."""
    load = _in_sequence("learning", [(LEARNING[name], EPISODE_S) for name in names])
    noise = NamedLoad(name="", load=load).with_jitter(JITTER, episode_seed(seed, episode))
    return Spec(seconds=EPISODE_S * len(names)).scenario(noise)


def order(names: Sequence[str], seed: int) -> list[str]:
    """The order in which an agent meets the loads: each seed starts with another.

    >>> order(["a", "b", "c"], 1)
    ['b', 'c', 'a']
    """
    first = seed % len(names)
    return [*names[first:], *names[:first]]


def changed() -> Recorded:
    """A sine for four hours, then bursts for six.

    >>> changed().duration_s
    36000.0
    """
    return _in_sequence(CHANGED, _PARTS)


def _in_sequence(source: str, parts: Sequence[tuple[str, float]]) -> Recorded:
    """Loads one after the other, each from its start and for so many seconds."""
    times_s, rows = [np.zeros(1)], [np.zeros(1)]
    for text, seconds in parts:
        edges_s = np.arange(0.0, seconds + 0.5)
        times_s.append(times_s[-1][-1] + edges_s[1:])
        rows.append(rows[-1][-1] + np.cumsum(parse_load(text).rows_between(edges_s)))
    return Recorded(source=source, arrived=Curve(np.concatenate(times_s), np.concatenate(rows)))
