"""Messages between a controller and a host: requests, and one answer to each.

::

    request    [version, number, request]      answer    [version, number, answer]       (MessagePack)

Every answer comes at once. What takes longer, such as the start of a query, shows in later reports. Requests can be
repeated: a start under a token that runs already, or a stop of what has stopped, changes nothing.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated, Literal

import msgspec

from ebbflow.core.batches import Batch
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.errors import MessageError, UnknownNameError

VERSION: Literal[1] = 1
LARGEST_REQUEST = 64 * 1024
LARGEST_ANSWER = 16 * 1024 * 1024

Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{1,128}\Z")]
Token = Annotated[int, msgspec.Meta(ge=0)]


class Start(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="start"):
    """Start a query under a token."""

    query: Name
    token: Token


class Stop(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="stop"):
    """Stop a query after its running batch, if it runs under this token or an older one."""

    query: Name
    token: Token


class SetExecutors(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="set-executors"
):
    """Request a number of executors."""

    nodes: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class Ask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="ask"):
    """Report. With ``after``, also what was measured since the measurement of that number."""

    after: int | None = None


class Shutdown(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="shutdown"):
    """Stop all queries after their running batches, and end."""


class Done(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="done"):
    """The request was accepted."""

    requested: int = 0
    """Executors now requested."""
    infeasible: int = 0
    note: str = ""


class Refused(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="refused"):
    """The request was not accepted."""

    why: str


class QueryPhase(StrEnum):
    """What a query of a host does."""

    STARTING = "starting"
    RUNNING = "running"
    """It has finished a batch, or waits for data."""
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


class QueryState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="query"):
    """A query of a host."""

    name: Name
    token: Token
    phase: QueryPhase
    error: str = ""
    running_s: float = 0.0
    """When it was seen running first."""
    ended_s: float = 0.0
    """When it had stopped or failed."""
    batch_id: int = -1
    rate_per_s: float | None = None
    """Rows that arrive per second; None before its second batch."""


class Change(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="change"):
    """A change of executors that is under way."""

    grows: bool
    since_s: float
    nodes: int
    note: str = ""


class Measured(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="measured"):
    """What one poll of the application brought."""

    number: int
    readings: list[tuple[float, str, str, float]]
    batches: list[Batch]
    first_batches: list[Batch]


class Report(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="report"):
    """A host and its queries."""

    application: Name
    boot: str
    time_s: float
    """When the application was polled last."""
    nodes: int
    requested: int
    held: int
    slots_per_node: int
    lead_time_s: float
    changes: list[Change] = []
    given_up_nodes: int = 0
    """Executors given up so far."""
    queries: list[QueryState] = []
    current_batches: dict[str, float | None] = {}
    read_limited: list[str] = []
    measured: list[Measured] = []
    error: str = ""
    """Why the application could not be polled."""

    def query(self, name: str) -> QueryState | None:
        """The state of a query; None if the host does not know it."""
        return next((each for each in self.queries if each.name == name), None)


Request = Start | Stop | SetExecutors | Ask | Shutdown
Answer = Done | Refused | Report


class _Asked(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    number: Annotated[int, msgspec.Meta(ge=0)]
    request: Request


class _Answered(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    number: Annotated[int, msgspec.Meta(ge=0)]
    answer: Answer


_encode = msgspec.msgpack.Encoder().encode
_asked = msgspec.msgpack.Decoder(_Asked).decode
_answered = msgspec.msgpack.Decoder(_Answered).decode
_INVALID = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def encode_request(number: int, request: Request) -> bytes:
    """A request as a frame."""
    return _encode(_Asked(VERSION, number, request))


def encode_answer(number: int, answer: Answer) -> bytes:
    """An answer as a frame."""
    return _encode(_Answered(VERSION, number, answer))


def decode_request(body: bytes) -> tuple[int, Request]:
    """Decode a request, or raise ``MessageError``.

    >>> decode_request(encode_request(7, Stop(query="count", token=3)))
    (7, Stop(query='count', token=3))
    """
    if len(body) > LARGEST_REQUEST:
        raise MessageError(f"{len(body)} bytes; a request has at most {LARGEST_REQUEST}")
    try:
        asked = _asked(body)
    except _INVALID as error:
        raise MessageError(f"not a request of version {VERSION}: {error}") from None
    return asked.number, asked.request


def decode_answer(body: bytes) -> tuple[int, Answer]:
    """Decode an answer, or raise ``MessageError``."""
    if len(body) > LARGEST_ANSWER:
        raise MessageError(f"{len(body)} bytes; an answer has at most {LARGEST_ANSWER}")
    try:
        answered = _answered(body)
    except _INVALID as error:
        raise MessageError(f"not an answer of version {VERSION}: {error}") from None
    return answered.number, answered.answer


def pack_readings(readings: list[Reading]) -> list[tuple[float, str, str, float]]:
    """Readings as plain values."""
    return [(each.time_s, each.subject, each.metric.key, each.value) for each in readings]


def unpack_readings(packed: list[tuple[float, str, str, float]]) -> list[Reading]:
    """The inverse of ``pack_readings``; raises ``MessageError`` for an unknown metric or an impossible value."""
    try:
        found = [Reading(time_s, subject, Metric.of(key), value) for time_s, subject, key, value in packed]
    except UnknownNameError as error:
        raise MessageError(str(error)) from None
    for each in found:
        if not (math.isfinite(each.time_s) and 0 <= each.value < math.inf):
            raise MessageError(f"{each.value} is not a valid value for {each.metric.key} of {each.subject}")
    return found
