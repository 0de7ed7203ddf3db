"""The policy of the strategy ``rules`` when nobody gave it one."""

from __future__ import annotations

from functools import cache

from ebbflow.policy.builder import rule
from ebbflow.policy.model import Policy
from ebbflow.policy.phrases import metric
from ebbflow.policy.words import (
    above,
    absolute,
    below,
    cluster,
    minutes,
    per_second,
    percent,
    seconds,
    tuples,
)


@cache
def default_policy() -> Policy:
    """For any pipeline on any target: nodes by freshness and by what waits."""
    return Policy(
        rule("Rows wait too long: half as many nodes again")
        .scale_out(cluster()).by(percent(50))
        .when(metric("freshness")).is_(above(seconds(20))).in_at_least(2, of=3)
        .with_no_scale_out_since(seconds(20)),
        rule("The queue keeps growing: one more node")
        .scale_out(cluster()).by(absolute(1))
        .when(metric("queue-length").rate_of_change_over(minutes(1))).is_(above(per_second(tuples(1))))
        .and_when(metric("freshness")).is_(above(seconds(10))).in_at_least(2, of=3)
        .with_no_scale_out_since(seconds(30)),
        rule("Rows hardly wait: one node less")
        .scale_in(cluster()).by(absolute(1))
        .when(metric("freshness").percentile(90, over=minutes(2))).is_(below(seconds(8)))
        .with_no_scale_out_since(minutes(5)).with_no_scale_in_since(minutes(1)),
    )  # fmt: skip
