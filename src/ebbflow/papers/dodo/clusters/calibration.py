"""The continuous engine of the simulator, set to S4 as the thesis describes it in §6.4 and §7.

The thesis gives no processing times. They follow from the rates at which it says that named operators on a named number
of nodes were at their limit: a node has one core, so if an event takes p seconds, N nodes are busy at N/p events/s. No
published gain is an input, nor any throughput after balancing with capacity or autoscaling. Where the text has two
values for one quantity, the mean of the two processing times is used; ``Reading`` takes one of them instead.

============================  ========================================================================================
topic count and report, §6    one node is at its limit at 19,000 tweets/s (§6.4, static run)
extractor, §6                 6,000 tweets/s on one node beside top-N (§6.4, where the variant without capacity ended
                              in the extreme case); 7,000 with all three operators on one node (in the optimal case)
top-N                         a report of every topic every 10 s: 5,000 / 10 s = 500 events/s. A report is assumed to
                              take as long as a count
under overload, §6            throughput falls from 19,000 to 16,000 (§6.4, static run): 84 % of the speed
topic count and report, §7    three nodes of another kind are fully busy at 12,313 events/s, and their throughput falls
                              from 15,315 on (§7.3, static run)
extractor, §7                 as many times the cost of a count as in §6: the same code
under overload, §7            9,500 events/s on these three nodes (§7.3, static run)
loads                         from 20 tweets/s, 20 more every second (§6.4); five generators, each from 50, 5 more every
                              3 s, for 40 minutes (§7.2.1)
============================  ========================================================================================

Overload slows an operator down only if its queue is on the nodes. The static runs, whose bottleneck is downstream, lose
throughput beyond their limit. The balanced ones, whose bottleneck is the first operator, become "steady" (§7.3) at it:
what they cannot take waits in the generators.

Not in the thesis, hence ours: a move or a new node stops the flow for 5 to 8 s (Storm, in Elysium §5); an instance
launches in 2 minutes ("up to 10", §7.1.1); noise of 5 % on load and service times.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ebbflow.core.layout import MAIN
from ebbflow.core.limits import Limits
from ebbflow.core.pipeline import Operator, Pipeline, Stream
from ebbflow.papers.elysium.calibration import ARRIVAL_NOISE, SERVICE_NOISE
from ebbflow.targets.simulator.continuous import Continuous
from ebbflow.targets.simulator.nodes import Cluster, NodeKind
from ebbflow.targets.simulator.scenario import Scenario
from ebbflow.workloads import Noise
from ebbflow.workloads.shapes import Sawtooth

EXTRACTOR, COUNT, TOP_N = "extractor", "topic-count", "top-n"
SECOND, THIRD = MAIN, "cluster-3"
"""Cluster₂ and Cluster₃ of the thesis. Cluster₁ has the generators, which are not part of the model."""
APART: Mapping[str, str] = {COUNT: THIRD, TOP_N: THIRD}
"""Tables 7 and 9: only the extractor is on Cluster₂."""
TOGETHER: Mapping[str, str] = {TOP_N: THIRD}
"""Table 8: the count is on Cluster₂ as well."""

TOPICS, REPORT_EVERY_S = 5000, 10.0
REPORTS_PER_S = TOPICS / REPORT_EVERY_S
ROW_KB = 0.05
"""A topic with its count, over 100 Mb/s between clusters."""
STATE_MB = TOPICS * 100e-6
"""A hundred bytes for each topic."""


class Reading(Enum):
    """Which of two values in the text counts."""

    MEAN = "mean of both"
    FIRST = "first value"
    SECOND = "second value"

    def of(self, first: float, second: float) -> float:
        """The processing time to use."""
        return {
            Reading.MEAN: statistics.fmean((first, second)),
            Reading.FIRST: first,
            Reading.SECOND: second,
        }[self]


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Seconds of a node per event, and the speed under overload."""

    extractor_s: float
    count_s: float
    overload_speed: float
    limit_per_s: float
    """Where the static layout is at its limit; the share of reports among events is that at this rate."""


def emulab(extractor: Reading = Reading.MEAN) -> Costs:
    """A 3 GHz node of §6.4. ``extractor``: from 6,000 tweets/s beside top-N, or from 7,000 with all on one node.

    >>> [round(1e6 * emulab(reading).extractor_s) for reading in (Reading.FIRST, Reading.SECOND, Reading.MEAN)]
    [162, 88, 125]
    """
    at_limit, overloaded, beside_top_n, all_on_one = 19_000.0, 16_000.0, 6_000.0, 7_000.0
    count_s = 1 / (at_limit + REPORTS_PER_S)
    left = 1 - REPORTS_PER_S * count_s  # of the node, beside top-N
    return Costs(
        extractor_s=extractor.of(left / beside_top_n, left / all_on_one - count_s),
        count_s=count_s,
        overload_speed=overloaded / at_limit,
        limit_per_s=at_limit,
    )


def ec2(extractor: Reading = Reading.MEAN, count: Reading = Reading.MEAN) -> Costs:
    """An m1.small instance of §7.2.1. ``count``: from 12,313 events/s with fully busy nodes, or from 15,315.

    >>> [round(1e6 * ec2(count=reading).count_s) for reading in (Reading.FIRST, Reading.SECOND, Reading.MEAN)]
    [234, 190, 212]
    """
    nodes, busy, falling, overloaded = 3, 12_313.0, 15_315.0, 9_500.0
    count_s = count.of(nodes / (busy + REPORTS_PER_S), nodes / (falling + REPORTS_PER_S))
    limit_per_s = nodes / count_s - REPORTS_PER_S
    other = emulab(extractor)
    return Costs(
        extractor_s=other.extractor_s / other.count_s * count_s,
        count_s=count_s,
        overload_speed=overloaded / limit_per_s,
        limit_per_s=limit_per_s,
    )


def s4(costs: Costs) -> Continuous:
    """Top-N topics: every operator on every node of its cluster.

    >>> [[round(1e6 * s) for s in s4(costs).row_cost_s.values()] for costs in (emulab(), ec2())]
    [[125, 51, 51], [517, 212, 212]]
    """
    return Continuous(
        pipeline=Pipeline(
            name="top-n-topics",
            operators=(
                Operator(name=EXTRACTOR),
                Operator(name=COUNT, stateful=True),
                Operator(name=TOP_N, stateful=True),
            ),
            streams=(
                Stream(source=EXTRACTOR, target=COUNT),
                Stream(source=COUNT, target=TOP_N, selectivity=REPORTS_PER_S / costs.limit_per_s),
            ),
        ),
        row_cost_s={EXTRACTOR: costs.extractor_s, COUNT: costs.count_s, TOP_N: costs.count_s},
        on_every_node=True,
        overload_speed=costs.overload_speed,
        state_mb={COUNT: STATE_MB, TOP_N: STATE_MB},
        row_kb=ROW_KB,
        noise=SERVICE_NOISE,
    )


@dataclass(frozen=True, kw_only=True)
class Testbed:
    """The nodes and the load of a chapter."""

    costs: Costs
    first_per_s: float
    """Load at the start."""
    more_per_s2: float
    """By how much it grows every second."""
    seconds: float
    launch_s: float = 120.0
    most_nodes: int = 15

    def scenario(self, nodes: tuple[int, int], placement: Mapping[str, str], *, seed: int = 1) -> Scenario:
        """A run; ``nodes`` of Cluster₂ and Cluster₃ at the start."""
        kind = NodeKind(lead_time_s=self.launch_s)
        last_per_s = self.first_per_s + self.more_per_s2 * self.seconds
        ramp = Sawtooth(base_per_s=self.first_per_s, peak_per_s=last_per_s, period_s=self.seconds)
        return Scenario(
            engine=s4(self.costs),
            load=Noise(load=ramp, amount=ARRIVAL_NOISE, seed=10 * seed),
            limits=Limits(min_nodes=1, max_nodes=self.most_nodes),
            nodes=kind,
            initial_nodes=nodes[0],
            clusters={THIRD: Cluster(nodes=kind, initial_nodes=nodes[1])},
            placement=placement,
            seconds=self.seconds,
            cycle_s=5.0,
            seed=seed,
        )


def chapter_6(costs: Costs | None = None) -> Testbed:
    """§6.4. The text does not say how long the load grows, but that it does until the platform takes no more; here 30
    minutes, to 36,020 tweets/s."""
    return Testbed(costs=costs or emulab(), first_per_s=20.0, more_per_s2=20.0, seconds=1800.0)


def chapter_7(costs: Costs | None = None, launch_s: float = 120.0) -> Testbed:
    """§7.2: to 20,250 events/s in 40 minutes."""
    return Testbed(
        costs=costs or ec2(), first_per_s=250.0, more_per_s2=25 / 3, seconds=2400.0, launch_s=launch_s
    )
