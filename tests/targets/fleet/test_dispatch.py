"""Queries start where they belong, move, and come back if a move fails; a controller may die at any step."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from fleet_worlds import FLEET, FakeLinks, World

from ebbflow.errors import InputError, OutdatedError
from ebbflow.targets.fleet import dispatch
from ebbflow.targets.fleet.checkpoint import holder_of
from ebbflow.targets.fleet.coordination import Coordination, Member, Record, Step
from ebbflow.targets.fleet.dispatch import Dispatcher, request_move
from ebbflow.targets.fleet.wire.messages import Answer, QueryPhase, Report, Request


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path)


def ask_move(world: World, query: str, application: str) -> Record:
    return request_move(world.fleet, world.coordination, query, application, world.clock.now_s())


def test_queries_start_where_the_file_says_each_under_a_token_of_its_own(world) -> None:
    world.settle(world.dispatcher())
    assert world.owners("count") == {"left"}
    assert world.record("count").token == 1
    claim = holder_of(world.fleet.queries["count"].checkpoint)
    assert claim is not None
    assert (claim.token, claim.application) == (1, "left")


def test_a_move_stops_first_then_starts_and_its_down_time_is_known(world) -> None:
    dispatcher = world.dispatcher()
    world.settle(dispatcher)
    ask_move(world, "count", "right")
    world.settle(dispatcher)
    assert world.owners("count") == {"right"}
    (moved,) = dispatcher.take_moved()
    assert (moved.source, moved.application, moved.why) == ("left", "right", "")
    assert moved.down_s is not None
    assert 0.0 <= moved.down_s <= moved.took_s + 0.01
    assert str(moved).startswith("moved count from left to right, down for ")
    assert world.record("count").moves == 1
    assert not world.two_owners


def test_a_query_that_does_not_start_comes_back_to_where_it_was(world) -> None:
    dispatcher = world.dispatcher()
    world.settle(dispatcher)
    world.broken.add(("right", "count"))
    ask_move(world, "count", "right")
    world.settle(dispatcher)
    assert world.owners("count") == {"left"}
    (moved,) = dispatcher.take_moved()
    assert moved.why == "no such table"
    assert world.record("count").why == "no such table"
    assert world.record("count").moves == 0


def test_a_move_to_an_application_without_a_host_is_called_off_while_the_query_runs_on(
    world, monkeypatch
) -> None:
    monkeypatch.setattr(dispatch, "HOST_WITHIN_S", 0.0)
    dispatcher = world.dispatcher()
    world.settle(dispatcher)
    before = world.record("count").token
    world.lose_host("right")
    ask_move(world, "count", "right")
    world.until(dispatcher, lambda: not world.record("count").is_moving, "the move to be called off")
    assert world.record("count").application == "left"
    assert world.record("count").token == before, "it was never stopped"
    assert world.owners("count") == {"left"}


@pytest.mark.parametrize(
    ("query", "application", "message"),
    [
        ("cuont", "right", "unknown operator 'cuont': did you mean 'count'"),
        ("count", "rihgt", "unknown application 'rihgt': did you mean 'right'"),
        ("fixed", "right", "operator fixed may not move; the fleet file says may-move = false"),
        ("count", "left", "operator count is in application left already"),
    ],
)
def test_moves_that_cannot_be_are_refused(world, query: str, application: str, message: str) -> None:
    world.settle(world.dispatcher())
    with pytest.raises(InputError, match=message):
        ask_move(world, query, application)


def test_a_second_move_waits_for_the_first(world) -> None:
    world.settle(world.dispatcher())
    ask_move(world, "count", "right")
    with pytest.raises(InputError, match="is moving from left to right already"):
        ask_move(world, "count", "right")


def test_a_query_that_fails_is_started_again_but_not_at_once(world, monkeypatch) -> None:
    dispatcher = world.dispatcher()
    world.settle(dispatcher)
    running = world.running["left", "count"]
    running.why = "disk full"
    running.stop(interrupt=True)
    states = world.hosts["left"].states
    world.until(dispatcher, lambda: states()[0].phase is QueryPhase.FAILED, "the failure to show")
    dispatcher.step()
    assert dispatcher.problems["count"] == "disk full"
    assert world.owners("count") == set(), "its next start waits"
    monkeypatch.setattr(dispatch, "AGAIN", dispatch.Backoff(first_s=0.0, longest_s=0.0))
    world.settle(dispatcher)
    assert world.record("count").token == 2


def test_a_host_that_does_not_answer_is_waited_for(world) -> None:
    dispatcher = world.dispatcher()
    world.settle(dispatcher)
    world.silent.add("left")
    ask_move(world, "count", "right")
    for _ in range(5):
        dispatcher.step()
    assert world.record("count").step is Step.STOPPING
    assert world.owners("count") == {"left"}, "it may be running there, so it is started nowhere else"
    world.silent.clear()
    world.settle(dispatcher)
    assert world.owners("count") == {"right"}


def test_queries_of_a_host_that_was_restarted_start_again_under_newer_tokens(world) -> None:
    dispatcher = world.dispatcher()
    world.settle(dispatcher)
    dead = world.lose_host("left")
    dead.stop_all(5.0, interrupt=True)
    world.start_host("left")
    world.settle(dispatcher)
    assert world.record("count").token == 2
    assert not world.two_owners


def test_queries_of_a_host_that_stays_away_go_elsewhere_if_they_may(world, monkeypatch) -> None:
    dispatcher = world.dispatcher()
    world.settle(dispatcher)
    world.lose_host("left").stop_all(5.0, interrupt=True)
    monkeypatch.setattr(dispatch, "FAIL_OVER_AFTER_S", 0.0)
    world.until(dispatcher, lambda: world.owners("count") == {"right"}, "count to go elsewhere")
    assert world.owners("fixed") == set()


# -- a controller that dies ----------------------------------------------------------------------


class KilledError(BaseException):
    """The controller is killed here."""


class Fuse:
    """Counts calls, and kills the controller before or after one of them."""

    def __init__(self, at: int) -> None:
        self._left = at

    def call(self, do):
        if self._left == 0:
            raise KilledError
        self._left -= 1
        done = do()
        if self._left == 0:
            raise KilledError
        self._left -= 1
        return done


class FusedCoordination:
    """A coordination whose writes are counted."""

    def __init__(self, wrapped: Coordination, fuse: Fuse) -> None:
        self._wrapped, self._fuse = wrapped, fuse

    def change(self, before: Record | None, after: Record) -> Record:
        return self._fuse.call(lambda: self._wrapped.change(before, after))

    def __getattr__(self, name: str):
        return getattr(self._wrapped, name)


class FusedLinks(FakeLinks):
    """Connections whose commands are counted; reports are not, they change nothing."""

    def __init__(self, world: World, fuse: Fuse) -> None:
        super().__init__(world)
        self._fuse = fuse

    def update(self) -> Mapping[str, Member]:
        return super().update()

    def ask(self, application: str, request: Request) -> Answer:
        return self._fuse.call(lambda: FakeLinks.ask(self, application, request))

    def report(self, application: str, after: int | None = None) -> Report:
        return FakeLinks(self._world).report(application, after)


@pytest.mark.parametrize("fails", [False, True], ids=["move", "move that fails"])
def test_a_controller_killed_at_any_step_of_a_move_leaves_one_owner_and_the_next_one_finishes(
    tmp_path, fails: bool
) -> None:
    """Before and after every write and every command; the world is the same one for all of them."""
    world = World(tmp_path)
    if fails:
        world.broken.add(("right", "count"))
    world.settle(world.dispatcher())
    deaths = 0
    for at in itertools.count():
        fuse = Fuse(at)
        dying = Dispatcher(
            world.fleet, FusedCoordination(world.coordination, fuse), FusedLinks(world, fuse), world.clock
        )  # type: ignore[arg-type]
        source = world.record("count").application
        target = "right" if source == "left" else "left"
        ask_move(world, "count", target)
        try:
            world.settle(dying)
            survived = True
        except KilledError:
            survived = False
            deaths += 1
        assert len(world.owners("count")) <= 1
        world.settle(world.dispatcher())
        assert world.record("count").application == (source if fails else target), f"killed at {at}"
        assert not world.two_owners
        if survived:
            break
    assert deaths >= 6, "the fuse must have burnt at every write and command"


# -- leases --------------------------------------------------------------------------------------


def test_a_paused_host_stops_its_query_when_it_wakes_and_refuses_to_start_it(world) -> None:
    dispatcher = world.dispatcher()
    world.settle(dispatcher)
    paused = world.lose_host("left")  # its query goes on: nobody told it
    ask_move(world, "count", "right")
    world.until(dispatcher, lambda: "right" in world.owners("count"), "count to run elsewhere")
    assert world.two_owners, "until it wakes, only the checkpoint and the sink can tell"
    assert "count" in paused.check_leases()
    world.until(dispatcher, lambda: world.owners("count") == {"right"}, "the lease to stop the other")
    world.until(dispatcher, lambda: _state(paused, "count").phase is QueryPhase.STOPPED, "its end")
    assert paused.start("count", world.record("count").token) == ""
    world.until(dispatcher, lambda: _state(paused, "count").phase is QueryPhase.FAILED, "the refusal")
    assert "belongs in application right" in _state(paused, "count").error
    assert world.owners("count") == {"right"}


def _state(host, query: str):
    return next(each for each in host.states() if each.name == query)


@pytest.mark.parametrize("fenced", [True, False])
def test_an_outdated_start_makes_two_owners_only_without_the_lease(tmp_path, fenced: bool) -> None:
    """The negative control: with fencing off, the same accounting sees two owners."""
    world = World(tmp_path, fenced=fenced)
    dispatcher = world.dispatcher()
    world.settle(dispatcher)
    old = world.record("count").token
    stopped = world.lose_host("left")
    stopped.stop_all(5.0, interrupt=True)
    ask_move(world, "count", "right")
    world.until(dispatcher, lambda: world.owners("count") == {"right"}, "count to run elsewhere")
    world.start_host("left")
    world.hosts["left"].start("count", old)  # from a controller that was paused
    world.until(
        dispatcher, lambda: bool(world.two_owners) or _state(world.hosts["left"], "count").phase is QueryPhase.FAILED,
        "the start to succeed or fail",
    )  # fmt: skip
    assert bool(world.two_owners) is not fenced


def test_a_claim_with_a_higher_token_voids_the_record(world) -> None:
    """A host with an old copy of the store is refused by the checkpoint itself."""
    same = f'stateful = true\ncheckpoint = "{world.fleet.queries["count"].checkpoint}"'
    copy = World(world.fleet.folder.parent / "copy", text=FLEET.replace("stateful = true", same))
    world.settle(world.dispatcher())
    copy.coordination.change(None, Record(query="count", application="left", token=1))
    copy.hosts["left"].start("count", 1)
    failed = QueryPhase.FAILED
    world.until(world.dispatcher(), lambda: _state(copy.hosts["left"], "count").phase is failed, "refusal")
    assert "token 1 of query count has been used" in _state(copy.hosts["left"], "count").error


def test_of_two_controllers_only_one_changes_a_record(world) -> None:
    world.settle(world.dispatcher())
    seen = world.record("count")
    ask_move(world, "count", "right")
    with pytest.raises(OutdatedError):
        world.coordination.change(seen, seen)
