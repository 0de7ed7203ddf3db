"""Which series a policy needs, so that a collector subscribes to those and to nothing else (Rules, §5.4).

What a metric of a trigger is about:

=====================  ===================================================================================
the trigger says of    that subject
about an operator      the rule's operator; of a rule for each operator, every operator
``queue-length``       of an operator: its ``operator-queue``; where a target has none (Spark), that of the
                       query of its name, else of the pipeline: the ``backlog`` where a read limit makes
                       one, else all that is not processed (``queue-length``)
``cpu``                ``instance-cpu`` of the operator; of a rule on nodes, ``node-cpu``
about the pipeline     of an operator: the query of its name, where there is one; else the pipeline
about nodes or hosts   all of them: each reading of each one counts
=====================  ===================================================================================

A queue holds what is not being worked on. Of a query with a read limit that is its backlog: what it took is at
work, and what has come since a batch began would be in no queue of an engine without batches. A query
without a limit takes all there is, so it has no backlog, and what is not processed is the best there is to see.
"""

from __future__ import annotations

from collections.abc import Container

import msgspec

from ebbflow.core.layout import MAIN
from ebbflow.core.metrics import Metric, SubjectKind
from ebbflow.policy.fitting import CPU
from ebbflow.policy.model import EACH_OPERATOR, NODES, Policy, Trigger

ANY = None
"""In place of a subject: every one of its kind."""


class Need(msgspec.Struct, frozen=True):
    """A series, or all series of a metric."""

    metric: Metric
    subject: str | None = ANY

    def matches(self, subject: str, metric: Metric) -> bool:
        """Whether a reading is needed."""
        return metric is self.metric and self.subject in (ANY, subject)


def needs(policy: Policy, pipeline: str | None = None) -> frozenset[Need]:
    """All series that the rules of a policy look at. Without the pipeline's name, any pipeline's.

    >>> from ebbflow.policy import *
    >>> grow = (rule("grow").scale_out(operator("enrich")).by(absolute(1))
    ...         .when(metric("cpu")).is_(above(percent(80))).for_at_least(seconds(30)))
    >>> needs(Policy(grow))
    frozenset({Need(metric=<Metric.INSTANCE_CPU: ('instance-cpu', <Unit.SHARE: 'share of 1'>, \
<SubjectKind.OPERATOR: 'operator'>, 'part of one core that an instance of the operator used since the last \
look, mean of its instances')>, subject='enrich')})
    """
    return frozenset(
        need
        for rule in policy.rules
        for trigger in rule.triggers
        for need in sources(trigger, rule.operator, pipeline)
    )


def sources(
    trigger: Trigger, operator: str, pipeline: str | None, limited: Container[str] | None = None
) -> tuple[Need, ...]:
    """Where the readings of a trigger may come from, the best first.

    ``operator`` is the one of the rule, or the one a rule for each operator is being applied to. ``limited``:
    queries with a read limit, and the pipeline if all of its have one; any may have one if not told.
    """
    own = ANY if operator == EACH_OPERATOR else operator
    if trigger.metric == CPU:
        if operator == NODES and not trigger.of:
            return (Need(Metric.NODE_CPU),)
        if trigger.of:  # an operator, or a node by its name
            return (Need(Metric.INSTANCE_CPU, trigger.of), Need(Metric.NODE_CPU, trigger.of))
        return (Need(Metric.INSTANCE_CPU, own),)
    metric = Metric.of(trigger.metric)
    if metric is Metric.QUEUE_LENGTH and (trigger.of or operator != NODES):
        subject = trigger.of or own
        places = (subject,) if trigger.of else (subject, pipeline)
        waiting = (
            Need(kind, place)
            for place in places
            for kind in (Metric.BACKLOG, metric)
            if kind is metric or limited is None or place in limited
        )
        return (Need(Metric.OPERATOR_QUEUE, subject), *waiting)
    if trigger.of:
        return (Need(metric, trigger.of),)
    if metric.about is SubjectKind.OPERATOR:
        return (Need(metric, own),)
    if metric.about is SubjectKind.PIPELINE:
        query = () if operator == NODES else (Need(metric, own),)
        return (*query, Need(metric, pipeline))
    return (Need(metric, MAIN),) if metric.about is SubjectKind.CLUSTER else (Need(metric),)
