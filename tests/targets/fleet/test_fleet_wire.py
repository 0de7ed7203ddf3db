"""Controllers and hosts talk in typed messages; with keys only those who have them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import zmq

from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.errors import InputError, MessageError, TargetError
from ebbflow.monitoring.keys import agent_keys, collector_keys, make_keys
from ebbflow.targets.fleet.wire.messages import (
    Answer,
    Ask,
    Done,
    Refused,
    Report,
    Request,
    SetExecutors,
    Shutdown,
    Start,
    Stop,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
    pack_readings,
    unpack_readings,
)
from ebbflow.targets.fleet.wire.sockets import HostLink, HostSocket

REPORT = Report(
    application="left", boot="b", time_s=1.0, nodes=1, requested=1, held=1, slots_per_node=2, lead_time_s=0.0
)


@contextmanager
def serving(socket: HostSocket) -> Iterator[list[Request]]:
    """Answers requests with a report, or refuses to stop."""
    got: list[Request] = []
    stop = threading.Event()

    def answer(request: Request) -> Answer:
        got.append(request)
        if isinstance(request, Shutdown):
            raise RuntimeError("not now")
        return Refused(why="it is not here") if isinstance(request, Stop) else REPORT

    thread = threading.Thread(target=socket.serve, args=(answer, stop), daemon=True)
    thread.start()
    try:
        yield got
    finally:
        stop.set()
        thread.join(5.0)
        socket.close()


@pytest.mark.parametrize(
    "request_",
    [Start(query="a", token=1), Stop(query="a", token=1), SetExecutors(nodes=2), Ask(after=3), Shutdown()],
)
def test_requests_survive_the_wire(request_: Request) -> None:
    assert decode_request(encode_request(5, request_)) == (5, request_)


@pytest.mark.parametrize("answer", [Done(requested=2, infeasible=1, note="full"), Refused(why="no"), REPORT])
def test_answers_survive_the_wire(answer: Answer) -> None:
    assert decode_answer(encode_answer(5, answer)) == (5, answer)


@pytest.mark.parametrize(
    "body",
    [b"", b"\x80\x04K\x01.", b"\xc1", encode_request(1, Start(query="a b;rm", token=1)),
     encode_request(1, Start(query="a", token=-1)), encode_request(1, SetExecutors(nodes=0)), b"\x93" * 70_000,
     encode_request(1, Ask()).replace(b"ask", b"eat")],
)  # fmt: skip
def test_garbage_is_not_a_request(body: bytes) -> None:
    with pytest.raises(MessageError):
        decode_request(body)


def test_readings_survive_the_wire_and_impossible_ones_do_not() -> None:
    readings = [Reading(1.0, "count", Metric.EVENT_RATE, 2.0)]
    assert unpack_readings(pack_readings(readings)) == readings
    for key, value in (("event-rat", 1.0), ("event-rate", float("nan")), ("event-rate", -1.0)):
        with pytest.raises(MessageError):
            unpack_readings([(1.0, "count", key, value)])


def test_a_host_answers_refuses_and_survives_garbage(tmp_path) -> None:
    socket = HostSocket(f"ipc://{tmp_path}/host")
    assert oct((tmp_path / "host").stat().st_mode)[-3:] == "700"
    with serving(socket) as got:
        garbage = zmq.Context.instance().socket(zmq.DEALER)
        garbage.connect(socket.address)
        garbage.send(b"hello")
        garbage.send_multipart([b"a", b"b"])
        link = HostLink(socket.address)
        assert link.ask(Ask()) == REPORT
        assert link.ask(Stop(query="count", token=1)) == Refused(why="it is not here")
        assert link.ask(Shutdown()) == Refused(why="RuntimeError: not now")
        assert got == [Ask(), Stop(query="count", token=1), Shutdown()]
        link.close()
        garbage.close(linger=0)


def test_a_host_that_is_gone_is_an_error_in_time_and_its_successor_is_reached(tmp_path) -> None:
    address = f"ipc://{tmp_path}/host"
    link = HostLink(address)
    with pytest.raises(TargetError, match=r"did not answer within 0\.2 s"):
        link.ask(Ask(), within_s=0.2)
    with serving(HostSocket(address)):
        assert link.ask(Ask()) == REPORT
    link.close()


def test_with_keys_only_controllers_with_the_right_key_are_heard(tmp_path) -> None:
    make_keys(tmp_path / "ours")
    make_keys(tmp_path / "theirs")
    with serving(HostSocket("tcp://127.0.0.1:*", agent_keys(tmp_path / "ours" / "agent"))) as got:
        socket = HostSocket("tcp://127.0.0.1:*", agent_keys(tmp_path / "ours" / "agent"))
        with serving(socket) as heard:
            link = HostLink(socket.address, collector_keys(tmp_path / "ours" / "collector"))
            assert link.ask(Ask()) == REPORT
            for keys in (None, collector_keys(tmp_path / "theirs" / "collector")):
                stranger = HostLink(socket.address, keys)
                with pytest.raises(TargetError):
                    stranger.ask(Shutdown(), within_s=0.5)
                stranger.close()
            assert heard == [Ask()]
            link.close()
        assert got == []


def test_beyond_this_machine_keys_are_a_must() -> None:
    for make in (HostSocket, HostLink):
        with pytest.raises(InputError, match="can be reached from other machines, which needs keys"):
            make("tcp://10.1.2.3:7790")
