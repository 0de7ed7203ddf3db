"""What the actuator requests of Spark as executors register, stay away, leave and die."""

from __future__ import annotations

import math

import pytest
from fake_spark import Scene

from ebbflow.core.clock import ManualClock
from ebbflow.core.snapshot import ActionKind
from ebbflow.errors import TargetError
from ebbflow.targets.spark.driver import ExecutorInfo
from ebbflow.targets.spark.observe.lead_time import ExecutorRequests, LeadTime


def test_growth_is_requested_once_and_under_way_until_the_executors_are_live() -> None:
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


def test_executors_that_do_not_fit_are_reported_and_not_requested() -> None:
    scene = Scene(capacity=2)
    assert scene.actuator.set_nodes(5) == (2, 3, "no free cores")
    assert scene.spark.totals == [2]


def test_pending_requests_are_withdrawn_without_removing_live_executors() -> None:
    scene = Scene()
    scene.actuator.set_nodes(4)
    assert scene.actuator.set_nodes(2) == (2, 0, "")
    assert scene.spark.totals == [4, 2]
    assert [a.nodes for a in scene.actuator.under_way()] == [1]
    assert scene.spark.decommissioned == []


def test_the_executor_with_least_state_is_removed_and_not_replaced() -> None:
    scene = Scene(ids=["0", "1", "2"], state={"1": 4, "2": 1, "0": 2})
    requested, infeasible, note = scene.actuator.set_nodes(2)
    assert (requested, infeasible) == (2, 0)
    assert "executor 2" in note
    assert "1 state partition to reload" in note
    scene.drained()
    assert scene.spark.decommissioned == ["2"]
    assert scene.spark.totals[-1] == 2
    assert scene.spark.killed == []


def test_an_executor_that_does_not_leave_by_the_deadline_is_killed() -> None:
    scene = Scene(ids=["0", "1"], leaves_when_decommissioned=False)
    scene.actuator.set_nodes(1)
    scene.drained()
    assert scene.spark.decommissioned == ["1"]
    assert scene.spark.killed == ["1"]


def test_a_query_without_pauses_delays_a_drain_but_does_not_prevent_it() -> None:
    scene = Scene(ids=["0", "1"], busy=True)
    scene.actuator.set_nodes(1)
    scene.drained()
    assert scene.clock.monotonic_s() >= 1.0 - 1e-9, "it waited for a pause first"
    assert scene.spark.decommissioned == ["1"]


def test_growth_cancels_a_drain_that_has_not_begun_and_requests_only_the_rest() -> None:
    scene = Scene(ids=["0", "1", "2"])
    scene.actuator.set_nodes(3)
    drain = scene.actuator._drain
    assert drain is None

    class Waiting:
        victims = frozenset({"1", "2"})
        since_s = 0.0
        ends_by_s = math.inf
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
    assert [a.nodes for a in scene.actuator.under_way()] == [1], "two of the four are live and stay"


def test_a_lost_executor_counts_as_requested_until_it_is_replaced() -> None:
    scene = Scene(ids=["0", "1"])
    scene.actuator.set_nodes(2)
    scene.spark.ids.remove("1")
    scene.poll()
    assert [a.nodes for a in scene.actuator.under_way()] == [1]
    scene.spark.add("7")
    scene.poll()
    assert scene.actuator.under_way() == []


def test_overdue_requests_are_withdrawn() -> None:
    scene = Scene()
    scene.actuator.set_nodes(3)
    scene.clock.advance(119.0)
    assert scene.actuator.withdraw_overdue() == 0
    scene.clock.advance(2.0)
    assert scene.actuator.withdraw_overdue() == 2
    assert scene.actuator.requested == 1
    assert scene.spark.totals[-1] == 1
    assert scene.actuator.under_way() == []


def test_withdrawing_requests_keeps_the_minimum() -> None:
    scene = Scene(min_nodes=3)
    scene.actuator.set_nodes(5)
    scene.clock.advance(121.0)
    assert scene.actuator.withdraw_overdue() == 2
    assert scene.actuator.requested == 3
    assert scene.spark.totals[-1] == 3
    assert [a.nodes for a in scene.actuator.under_way()] == [2], "two of the three are still pending"
    requests = list(scene.spark.totals)
    assert scene.actuator.withdraw_overdue() == 0
    assert scene.spark.totals == requests, "no second request"


def test_requested_executors_count_against_the_capacity() -> None:
    scene = Scene(capacity=4)
    scene.actuator.set_nodes(3)
    assert scene.actuator.set_nodes(6) == (4, 2, "no free cores"), "two are pending, so one more fits"


def test_an_executor_that_has_left_since_the_last_poll_does_not_count_as_staying() -> None:
    scene = Scene(ids=["0", "1", "2"], state={"0": 2})
    scene.spark.last_poll = scene.spark.executors()
    scene.actuator.set_nodes(2)
    scene.drained()
    assert scene.spark.ids == ["0", "1"]
    assert [e.id for e in scene.actuator.staying()] == ["0", "1"], "executor 2 has left since the poll"
    assert [a.kind for a in scene.actuator.under_way()] == [ActionKind.SHRINK]
    assert scene.actuator.set_nodes(2) == (2, 0, "")
    assert scene.actuator.set_nodes(1) == (2, 0, "the last scale-in is still in progress")
    assert scene.spark.decommissioned == ["2"], "no other executor is removed in its place"
    scene.poll()
    assert scene.actuator.under_way() == []
    assert scene.actuator.set_nodes(1)[0] == 1
    scene.drained()
    assert scene.spark.decommissioned == ["2", "1"]


def test_an_executor_that_survives_its_drain_counts_as_staying_in_the_end() -> None:
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


def test_a_failed_drain_keeps_the_executors_that_were_not_decommissioned() -> None:
    scene = Scene(ids=["0", "1", "2"])
    decommission = scene.spark.decommission

    def only_one(executor_id: str) -> bool:
        if scene.spark.decommissioned:
            raise TargetError("the driver does not answer")
        return decommission(executor_id)

    scene.spark.decommission = only_one  # type: ignore[method-assign]
    assert scene.actuator.set_nodes(1)[0] == 1
    scene.drained()
    scene.poll()
    assert scene.spark.ids == ["0", "2"]
    assert [e.id for e in scene.actuator.staying()] == ["0", "2"]
    assert scene.actuator.requested == 2, "the executors that stay count as requested"


def test_executors_that_were_starting_already_count_as_requested() -> None:
    scene = Scene(capacity=1)
    assert scene.actuator.set_nodes(3) == (1, 2, "no free cores")
    scene.spark.add("1", "2")
    scene.poll()
    assert scene.actuator.requested == 3
    assert scene.actuator.set_nodes(3) == (3, 0, "")
    assert scene.spark.totals[-1] == 3, "Spark replaces what is lost up to that"


def test_an_executor_that_registers_after_its_request_was_withdrawn_is_not_requested_again() -> None:
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


def test_a_surplus_executor_is_removed_when_fewer_are_wanted() -> None:
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
    clock = ManualClock(100.0)
    requests = ExecutorRequests(clock, 12.0)
    requests.add(1)
    clock.set(50_000.0)  # the wall clock leaps, which is not waiting
    clock.advance(9.0)
    newcomer = ExecutorInfo("1", True, 1, 1, 1, completed, 0, 0, 0, 104_000)
    measured = requests.update([newcomer])
    assert measured == ([LeadTime(executor="1", lead_time_s=9.0)] if completed else [])
    assert requests.lead_time_s == (9.0 if completed else 12.0)
