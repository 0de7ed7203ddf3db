"""A policy in Python: editors complete it and mypy rejects a wrong order. Run it to try the policy on a load."""

from ebbflow.policy import *  # noqa: F403
from ebbflow.policy.language.english import policy_in_english
from ebbflow.runs.policy_trial import chain, try_policy
from ebbflow.runs.spec import Spec

# ruff: noqa: F405
policy = Policy(
    rule("Queue length is above 300 for 30 seconds")
    .scale_out(operator("enrich")).by(absolute(1)).but_never_above(nodes(4))
    .when(metric("queue-length")).is_(above(rows(300))).for_at_least(seconds(30))
    .with_no_scale_out_since(minutes(1)),

    rule("Busy now or soon: double")
    .scale_out(operator("enrich")).by(relative(2)).but_never_above(times_original(4))
    .when(any_of(
        metric("cpu").is_(above(percent(90))).in_at_least(9, of=10),
        metric("queue-length").is_forecast_to_be(above(rows(1000)), ahead=minutes(1)),
    ))
    .with_no_scale_out_since(minutes(2)),

    rule("Queue is empty")
    .scale_in(operator("enrich")).by(percent(50)).but_never_below(nodes(1))
    .when(metric("queue-length").mean_over(minutes(1))).is_(below(rows(5)))
    .and_when(metric("cpu").percentile(90, over=minutes(1))).is_(below(percent(60)))
    .with_no_scale_out_since(minutes(2)).with_no_scale_in_since(minutes(1)),
)  # fmt: skip


def main() -> None:
    print(policy_in_english(policy), end="\n\n")
    load = "square(base=10, peak=30, period=10m)"
    spec = Spec(load=load, seconds="20m", cycle="5s", initial_nodes=1)
    trial = try_policy(policy, spec.scenario(engine=chain({"enrich": 12.0})))
    for firing in trial.firings:
        print(f"{firing.time_s:5.0f} s  {firing.change:30}  {firing.rule}")


if __name__ == "__main__":
    main()
