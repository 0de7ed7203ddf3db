"""What is asked of Spark, in every order in which executors can come, stay away, go and die."""

from __future__ import annotations

import math

import pytest
from fake_spark import Scene

from ebbflow.core.snapshot import ActionKind
from ebbflow.errors import TargetError
from ebbflow.targets.spark.driver import ExecutorInfo
from ebbflow.targets.spark.observe.lead_time import ExecutorRequests


def test_growth_is_asked_for_once_and_shows_as_under_way_until_it_has_come() -> None:
    scene = Scene()
    assert scene.actuator.set_nodes(3) == (3, 0, "")
    assert scene.spark.totals == [3]
    assert [(a.kind, a.nodes) for a in scene.actuator.under_way()] == [(ActionKind.GROW, 2)]
    scene.spark.add("1")
    scene.poll()
    assert [a.nodes for a in scene.actuator.under_way()] == [1]
    scene.spark.add("2")
    scene.poll()
    assert scene.actuator.under_way() == []


def test_what_does_not_fit_is_told_and_not_asked_for() -> None:
    scene = Scene(capacity=2)
    assert scene.actuator.set_nodes(5) == (2, 3, "no free cores")
    assert scene.spark.totals == [2]


def test_requests_not_met_yet_are_taken_back_without_touching_who_is_there() -> None:
    scene = Scene()
    scene.actuator.set_nodes(4)
    assert scene.actuator.set_nodes(2) == (2, 0, "")
    assert scene.spark.totals == [4, 2]
    assert [a.nodes for a in scene.actuator.under_way()] == [1]
    assert scene.spark.decommissioned == []


def test_leavers_are_those_with_least_state_and_are_not_replaced() -> None:
    scene = Scene(ids=["0", "1", "2"], state={"1": 4, "2": 1, "0": 2})
    requested, infeasible, note = scene.actuator.set_nodes(2)
    assert (requested, infeasible) == (2, 0)
    assert "executor 2" in note
    assert "1 state partition to reload" in note
    scene.drained()
    assert scene.spark.decommissioned == ["2"]
    assert scene.spark.totals[-1] == 2
    assert scene.spark.killed == []


def test_who_does_not_leave_in_time_is_killed() -> None:
    scene = Scene(ids=["0", "1"], leaves_when_decommissioned=False)
    scene.actuator.set_nodes(1)
    scene.drained()
    assert scene.spark.decommissioned == ["1"]
    assert scene.spark.killed == ["1"]


def test_a_batch_that_never_pauses_delays_leaving_but_does_not_prevent_it() -> None:
    scene = Scene(ids=["0", "1"], busy=True)
    scene.actuator.set_nodes(1)
    scene.drained()
    assert scene.clock.now_s() >= 1001.0, "it waited for a pause first"
    assert scene.spark.decommissioned == ["1"]


def test_growth_calls_off_a_leaving_that_has_not_begun_and_asks_only_for_the_rest() -> None:
    scene = Scene(ids=["0", "1", "2"])
    scene.actuator.set_nodes(3)
    drain = scene.actuator._drain
    assert drain is None

    class Waiting:
        victims = frozenset({"1", "2"})
        since_s = 0.0
        gone_by_s = math.inf
        decommissioned = False
        alive = True

        def is_alive(self) -> bool:
            return self.alive

        def cancel(self) -> bool:
            self.alive = False
            return True

    scene.actuator._drain = Waiting()  # type: ignore[assignment]
    scene.actuator.requested = 1
    assert scene.actuator.set_nodes(4) == (4, 0, "")
    assert scene.spark.totals[-1] == 4
    assert [a.nodes for a in scene.actuator.under_way()] == [1], "two of the four are there and stay"


def test_an_executor_that_dies_counts_as_asked_for_until_it_is_replaced() -> None:
    scene = Scene(ids=["0", "1"])
    scene.actuator.set_nodes(2)
    scene.spark.ids.remove("1")
    scene.poll()
    assert [a.nodes for a in scene.actuator.under_way()] == [1]
    scene.spark.add("7")
    scene.poll()
    assert scene.actuator.under_way() == []


def test_what_never_comes_is_given_up() -> None:
    scene = Scene()
    scene.actuator.set_nodes(3)
    scene.clock.advance(119.0)
    assert scene.actuator.withdraw_overdue() == 0
    scene.clock.advance(2.0)
    assert scene.actuator.withdraw_overdue() == 2
    assert scene.actuator.requested == 1
    assert scene.spark.totals[-1] == 1
    assert scene.actuator.under_way() == []


def test_giving_up_never_goes_below_the_fewest_nodes_allowed() -> None:
    scene = Scene(min_nodes=3)
    scene.actuator.set_nodes(5)
    scene.clock.advance(121.0)
    assert scene.actuator.withdraw_overdue() == 2
    assert scene.actuator.requested == 3
    assert scene.spark.totals[-1] == 3
    assert [a.nodes for a in scene.actuator.under_way()] == [2], "two of the three are still waited for"
    asked = list(scene.spark.totals)
    assert scene.actuator.withdraw_overdue() == 0
    assert scene.spark.totals == asked, "and nothing is said again"


def test_those_asked_for_and_those_leaving_take_room_too() -> None:
    scene = Scene(capacity=4)
    scene.actuator.set_nodes(3)
    assert scene.actuator.set_nodes(6) == (4, 2, "no free cores"), "two are on their way, so one more fits"


def test_who_has_left_does_not_count_as_staying_because_the_last_poll_is_older() -> None:
    scene = Scene(ids=["0", "1", "2"], state={"0": 2})
    scene.spark.last_poll = scene.spark.executors()
    scene.actuator.set_nodes(2)
    scene.drained()
    assert scene.spark.ids == ["0", "1"]
    assert [e.id for e in scene.actuator.staying()] == ["0", "1"], "executor 2 is in that look, and gone"
    assert [a.kind for a in scene.actuator.under_way()] == [ActionKind.SHRINK]
    assert scene.actuator.set_nodes(2) == (2, 0, "")
    assert scene.actuator.set_nodes(1) == (2, 0, "the last scale-in is still in progress")
    assert scene.spark.decommissioned == ["2"], "nobody else was told to go for the one that went"
    scene.poll()
    assert scene.actuator.under_way() == []
    assert scene.actuator.set_nodes(1)[0] == 1
    scene.drained()
    assert scene.spark.decommissioned == ["2", "1"]


def test_who_stays_in_spite_of_everything_counts_as_staying_in_the_end() -> None:
    scene = Scene(ids=["0", "1"], leaves_when_decommissioned=False)
    scene.spark.kill = lambda executor_ids: None  # type: ignore[method-assign]
    scene.actuator.set_nodes(1)
    scene.drained()
    scene.poll()
    assert [e.id for e in scene.actuator.staying()] == ["0"]
    scene.clock.advance(6.0)
    scene.poll()
    assert [e.id for e in scene.actuator.staying()] == ["0", "1"]
    assert scene.actuator.requested == 2


def test_a_leaving_that_is_cut_short_keeps_those_who_were_not_told() -> None:
    scene = Scene(ids=["0", "1", "2"])
    told = scene.spark.decommission

    def only_one(executor_id: str) -> bool:
        if scene.spark.decommissioned:
            raise TargetError("the driver does not answer")
        return told(executor_id)

    scene.spark.decommission = only_one  # type: ignore[method-assign]
    assert scene.actuator.set_nodes(1)[0] == 1
    scene.drained()
    scene.poll()
    assert scene.spark.ids == ["0", "2"]
    assert [e.id for e in scene.actuator.staying()] == ["0", "2"]
    assert scene.actuator.requested == 2, "what is there and stays is asked for"


def test_those_that_were_starting_when_we_came_count_as_asked_for() -> None:
    scene = Scene(capacity=1)
    assert scene.actuator.set_nodes(3) == (1, 2, "no free cores")
    scene.spark.add("1", "2")
    scene.poll()
    assert scene.actuator.requested == 3
    assert scene.actuator.set_nodes(3) == (3, 0, "")
    assert scene.spark.totals[-1] == 3, "Spark replaces what is lost up to that"


def test_one_that_comes_when_it_was_taken_back_is_not_asked_for_again() -> None:
    scene = Scene(ids=["0", "1"])
    scene.actuator.set_nodes(4)
    scene.actuator.set_nodes(2)
    scene.spark.add("2")
    scene.poll()
    assert scene.actuator.set_nodes(4) == (4, 0, "")
    assert [a.nodes for a in scene.actuator.under_way()] == [1]
    scene.spark.add("3")
    scene.poll()
    assert scene.actuator.under_way() == []
    scene.clock.advance(130.0)
    assert scene.actuator.withdraw_overdue() == 0


def test_a_surplus_is_let_go_when_fewer_are_wanted() -> None:
    scene = Scene(ids=["0", "1"])
    scene.actuator.set_nodes(2)
    scene.spark.add("2")
    scene.poll()
    assert scene.actuator.set_nodes(2)[2].startswith("removing executor 2")
    scene.drained()
    scene.poll()
    assert (scene.actuator.requested, scene.spark.totals[-1]) == (2, 2)


@pytest.mark.parametrize("completed", [0, 1])
def test_lead_time_counts_to_the_first_finished_task(completed: int) -> None:
    requests = ExecutorRequests(12.0)
    requests.add(100.0, 1)
    newcomer = ExecutorInfo("1", True, 1, 1, 1, 1, completed, 0, 0, 0, 104_000)
    measured = requests.update(109.0, [newcomer])
    assert measured == ([("1", 9.0)] if completed else [])
    assert requests.lead_time_s == (9.0 if completed else 12.0)
