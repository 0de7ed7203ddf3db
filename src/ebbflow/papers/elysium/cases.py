"""The rows of Figure 9 as scenarios: application, load, initial layout and strategy.

The paper plots its loads without a scale for the rate. Ours have the same shapes and follow the times and rates in the
text: the step starts at 180 s and ends at minute 6 (§5.2, Figure 10a–c), 200 req/s of T1 run beside a stair of T2
(Figure 12), and Twitter is replayed at 60:1. Peaks need all four nodes, troughs one or two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ebbflow.core.expression import quote
from ebbflow.core.slo import DEFAULT_SLO
from ebbflow.errors import InputError, UnknownNameError
from ebbflow.papers.elysium.calibration import (
    ARRIVAL_NOISE,
    LIMITS,
    NODES,
    SAMPLED_EVERY_S,
    storm,
)
from ebbflow.papers.elysium.published import (
    APPLICATIONS,
    BOTH,
    FIGURE_9,
    JOINT,
    LOADS,
    STRATEGIES,
    SYMBIOTIC,
    T1,
    T2,
    TWITTER,
    Key,
    Published,
)
from ebbflow.targets.simulator.scenario import Scenario, Tenant
from ebbflow.workloads import Load, Noise, Trace, parse_load

TWITTER_SPEED = 60.0
TWITTER_DAY = (4 * 86_400.0, 4 * 86_400.0 + 23.5 * 3600.0)
"""The fifth day of the trace. The last half hour of every day is left out: its zeros are an artefact."""
TWITTER_PEAK_PER_S = 700.0
"""The rate of the busiest replayed minute."""
STAND_IN = f"day(base=300, peak={TWITTER_PEAK_PER_S:g}, period=24m)"
"""Used if no trace is given: a day of a web service, equally long. The results say that it is not Twitter."""

SHAPES: dict[tuple[str, str], tuple[str, float]] = {
    (T1, "stair"): ("stair(base=100, peak=850, steps=4, hold=200s)", 1800.0),
    (T1, "step"): ("stair(base=150, peak=650, steps=1, hold=3m)", 720.0),
    (T1, "square"): ("square(base=150, peak=800, period=10m)", 1800.0),
    (T1, "sine"): ("sine(base=100, peak=850, period=15m)", 1800.0),
    (T2, "square"): ("square(base=150, peak=800, period=10m)", 1800.0),
    (T2, "sine"): ("sine(base=300, peak=850, period=15m)", 1800.0),
}
"""The load of an application, and the length of a run in seconds."""

TOGETHER: dict[str, tuple[str, str, float]] = {
    "step+stair": (
        "step(base=50, peak=200, at=3m)",
        "stair(base=100, peak=550, steps=4, hold=200s)",
        1800.0,
    ),
    "sine+sine": ("sine(base=50, peak=250, period=15m)", "sine(base=150, peak=550, period=15m)", 1800.0),
}
"""The loads of T1 and T2 on the same nodes, and the length of a run in seconds."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A row of Figure 9, ready to run."""

    key: Key
    loads: tuple[tuple[str, Load], ...]
    """Each application with its load."""
    seconds: float
    initial_nodes: int = 1
    initial_parallelism: int = 1
    published: Published | None = None
    traced: bool = field(default=True, compare=False)
    """False if the stand-in replaces the Twitter trace."""

    def scenario(self, seed: int = 1) -> Scenario:
        """The simulation of the row; the random seed determines arrivals and service times."""
        engines = [storm(application, self.initial_parallelism) for application, _ in self.loads]
        loads = [
            Noise(load=load, amount=ARRIVAL_NOISE, seed=10 * seed + number)
            for number, (_, load) in enumerate(self.loads)
        ]
        return Scenario(
            engine=engines[0],
            load=loads[0],
            others=tuple(
                Tenant(engine=engine, load=load) for engine, load in zip(engines[1:], loads[1:], strict=True)
            ),
            limits=LIMITS,
            slo=DEFAULT_SLO,
            nodes=NODES,
            initial_nodes=self.initial_nodes,
            seconds=self.seconds,
            cycle_s=SAMPLED_EVERY_S,
            seed=seed,
        )


KEYS: tuple[Key, ...] = (
    *(key for key in FIGURE_9 if key.application != BOTH),
    *(Key(BOTH, load, strategy) for load in TOGETHER for strategy in (JOINT, SYMBIOTIC)),
)
"""The rows of Figure 9, and joint scaling of both applications, which the figure does not have."""


def cases(
    *,
    trace: str | None = None,
    applications: Sequence[str] = (),
    loads: Sequence[str] = (),
    strategies: Sequence[str] = (),
) -> list[Case]:
    """All rows, or those of the given applications, loads and strategies. ``trace`` is a file of tweets per second.

    >>> [str(case.key) for case in cases(applications=["T1"], loads=["step"])]
    ['T1 step joint', 'T1 step symbiotic']
    """
    for what, named, known in (
        ("application", applications, APPLICATIONS),
        ("load", loads, LOADS),
        ("strategy", strategies, STRATEGIES),
    ):
        for name in named:
            if name not in known:
                raise UnknownNameError(what, name, known)
    chosen = [
        key
        for key in KEYS
        if (not applications or key.application in applications)
        and (not loads or key.load in loads)
        and (not strategies or key.strategy in strategies)
    ]
    if not chosen:
        given = [" or ".join(names) for names in (applications, loads, strategies) if names]
        raise InputError(f"Figure 9 has no row of {' and '.join(given)}; leave one of them out")
    if unused := _unused(chosen, applications, loads, strategies):
        raise InputError(f"Figure 9 has no row of {unused} together with the other names; leave {unused} out")
    replayed = any(key.load == TWITTER for key in chosen)
    if trace is not None and not replayed:
        raise InputError(
            f"the trace {trace} is for the load twitter, which no selected row has; leave --trace out, or select it"
        )
    twitter = twitter_load(trace) if replayed else None
    return [_case(key, twitter, traced=trace is not None) for key in chosen]


def spark_cases(
    chosen: Sequence[Case],
    *,
    applications: Sequence[str] = (),
    loads: Sequence[str] = (),
    strategies: Sequence[str] = (),
) -> list[Case]:
    """The cases that also run on Spark: joint and symbiotic on three loads of T1. Raises ``InputError`` for a name
    that selects none of them.

    >>> spark_cases(cases(loads=["stair", "sine"]), loads=["stair", "sine"])
    Traceback (most recent call last):
    ...
    ebbflow.errors.InputError: Spark runs T1 on stair, square and twitter, joint and symbiotic; leave sine out
    """
    found = [
        case
        for case in chosen
        if case.key.application == T1
        and case.key.load in ("stair", "square", TWITTER)
        and case.key.strategy in (JOINT, SYMBIOTIC)
    ]
    available = "Spark runs T1 on stair, square and twitter, joint and symbiotic"
    if not found:
        raise InputError(f"{available}; select one of them")
    if unused := _unused([case.key for case in found], applications, loads, strategies):
        raise InputError(f"{available}; leave {unused} out")
    return found


def _unused(
    keys: Sequence[Key], applications: Sequence[str], loads: Sequence[str], strategies: Sequence[str]
) -> str:
    """The first name that selects none of the rows; empty if there is none."""
    named = [*applications, *loads, *strategies]
    used = {part for key in keys for part in (key.application, key.load, key.strategy)}
    return next((name for name in named if name not in used), "")


def _case(key: Key, twitter: Load | None, *, traced: bool) -> Case:
    nodes, parallelism = _initial_layout(key.setting)
    if key.application == BOTH:
        first, second, seconds = TOGETHER[key.load]
        loads: tuple[tuple[str, Load], ...] = ((T1, parse_load(first)), (T2, parse_load(second)))
    elif key.load == TWITTER:
        assert twitter is not None
        seconds = min(twitter.duration_s, twitter.span_s)
        loads = ((key.application, twitter),)
    else:
        text, seconds = SHAPES[key.application, key.load]
        loads = ((key.application, parse_load(text)),)
    return Case(
        key=key,
        loads=loads,
        seconds=float(np.floor(seconds / SAMPLED_EVERY_S) * SAMPLED_EVERY_S),
        initial_nodes=nodes,
        initial_parallelism=parallelism,
        published=FIGURE_9.get(key),
        traced=traced or key.load != TWITTER,
    )


def _initial_layout(setting: str) -> tuple[int, int]:
    """Initial nodes and parallelism: those of the setting, else one.

    >>> [_initial_layout(setting) for setting in ("4 nodes, parallelism 4", "2 nodes", "parallelism 2", "")]
    [(4, 4), (2, 1), (1, 2), (1, 1)]
    """
    nodes = parallelism = 1
    for part in filter(None, setting.split(", ")):
        words = part.split()
        if words[0] == "parallelism":
            parallelism = int(words[1])
        else:
            nodes = int(words[0])
    return nodes, parallelism


def twitter_load(trace: str | None, day: tuple[float, float] = TWITTER_DAY) -> Load:
    """A day of the trace at 60:1, scaled so that the busiest minute is the peak; without a trace, the stand-in."""
    if trace is None:
        return parse_load(STAND_IN)
    start_s, end_s = day
    load = parse_load(f"trace({quote(trace)}, speed={TWITTER_SPEED:g}, start={start_s:g}s, end={end_s:g}s)")
    assert isinstance(load, Trace)
    minutes = load.rows_between(np.arange(0.0, load.span_s, 60.0)) / 60.0
    busiest = float(np.max(minutes, initial=0.0))
    if not busiest > 0:
        raise InputError(f"{trace} has no events from {start_s:g} to {end_s:g} s; give a trace of five days")
    return (TWITTER_PEAK_PER_S / busiest) * load
