"""The pipeline among the terms of a store: operators and streams, where they are known before a run begins.

In the simulator they are. On Spark only the batches of a job show what operators it has, so that no store of ``attach``
has this term.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ebbflow.core.pipeline import Operator, Pipeline, Stream

PIPELINE = "pipeline"


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    operators: tuple[Operator, ...]
    streams: tuple[Stream, ...]


def pipeline_term(pipeline: Pipeline) -> str:
    """A pipeline as JSON.

    >>> pipeline_term(Pipeline(name="p", operators=(Operator(name="read", query="p"),)))
    '{"name":"p","operators":[{"name":"read","stateful":false,"boundary":false,"query":"p"}],"streams":[]}'
    """
    kept = _Kept(name=pipeline.name, operators=pipeline.operators, streams=pipeline.streams)
    return msgspec.json.encode(kept).decode()


def pipeline_of(terms: Mapping[str, str]) -> Pipeline | None:
    """The pipeline in the terms of a store; None where it is not there, or as another version writes it.

    >>> words = Pipeline.chain("words", "read", "split")
    >>> pipeline_of({"pipeline": pipeline_term(words)}) == words
    True
    """
    if PIPELINE not in terms:
        return None
    try:
        kept = msgspec.json.decode(terms[PIPELINE], type=_Kept)
        return Pipeline(name=kept.name, operators=kept.operators, streams=kept.streams)
    except ValueError:  # PipelineError and msgspec's are both
        return None
