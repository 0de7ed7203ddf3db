"""All errors that Ebbflow raises on purpose.

::

    EbbflowError
    ├── InputError             invalid user input; commands exit with code 2
    │   ├── DurationError      "5 parsecs"
    │   ├── LoadError          "sinus(...)", a trace that goes back in time
    │   │   └── StepError      steps of 10 s from a trace of minutes
    │   ├── SloError           "freshness below 30"
    │   ├── LimitsError        executors 5:2
    │   ├── PipelineError      a cycle, a stream to an operator that does not exist
    │   ├── ProfileError       a profile of a newer version, a model without numbers
    │   ├── TableError         a table of learner that was cut off, or learned with other parameters
    │   ├── PolicyError        a rule without a trigger, rules that contradict each other
    │   ├── FleetError         a fleet file with a cycle, a stream with two writers
    │   ├── UnknownNameError   a strategy, option or load shape that does not exist
    │   └── TooFewEventsError  a generated trace with fewer events than its machines need
    ├── TargetError            the target does not answer as expected
    │   ├── UnreachableError   no Spark master at that address
    │   ├── TargetGoneError    the target has ended
    │   └── OutdatedError      someone else changed the record of a query first
    ├── MessageError           an invalid message from an agent or a host
    ├── RunFailedError         a run of a comparison failed
    ├── StrategyError          a strategy wants 2.5 nodes, or does not decide in time
    └── StoreError             readings or ledger cannot be read or written
        └── NoStoreError       the file is not a store, or a damaged one (also an InputError)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class EbbflowError(Exception):
    """Base class of all errors. The message is one line that says what to do."""


class InputError(EbbflowError, ValueError):
    """Invalid user input. The message says what is wrong, where, and what would be right."""


class DurationError(InputError):
    """A duration that does not parse."""


class LoadError(InputError):
    """A load expression or trace that does not parse."""


class StepError(LoadError):
    """The samples of a load do not make up steps of the requested length."""


class SloError(InputError):
    """A service level objective that does not parse."""


class LimitsError(InputError):
    """Bounds that contradict each other."""


class PipelineError(InputError):
    """Operators and streams that do not form a pipeline."""


class ProfileError(InputError):
    """A profile that cannot be read."""


class TableError(InputError):
    """A table of learner that cannot be used."""


class PolicyError(InputError):
    """An invalid policy. ``problems`` has one line for each problem.

    >>> str(PolicyError("a.toml:3:8: no metric", "a.toml:9:1: no name"))
    'a.toml:3:8: no metric (and 1 more)'
    """

    def __init__(self, *problems: str, key: str = "", keys: Iterable[str] = ()) -> None:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}")
        self.problems = problems
        self.keys = tuple(keys) or (key,) * len(problems)
        """The key of the table that each problem is about; empty if it is about none."""


class FleetError(InputError):
    """An invalid fleet file. ``problems`` has one line for each problem.

    >>> str(FleetError("a.toml:3: no master", "a.toml:9: no application"))
    'a.toml:3: no master (and 1 more)'
    """

    def __init__(self, *problems: str) -> None:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}")
        self.problems = problems


class UnknownNameError(InputError):
    """A name that does not exist. The message suggests a similar one.

    >>> str(UnknownNameError("strategy", "capasity", ["capacity", "static"]))
    "unknown strategy 'capasity': did you mean 'capacity'? There are: capacity, static"
    >>> str(UnknownNameError("strategy", "magic", ["capacity", "static"]))
    "unknown strategy 'magic'; there are: capacity, static"
    """

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        close = difflib.get_close_matches(name, names, n=1)
        there = f": did you mean '{close[0]}'? There are:" if close else "; there are:"
        super().__init__(f"unknown {what} '{name}'{there} {', '.join(names)}")


class TooFewEventsError(InputError):
    """A trace to generate has fewer events than its machines need.

    >>> error = TooFewEventsError("10 events are too few; use 40 events", ", or 1 machine")
    >>> str(error), error.events_only
    ('10 events are too few; use 40 events, or 1 machine', '10 events are too few; use 40 events')
    """

    def __init__(self, message: str, fewer_machines: str = "") -> None:
        super().__init__(message + fewer_machines)
        self.events_only = message
        """The message without the advice to use fewer machines."""


class TargetError(EbbflowError):
    """The target does not answer as expected."""


class UnreachableError(TargetError):
    """No cluster answers at the given address."""


class TargetGoneError(TargetError):
    """The target has ended."""


class OutdatedError(TargetError):
    """The record of a query was changed by someone else in the meantime."""


class MessageError(EbbflowError):
    """An invalid message from an agent or a host."""


class RunFailedError(EbbflowError):
    """A run of a comparison failed."""


class StrategyError(EbbflowError):
    """A strategy failed: its decision cannot be carried out, or it took too long."""


class StoreError(EbbflowError):
    """Readings or ledger cannot be read or written."""


class NoStoreError(StoreError, InputError):
    """The file is not a store, or a damaged one."""
