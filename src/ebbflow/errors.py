"""Everything Ebbflow raises on purpose.

::

    EbbflowError
    ├── InputError            a person wrote something that cannot be meant; commands exit with code 2
    │   ├── DurationError     "5 parsecs"
    │   ├── LoadError         "sinus(...)", a trace that goes back in time
    │   ├── SloError          "freshness below 30"
    │   ├── LimitsError       executors 5:2
    │   ├── PipelineError     a cycle, a stream to nowhere
    │   ├── ProfileError      a profile of a newer version, a model without its numbers
    │   ├── PolicyError       a rule without a trigger, percent of a queue, rules that fight each other
    │   └── UnknownNameError  a strategy, option or shape that does not exist
    ├── TargetError           the thing that is scaled does not answer as it should
    │   ├── UnreachableError  no Spark master at that address
    │   └── TargetGoneError   it has ended; there is nothing left to scale
    ├── MessageError          what came over the wire is not what agents send
    └── StoreError            readings or ledger cannot be written or read
        └── NoStoreError      an empty file, a letter, a database of something else (an InputError too)

    EbbflowWarning            something works, but not the way it was meant to
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class EbbflowError(Exception):
    """Base of all errors of Ebbflow. Its text is one line that a person can act on."""


class InputError(EbbflowError, ValueError):
    """Something a person wrote is wrong; the text says what, where, and what would be right."""


class DurationError(InputError):
    """A duration that does not parse."""


class LoadError(InputError):
    """A load expression or trace that makes no sense."""


class SloError(InputError):
    """A service level objective that does not parse."""


class LimitsError(InputError):
    """Bounds that contradict themselves or each other."""


class PipelineError(InputError):
    """A graph of operators that is not a pipeline."""


class ProfileError(InputError):
    """A profile that cannot be read."""


class PolicyError(InputError):
    """A policy that cannot be meant. ``problems`` has one line for each thing that is wrong.

    >>> str(PolicyError("a.toml:3:8: no metric", "a.toml:9:1: no name"))
    'a.toml:3:8: no metric (and 1 more)'
    """

    def __init__(self, *problems: str, key: str = "", keys: Iterable[str] = ()) -> None:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}")
        self.problems = problems
        self.keys = tuple(keys) or (key,) * len(problems)
        """Which key of the table each of them is about; empty where it is none."""


class UnknownNameError(InputError):
    """A name that is not in its catalogue.

    >>> str(UnknownNameError("strategy", "capasity", ["capacity", "static"]))
    "unknown strategy 'capasity': did you mean 'capacity'? There are: capacity, static"
    """

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean '{close[0]}'? " if close else ""
        super().__init__(f"unknown {what} '{name}': {hint}There are: {', '.join(names)}")


class TargetError(EbbflowError):
    """The thing that is scaled does not answer as it should."""


class UnreachableError(TargetError):
    """Nothing answers at the address of a cluster."""


class TargetGoneError(TargetError):
    """The target has ended for good."""


class MessageError(EbbflowError):
    """What came over the wire is not what agents send."""


class StoreError(EbbflowError):
    """Readings or ledger cannot be written or read."""


class NoStoreError(StoreError, InputError):
    """A file that was named as a store and is none, or a broken one."""


class EbbflowWarning(UserWarning):
    """Something works, but not the way it was meant to."""
