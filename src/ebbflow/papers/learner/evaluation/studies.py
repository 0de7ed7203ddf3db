"""The studies: a question, those compared, and the loads they are judged on.

Studies of one parameter train an agent for each of its values, with all other parameters at their defaults. What
several studies share, such as the agent with all defaults, is run once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ebbflow.errors import UnknownNameError
from ebbflow.papers.learner.evaluation.contenders import (
    AFTER,
    FIRST,
    LEARNS,
    Calibrated,
    Contender,
    Hindsight,
    Plain,
    Reaction,
    Restrained,
    Taught,
    passes_of,
)
from ebbflow.papers.learner.evaluation.loads import ALL_FIVE, CHANGED, LEARNING, SHAPES, SHORT

TRACES = "traces"
"""The study of recorded loads."""
CAPACITY = Plain(strategy="capacity")
"""What the cost of all others is divided by, on the same load."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Simulated time to prepare, in passes of two and a half hours."""

    whole: int = 10
    """25 hours, for the comparison of strategies."""
    parameter: int = 2
    """5 hours, for each value of a parameter."""

    @property
    def single(self) -> int:
        """5 hours of one load alone, in half-hours."""
        return 5 * self.parameter


@dataclass(frozen=True, kw_only=True)
class Study:
    """One question of the chapter."""

    name: str
    title: str
    question: str
    settings: Mapping[str, Contender] = field(repr=False)
    loads: tuple[str, ...]
    phases: tuple[str, ...] = (AFTER,)
    """What is reported: phases of preparing, and the runs after it."""
    bounds: tuple[str, ...] = ()
    """Settings that cannot be run in practice; they are not ranked with the others."""


def parameter_study(
    name: str,
    title: str,
    question: str,
    settings: Mapping[str, str],
    budget: Budget,
    *,
    phases: Sequence[str] = (),
) -> Study:
    """A study of expressions by label."""
    return Study(
        name=name,
        title=title,
        question=question,
        settings={
            label: Taught(strategy=expression, passes=budget.parameter)
            for label, expression in settings.items()
        },
        loads=(ALL_FIVE, *SHORT),
        phases=(*(phases or (LEARNS,)), AFTER),
    )


def _values(parameter: str, *values: str, default: str) -> dict[str, str]:
    """Expressions of ``learner`` by the value of one parameter; the default has no argument, so that it is shared."""
    return {
        f"{value} (default)" if value == default else value: "learner"
        if value == default
        else f"learner({parameter}={value})"
        for value in values
    }


def all_studies(budget: Budget, traces: Sequence[str] = ()) -> list[Study]:
    """Every study; ``traces``: names of recorded loads, for a study of their own."""
    whole = budget.whole
    trained = Taught(strategy="learner", passes=whole)
    deep = {
        f"deep agent ({agent.upper()}), trained": Taught(
            strategy=f"deep-learner(agent={agent})", passes=whole
        )
        for agent in ("ppo", "dqn")
    }
    calibrated = {
        f"{rule}, calibrated": Calibrated(rule=rule, passes=whole)
        for rule in ("thresholds", "rightscale", "spark-legacy")
    }
    plain = {name: Plain(strategy=name) for name in ("tuned", "spark-legacy", "spark-dra")}
    field_of: dict[str, Contender] = {
        "learner, trained": trained,
        "learner, untrained": Plain(strategy="learner"),
        "learner with capacity as teacher": Plain(strategy="learner(teacher=capacity)", carries=True),
        **deep,
        **calibrated,
        **plain,
        "capacity": CAPACITY,
    }
    bounds: dict[str, Contender] = {
        "all nodes at the first sign": Reaction(guarded=True),
        "the same without step cap": Reaction(guarded=False),
        "hindsight, no row late": Hindsight(),
    }
    first_and_last = (passes_of(1), passes_of(whole))
    studies = [
        parameter_study(
            "initialiser",
            "Initial values of the table",
            "Does a table that starts by region learn faster than one of zeros or of random values?",
            _values("initializationMode", "optimal", "zero", "random", default="optimal"),
            budget,
            phases=(FIRST, LEARNS),
        ),
        parameter_study(
            "policy",
            "Policy",
            "Does it pay to explore?",
            _values(
                "policy",
                "greedy",
                "one-minus-epsilon",
                "decreasing-one-minus-epsilon",
                default="decreasing-one-minus-epsilon",
            ),
            budget,
        ),
        parameter_study(
            "epsilon",
            "Exploration",
            "How much exploration is right, if it stays the same for ever?",
            {
                value: "learner(policy=one-minus-epsilon)"
                if value == "0.1"
                else f"learner(policy=one-minus-epsilon, epsilon={value})"
                for value in ("0.01", "0.1", "0.3")
            },
            budget,
        ),
        parameter_study(
            "reward",
            "Reward",
            "Prefer to scale in, or to do nothing, when the load falls?",
            _values("reward", "prefer-scale-in", "prefer-no-action", default="prefer-scale-in"),
            budget,
        ),
        parameter_study(
            "executors",
            "Executor strategy",
            "How many executors should an action add or remove?",
            {
                **_values("executorStrategy", "static", "linear", "relative", default="relative"),
                "relative, 2 at a time": "learner(executorGranularity=2)",
                "relative, 4 at a time": "learner(executorGranularity=4)",
            },
            budget,
        ),
        parameter_study(
            "messages",
            "Messages in the state",
            "Does the level of the load belong in the state, beside its direction?",
            {
                "direction only (default)": "learner",
                **{
                    f"steps of {each} rows/s": f"learner(incomingMessageGranularity={each})"
                    for each in ("100", "200", "500")
                },
            },
            budget,
        ),
        parameter_study(
            "learning",
            "Learning rule",
            "Does the rule matter: the one printed in the thesis, Q-learning proper, or the mean over the policy?",
            _values("learning", "sarsa", "q-learning", "expected-sarsa", default="sarsa"),
            budget,
        ),
        parameter_study(
            "granularity",
            "Granularity of latency",
            "How fine should the states be?",
            _values("latencyGranularity", "250ms", "500ms", "1s", "2s", "4s", default="500ms"),
            budget,
        ),
        parameter_study(
            "alpha",
            "Learning factor α",
            "How much should a new experience weigh?",
            _values("learningFactor", "0.01", "0.03", "0.1", "0.3", "1", default="0.03"),
            budget,
        ),
        parameter_study(
            "gamma",
            "Discount factor γ",
            "How far should the agent look ahead?",
            _values("discountFactor", "0.1", "0.5", "0.9", "0.99", default="0.5"),
            budget,
        ),
        parameter_study(
            "window",
            "Window",
            "Over how long should latency and messages be averaged?",
            _values("windowSize", "5s", "10s", "30s", "60s", default="10s"),
            budget,
        ),
        parameter_study(
            "samples",
            "Samples for value iteration",
            "How many samples does value iteration need (the question that §5.2.2 leaves to chapter 6)?",
            {
                f"{mode}, {label}": (
                    "learner" if mode == "optimal" else f"learner(initializationMode={mode})"
                )
                if time == "0s"
                else f"learner(initializationMode={mode}, valueIterationInitializationTime={time})"
                for mode in ("zero", "optimal")
                for time, label in (
                    ("0s", "none"),
                    ("30m", "180"),
                    ("1h", "360"),
                    ("2h", "720"),
                    ("4h", "1,440"),
                )
            },
            budget,
        ),
        Study(
            name="convergence",
            title="Time to converge",
            question="After how many hours do the greedy actions no longer change, and what do they cost until then?",
            settings={
                "optimal": trained,
                "zero": Taught(strategy="learner(initializationMode=zero)", passes=whole),
                "random": Taught(strategy="learner(initializationMode=random)", passes=whole),
            },
            loads=(ALL_FIVE,),
            phases=(LEARNS, *(passes_of(number) for number in range(1, whole + 1))),
        ),
        Study(
            name="cost-of-learning",
            title="The cost of learning",
            question="What do rows and executors cost while agents learn and rules are calibrated, and after it?",
            settings={
                "learner": trained,
                **deep,
                **calibrated,
                "capacity, which learns as it runs": CAPACITY,
            },
            loads=(ALL_FIVE,),
            phases=(*first_and_last, LEARNS),
        ),
        Study(
            name="comparison",
            title="Against other strategies",
            question="Does learning pay, compared with calibrated rules, a model, and what is possible at all?",
            settings={**field_of, **bounds},
            loads=SHAPES,
            bounds=tuple(bounds),
        ),
        Study(
            name="teacher",
            title="With a teacher",
            question="Is it safe to learn beside a teacher?",
            settings={
                "capacity alone": CAPACITY,
                "learner(teacher=capacity)": Plain(strategy="learner(teacher=capacity)", carries=True),
                "spark-legacy alone": plain["spark-legacy"],
                "spark-legacy under the guards of learner": Restrained(strategy="spark-legacy"),
                "learner(teacher=spark-legacy)": Plain(
                    strategy="learner(teacher=spark-legacy)", carries=True
                ),
            },
            loads=SHAPES,
        ),
        Study(
            name="transfer",
            title="Train on one load, deploy on others",
            question="What does a table know about loads that it has never met?",
            settings={
                **{
                    f"trained on {name}": Taught(strategy="learner", passes=budget.single, on=(name,))
                    for name in LEARNING
                },
                "trained on all five": trained,
            },
            loads=(*SHAPES, "day"),
        ),
        Study(
            name="change",
            title="A load that changes its nature",
            question="Four hours of a sine, then bursts: who notices, and what does it cost?",
            settings={
                "learner, trained on a sine": Taught(strategy="learner", passes=budget.single, on=("sine",)),
                "the same, without learning further": Taught(
                    strategy="learner", passes=budget.single, on=("sine",), frozen=True
                ),
                "learner, trained on all five": trained,
                "learner with capacity as teacher": field_of["learner with capacity as teacher"],
                **deep,
                "thresholds, calibrated on a sine": Calibrated(
                    rule="thresholds", passes=budget.single, on=("sine",)
                ),
                "tuned": plain["tuned"],
                "capacity": CAPACITY,
            },
            loads=(CHANGED,),
            phases=("before the change", "first two hours after", "later"),
        ),
    ]
    if traces:
        studies.append(
            Study(
                name=TRACES,
                title="On recorded loads",
                question="What about real traces, on which no strategy was trained?",
                settings={name: each for name, each in (field_of | bounds).items() if name != "tuned"},
                loads=tuple(traces),
                bounds=tuple(bounds),
            )
        )
    return studies


def chosen_studies(budget: Budget, names: Sequence[str], traces: Sequence[str] = ()) -> list[Study]:
    """The studies of these names, or all.

    >>> [study.name for study in chosen_studies(Budget(), ["alpha", "gamma"])]
    ['alpha', 'gamma']
    """
    studies = all_studies(budget, traces)
    known = [study.name for study in studies]
    for name in names:
        if name not in known:
            raise UnknownNameError("study", name, known)
    return [study for study in studies if not names or study.name in names]
