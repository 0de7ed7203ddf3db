"""The policy of the strategy ``rules`` if none is given."""

from __future__ import annotations

from functools import cache

from ebbflow.policy import (
    Policy,
    above,
    absolute,
    below,
    cluster,
    metric,
    minutes,
    per_second,
    percent,
    rows,
    rule,
    seconds,
)


@cache
def default_policy() -> Policy:
    """For any pipeline on any target: scales the nodes by freshness and by the growth of the queue."""
    return Policy(
        rule("Rows wait too long: add half as many nodes")
        .scale_out(cluster()).by(percent(50))
        .when(metric("freshness")).is_(above(seconds(20))).in_at_least(2, of=3)
        .with_no_scale_out_since(seconds(20)),
        rule("The queue keeps growing: one more node")
        .scale_out(cluster()).by(absolute(1))
        .when(metric("queue-length").rate_of_change_over(minutes(1))).is_(above(per_second(rows(1))))
        .and_when(metric("freshness")).is_(above(seconds(10))).in_at_least(2, of=3)
        .with_no_scale_out_since(seconds(30)),
        rule("Rows hardly wait: one node less")
        .scale_in(cluster()).by(absolute(1))
        .when(metric("freshness").percentile(90, over=minutes(2))).is_(below(seconds(8)))
        .with_no_scale_out_since(minutes(5)).with_no_scale_in_since(minutes(1)),
    )  # fmt: skip
