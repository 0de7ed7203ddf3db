"""What went wrong in a query, in our own words where they are ours."""

from __future__ import annotations

import re

from ebbflow import errors
from ebbflow.errors import EbbflowError, InputError, TargetError

_OURS = re.compile(r"\bebbflow\.errors\.(\w+): (.+)")


def failure_of(error: Exception) -> EbbflowError:
    """Sources, sinks and steps raise in Python processes of Spark; their error comes back as the last line of a
    traceback, deep in a text of Spark's.

    >>> failure_of(Exception("Job aborted: Traceback\\n  …\\nebbflow.errors.InputError: cannot read a.gz\\n\\tat org…"))
    InputError('cannot read a.gz')
    >>> failure_of(Exception("Job aborted\\n\\tat org…"))
    TargetError('the query failed: Job aborted')
    """
    text = str(error).strip()
    ours = _OURS.findall(text)
    if ours:
        name, words = ours[-1]
        kind = getattr(errors, name, TargetError)
        is_input = isinstance(kind, type) and issubclass(kind, InputError)
        return (InputError if is_input else TargetError)(words.strip())
    return TargetError(f"the query failed: {(text.splitlines() or [type(error).__name__])[0]}")
