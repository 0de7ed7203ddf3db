"""The six tests of the Rules thesis (§5.2): load, operators, policy and expected result of each.

In each test a source of λ tuples/s feeds operators that need 1/μ seconds per tuple. Expected times assume one reading
per second: the queue (λ − μ)·t first exceeds a threshold q at ⌊q/(λ − μ)⌋ + 1 s, and the rule fires once the readings
above q span its duration. The thesis sampled every 5 s and measured 92 s where this gives 91 s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ebbflow.policy import (
    Policy,
    above,
    absolute,
    below,
    metric,
    minutes,
    nodes,
    operator,
    rule,
    seconds,
    tuples,
)
from ebbflow.policy.language.builder import Ready
from ebbflow.workloads import Constant, Load, Periodic, Square


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change of an operator's number of instances."""

    time_s: float
    operator: str
    before: int
    after: int

    def to_json(self) -> dict[str, object]:
        """Return the change as JSON values."""
        return {
            "time_s": round(self.time_s, 1),
            "operator": self.operator,
            "from": self.before,
            "to": self.after,
        }

    @classmethod
    def from_json(cls, change: dict[str, Any]) -> Change:
        """Read what ``to_json`` wrote."""
        return cls(
            time_s=change["time_s"], operator=change["operator"], before=change["from"], after=change["to"]
        )


@dataclass(frozen=True, kw_only=True)
class Case:
    """One test: its set-up and its expected result."""

    name: str
    title: str
    section: str
    load: Load
    rates_per_s: dict[str, float]
    """μ of each operator, in pipeline order."""
    policy: Policy
    lasts_s: float
    expectation: str
    """The result in the words of the thesis."""
    changes: tuple[Change, ...]
    """Every change, given one reading per second."""
    queue_slope_per_s: float | None = None
    """Slope of the last operator's queue in the 30 s after its last change."""
    most_queued: float | None = None
    """Upper bound of the queue length."""


def _grows(name: str, by: int, most: int, *, queue: int = 300, time_s: int = 30) -> Ready:
    return (
        rule(f"Queue length of {name} is above {queue} for {time_s} seconds")
        .scale_out(operator(name)).by(absolute(by)).but_never_above(nodes(most))
        .when(metric("queue-length")).is_(above(tuples(queue))).for_at_least(seconds(time_s))
    )  # fmt: skip


def _shrinks(name: str) -> Ready:
    return (
        rule(f"Queue length of {name} is below 1 for 5 seconds")
        .scale_in(operator(name)).by(absolute(2)).but_never_below(nodes(1))
        .when(metric("queue-length")).is_(below(tuples(1))).for_at_least(seconds(5))
    )  # fmt: skip


OPERATOR, FIRST, SECOND = "operator", "first", "second"
PEAKS = Square(base_per_s=10, peak_per_s=20, period_s=60, duty=1 / 3)
"""Repeats 40 s at 10/s and 20 s at 20/s."""


CASES: tuple[Case, ...] = (
    Case(
        name="scale-out",
        title="Single operator scale-out",
        section="5.2.2",
        load=Constant(level_per_s=10),
        rates_per_s={OPERATOR: 5.0},
        policy=Policy(_grows(OPERATOR, 1, 2).with_no_scale_out_since(minutes(5))),
        lasts_s=180.0,
        expectation="1→2 at about 90 s (queue passes 300 at 60 s), then the queue stays level",
        changes=(Change(time_s=91, operator=OPERATOR, before=1, after=2),),
        queue_slope_per_s=0.0,
    ),
    Case(
        name="extra-capacity",
        title="Scale-out with additional capacity",
        section="5.2.3",
        load=Constant(level_per_s=10),
        rates_per_s={OPERATOR: 5.0},
        policy=Policy(_grows(OPERATOR, 2, 3).with_no_scale_out_since(minutes(5))),
        lasts_s=240.0,
        expectation="1→3 at about 90 s, the queue then drains at 5/s",
        changes=(Change(time_s=91, operator=OPERATOR, before=1, after=3),),
        queue_slope_per_s=-5.0,
    ),
    Case(
        name="two-operators",
        title="Multiple operators, one of them too slow",
        section="5.2.4",
        load=Constant(level_per_s=10),
        rates_per_s={FIRST: 20.0, SECOND: 5.0},
        policy=Policy(
            _grows(FIRST, 2, 3).with_no_scale_out_since(minutes(5)),
            _grows(SECOND, 2, 3).with_no_scale_out_since(minutes(5)),
        ),
        lasts_s=240.0,
        expectation="only the second scales: 1→3 at about 90 s, the queue then drains",
        changes=(Change(time_s=91, operator=SECOND, before=1, after=3),),
        queue_slope_per_s=-5.0,
    ),
    Case(
        name="short-peaks",
        title="Periodic source, peaks too short to matter",
        section="5.2.5",
        load=Periodic(base_per_s=10, peak_per_s=20, period_s=120, peaks=3, seed=1),
        rates_per_s={OPERATOR: 10.0},
        policy=Policy(_grows(OPERATOR, 2, 3, queue=10_000, time_s=60)),
        lasts_s=300.0,
        expectation="never scales",
        changes=(),
        most_queued=1_180.0,  # the peaks exceed μ by 1,071 rows; 10 % more means a slower operator
    ),
    Case(
        name="out-and-in",
        title="Scale-out and scale-in with a periodic source",
        section="5.2.6",
        load=PEAKS,
        rates_per_s={OPERATOR: 10.0},
        policy=Policy(_grows(OPERATOR, 2, 3, queue=100, time_s=5), _shrinks(OPERATOR)),
        lasts_s=200.0,
        expectation="1→3 in each peak, back to 1 after",
        # The peak begins at 40 s. 160 rows are queued when the rule fires; they are processed 10 s later.
        changes=(
            Change(time_s=56, operator=OPERATOR, before=1, after=3),
            Change(time_s=71, operator=OPERATOR, before=3, after=1),
            Change(time_s=116, operator=OPERATOR, before=1, after=3),
            Change(time_s=131, operator=OPERATOR, before=3, after=1),
            Change(time_s=176, operator=OPERATOR, before=1, after=3),
            Change(time_s=191, operator=OPERATOR, before=3, after=1),
        ),
    ),
    Case(
        name="hysteresis",
        title="Scale-in only long after a scale-out",
        section="5.2.7",
        load=PEAKS,
        rates_per_s={OPERATOR: 10.0},
        policy=Policy(
            _grows(OPERATOR, 2, 3, queue=100, time_s=5),
            _shrinks(OPERATOR).with_no_scale_out_since(minutes(5)),
        ),
        lasts_s=300.0,
        expectation="1→3 once, stays",
        changes=(Change(time_s=56, operator=OPERATOR, before=1, after=3),),
    ),
)  # fmt: skip

QUICK = Case(
    name="quick",
    title="The first case in a sixth of its time",
    section="5.2.2, shortened",
    load=Constant(level_per_s=10),
    rates_per_s={OPERATOR: 5.0},
    policy=Policy(_grows(OPERATOR, 1, 2, queue=50, time_s=10).with_no_scale_out_since(minutes(5))),
    lasts_s=30.0,
    expectation="1→2 about 10 s after the queue has passed 50",
    changes=(Change(time_s=21, operator=OPERATOR, before=1, after=2),),
)
"""Not from the thesis: a short check that a target works at all."""
