"""The table as a file: readable JSON with its parameters, one state per line, and a checksum.

::

    {"format": "ebbflow learner table", "version": 1, "sha256": "…",
     "parameters": {"latencyGranularity": 1.0, "maxLatency": 30.0, …},
     "decisions": 8640,
     "states": [
      {"latency": 4, "direction": "rising", "messages": 0, "region": 1, "latency_s": 4.0,
       "out": {"value": 0.31, "visits": 12, "variance": 0.02, "reward_sum": 3.9, "next": {"5 rising 0": 12}}, …},
      …

``region`` and ``latency_s`` are for readers. The checksum notices an edit (``core.checked_file``).

A table is for one set of ``parameters``: those that say what its states, actions, rewards and values mean. Another set
is refused. One change is exact and therefore allowed: another ``maxLatency``, if no state was met at the steps that it
adds, merges or splits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ebbflow.core.checked_file import Document, FileFormat
from ebbflow.errors import TableError
from ebbflow.strategies.learner.q_table import Entry, QTable
from ebbflow.strategies.learner.state import Action, Direction, State, StateSpace

Parameters = Mapping[str, float | int | str | None]
"""By their names in Table 5.4."""


class _Action(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    value: float
    visits: int
    variance: float
    reward_sum: float
    next: dict[str, int]


class _State(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    latency: int
    direction: Direction
    messages: int
    region: int
    latency_s: float
    out: _Action
    scale_in: _Action = msgspec.field(name="in")
    none: _Action


class _Document(Document, frozen=True, kw_only=True, forbid_unknown_fields=True):
    parameters: dict[str, float | int | str | None]
    decisions: int
    states: list[_State]


FORMAT = FileFormat(
    content=_Document,
    format="ebbflow learner table",
    version=1,
    noun="learner table",
    again="train it again with `ebbflow learner train`",
    largest_bytes=200_000_000,
    error=TableError,
)


@dataclass(frozen=True, kw_only=True)
class StoredTable:
    """What a file holds."""

    parameters: Parameters
    decisions: int
    """Decisions made so far."""
    entries: Mapping[State, Entry]

    @property
    def space(self) -> StateSpace:
        """The state space of its parameters."""
        each = self.parameters["incomingMessageGranularity"]
        return StateSpace(
            granularity_s=_number(self.parameters, "latencyGranularity"),
            max_latency_s=_number(self.parameters, "maxLatency"),
            target_latency_s=_number(self.parameters, "targetLatency"),
            messages_per_state=None if each is None else float(each),
        )


def to_text(table: QTable, space: StateSpace, parameters: Parameters, decisions: int) -> str:
    """A table as the text of a file."""
    document = FORMAT.signed(
        _Document(
            parameters=dict(parameters),
            decisions=decisions,
            states=[_encoded(state, table[state], space) for state in sorted(table)],
        )
    )
    head = msgspec.json.encode(
        {name: value for name, value in msgspec.structs.asdict(document).items() if name != "states"}
    ).decode()
    states = ",\n".join(msgspec.json.encode(state).decode() for state in document.states)
    return f'{head[:-1]},"states":[\n{states}\n]}}\n'


def read(path: Path) -> StoredTable:
    """Read a file. Raises ``TableError`` if that is not possible, or if the file was changed."""
    return _stored(FORMAT.read(path), str(path))


def from_text(text: str, where: str) -> StoredTable:
    """Read a table from text.

    >>> from_text('{"format": "ebbflow learner table", "version": 1, "sha', "t.json")
    Traceback (most recent call last):
    ...
    ebbflow.errors.TableError: t.json is not a whole learner table: Input data was truncated; it was cut off or \
edited; use a copy, or train it again with `ebbflow learner train`
    """
    return _stored(FORMAT.decode(text, where), where)


def _stored(document: _Document, where: str) -> StoredTable:
    met = _States()
    try:
        entries = {State(s.latency, s.direction, s.messages): _entry(s, met) for s in document.states}
    except ValueError as error:
        raise TableError(
            f"{where} has a next state that cannot be read: {error}; use a copy, or {FORMAT.again}"
        ) from None
    stored = StoredTable(parameters=document.parameters, decisions=document.decisions, entries=entries)
    _check_numbers(stored, where)
    return stored


def fitting(stored: StoredTable, parameters: Parameters, where: str) -> dict[State, Entry]:
    """The entries of a stored table for a set of parameters. Raises ``TableError`` if they do not fit."""
    differing = [name for name in parameters if stored.parameters.get(name) != parameters[name]]
    if not differing:
        return dict(stored.entries)
    if differing == ["maxLatency"]:
        last = min(stored.space.last, StoredTable(parameters=parameters, decisions=0, entries={}).space.last)
        # Up to here both have the same steps. The step `last` itself is open-ended in one of them.
        if not any(_met_beyond(state, entry, last) for state, entry in stored.entries.items()):
            return {state: entry for state, entry in stored.entries.items() if state.latency < last}
    name = differing[0]
    was, wanted = stored.parameters.get(name), parameters[name]
    raise TableError(
        f"{where} was learned with {name}={_shown(was)}, and this learner has {name}={_shown(wanted)}; "
        f"set {name}={_shown(was)}, or start another table"
    )


def _met_beyond(state: State, entry: Entry, last: int) -> bool:
    """Whether a step at or beyond ``last`` was visited, or reached from here."""
    reached = any(each.latency >= last for followed in entry.followed_by for each in followed)
    return reached or (state.latency >= last and any(entry.visits))


# -- parts of a document -------------------------------------------------------------------------------------------


def _encoded(state: State, entry: Entry, space: StateSpace) -> _State:
    out, scale_in, none = (
        _Action(
            value=entry.values[action],
            visits=entry.visits[action],
            variance=entry.variance[action],
            reward_sum=entry.reward_sums[action],
            next={_key(state): count for state, count in sorted(entry.followed_by[action].items())},
        )
        for action in (Action.OUT, Action.IN, Action.NONE)
    )
    return _State(
        latency=state.latency,
        direction=state.direction,
        messages=state.messages,
        region=int(space.region(state)),
        latency_s=space.latency_s(state),
        out=out,
        scale_in=scale_in,
        none=none,
    )


def _entry(each: _State, met: _States) -> Entry:
    actions = (each.out, each.scale_in, each.none)
    out, scale_in, none = ({met[key]: count for key, count in a.next.items()} for a in actions)
    return Entry(
        values=[a.value for a in actions],
        visits=[a.visits for a in actions],
        variance=[a.variance for a in actions],
        reward_sums=[a.reward_sum for a in actions],
        followed_by=(out, scale_in, none),
    )


def _key(state: State) -> str:
    return f"{state.latency} {state.direction} {state.messages}"


class _States(dict[str, State]):
    """States by their keys. Each is read once, however often it follows others."""

    def __missing__(self, key: str) -> State:
        latency, direction, messages = key.split(" ")
        state = self[key] = State(int(latency), Direction(direction), int(messages))
        return state


def _number(parameters: Parameters, name: str) -> float:
    value = parameters.get(name)
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or value <= 0
    ):
        raise TableError(f"a table has {name}={_shown(value)}; it must be a number above 0")
    return float(value)


def _check_numbers(stored: StoredTable, where: str) -> None:
    """Check the values too: an edited table can carry a valid checksum."""
    last = stored.space.last
    for state, entry in stored.entries.items():
        finite = all(map(math.isfinite, (*entry.values, *entry.variance, *entry.reward_sums)))
        counted = all(visits >= 0 for visits in entry.visits) and all(v >= 0 for v in entry.variance)
        if not (finite and counted and 0 <= state.latency <= last and state.messages >= 0):
            raise TableError(f"{where} has impossible numbers in the state '{_key(state)}'; train it again")


def _shown(value: object) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
