"""What went wrong in a query, in our own words where they are ours."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from ebbflow import errors
from ebbflow.errors import EbbflowError, InputError, TargetError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_OURS = re.compile(r"\bebbflow\.errors\.(\w+): (.+)")


def failure_of(error: Exception) -> EbbflowError:
    """Sources, sinks and steps raise in Python processes of Spark; their error comes back as the last line of a
    traceback, deep in a text of Spark's.

    >>> failure_of(Exception("Job aborted: Traceback\\n  …\\nebbflow.errors.InputError: cannot read a.gz\\n\\tat org…"))
    InputError('cannot read a.gz')
    >>> failure_of(Exception("Job aborted\\n\\tat org…"))
    TargetError('the query failed: Job aborted')
    """
    if isinstance(error, EbbflowError):
        return error
    text = str(error).strip()
    ours = _OURS.findall(text)
    if ours:
        name, words = ours[-1]
        kind = getattr(errors, name, TargetError)
        is_input = isinstance(kind, type) and issubclass(kind, InputError)
        return (InputError if is_input else TargetError)(words.strip())
    return TargetError(f"the query failed: {(text.splitlines() or [type(error).__name__])[0]}")


def failure_in(query: StreamingQuery) -> Exception | None:
    """What a query has failed of, be it that nobody answers any more; None while it runs."""
    try:
        return query.exception()
    except Py4JError as error:
        return TargetError(
            f"the driver does not answer: {(str(error).splitlines() or [type(error).__name__])[0]}"
        )
