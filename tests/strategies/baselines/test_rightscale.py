"""RightScale: nodes vote, a majority decides, then calm."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading, Windows
from ebbflow.core.snapshot import Snapshot
from ebbflow.errors import InputError
from ebbflow.strategies.baselines.rightscale import RightScale
from ebbflow.testing.snapshots import make_batch, make_snapshot, make_stage


class Nodes:
    """Nodes with one slot whose tasks take a share of the time, as Spark counts them."""

    def __init__(self) -> None:
        self.windows = Windows(3600.0)
        self._total_s: dict[str, float] = {}

    def run(
        self, strategy: RightScale, from_s: int, to_s: int, shares: Mapping[str, float]
    ) -> dict[int, int]:
        """Decide every 10 s. Returns the times at which another size was wanted, with that size."""
        made = {}
        for now_s in range(from_s, to_s + 1, 10):
            for name, share in shares.items():
                self._total_s[name] = self._total_s.get(name, 0.0) + 10.0 * share
                self.windows.add([Reading(float(now_s), name, Metric.TASK_TIME, self._total_s[name])])
            seen = make_snapshot(float(now_s), len(shares), windows=self.windows)
            wanted = strategy.decide(seen).wanted.main_nodes
            if wanted != len(shares):
                made[now_s] = wanted
        return made


def test_a_majority_of_the_nodes_grows_by_two_after_the_period() -> None:
    # 3 of 4 are busier than 70 % over 3 min; 51 % of 4 are 2.04 votes
    shares = {"1": 0.9, "2": 0.8, "3": 0.75, "4": 0.1}
    assert Nodes().run(RightScale(), 0, 600, shares) == {180: 6}


def test_half_of_the_nodes_is_no_majority() -> None:
    shares = {"1": 1.0, "2": 1.0, "3": 0.5, "4": 0.5}
    assert Nodes().run(RightScale(), 0, 600, shares) == {}
    assert Nodes().run(RightScale(decision_threshold=0.5), 0, 180, shares) == {180: 6}


def test_it_shrinks_by_one_and_stays_calm_for_fifteen_minutes() -> None:
    shares = {"1": 0.1, "2": 0.1, "3": 0.9}
    assert Nodes().run(RightScale(), 0, 1100, shares) == {180: 2, 1080: 2}


def test_nodes_that_just_joined_count_as_voters_but_do_not_vote() -> None:
    nodes, strategy = Nodes(), RightScale(calm_s=0.0)
    assert nodes.run(strategy, 0, 170, {"1": 0.9, "2": 0.9}) == {}
    more = {
        "1": 0.9,
        "2": 0.9,
        "3": 0.9,
        "4": 0.9,
    }  # 2 of 4 votes until the new ones have been there for 3 min
    assert min(nodes.run(strategy, 180, 400, more)) == 360


def test_a_node_that_is_gone_has_no_vote() -> None:
    nodes, strategy = Nodes(), RightScale()
    nodes.run(strategy, 0, 170, {"1": 0.9, "2": 0.9, "3": 0.5, "4": 0.5})
    assert nodes.run(strategy, 180, 200, {"3": 0.5, "4": 0.5}) == {}


def busy(now_s: float, share: float) -> Snapshot:
    return make_snapshot(now_s, 4, [make_batch(now_s, 5.0, make_stage(12, 40.0 * share))])


def test_without_readings_by_node_all_vote_by_the_mean() -> None:
    strategy = RightScale()
    decisions = [strategy.decide(busy(10.0 * k, 0.8)) for k in range(20)]
    assert [d.wanted.main_nodes for d in decisions].index(6) == 18  # 180 s
    assert decisions[18].inputs["grow_votes"] == 4


def test_thresholds_out_of_order_are_refused() -> None:
    with pytest.raises(InputError, match=r"shrink_busy is 0\.9 and grow_busy is 0\.7"):
        RightScale(shrink_busy=0.9)
