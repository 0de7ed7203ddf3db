"""The six tests of the Rules seed: in the simulator to the second, on a real cluster within one reading."""

from __future__ import annotations

import json
import os

import pytest

from ebbflow.bench.rules.cases import CASES, QUICK, Case
from ebbflow.bench.rules.on_spark import on_micro_batches
from ebbflow.bench.rules.run import SIMULATOR, SPARK, Seen, judge, run_cases, run_in_simulator
from ebbflow.errors import UnknownNameError
from ebbflow.policy.files import parse_policy, policy_text
from ebbflow.report.rules_page import CasePicture, rules_page


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_simulator_shows_what_the_seed_expects_to_the_second(case: Case) -> None:
    result = judge(case, SIMULATOR, run_in_simulator(case))
    assert result.wrong == ()
    assert json.loads(json.dumps(result.to_json()))["ok"] is True


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_policy_of_a_case_does_the_same_from_a_file(case: Case) -> None:
    for suffix in (".toml", ".yaml"):
        assert parse_policy(policy_text(case.policy, suffix), f"case{suffix}") == case.policy


@pytest.mark.spark
@pytest.mark.skipif("EBBFLOW_LONG_TESTS" not in os.environ, reason="minutes; EBBFLOW_LONG_TESTS=1 runs it")
@pytest.mark.timeout(300)
def test_a_real_cluster_shows_it_within_one_reading() -> None:
    (result,) = run_cases(SPARK, [QUICK.name])
    assert result.wrong == (), result.to_json()


def test_what_another_process_saw_comes_back_the_same() -> None:
    seen = run_in_simulator(QUICK)
    assert Seen.from_json(json.loads(json.dumps(seen.to_json()))) == seen
    assert judge(QUICK, SIMULATOR, seen).wrong == ()


def test_the_judge_sees_what_is_wrong() -> None:
    first, other = CASES[0], CASES[1]
    seen = run_in_simulator(first)
    assert "expected operator 1→3" in judge(other, SIMULATOR, seen).wrong[0]
    late = type(seen)(
        changes=tuple(
            type(c)(time_s=c.time_s + 6, operator=c.operator, before=c.before, after=c.after)
            for c in seen.changes
        ),
        queues=seen.queues,
        sizes=seen.sizes,
    )
    assert judge(first, SIMULATOR, late).wrong
    assert "at 97.0 s, not 91 s" in judge(first, SPARK, late).wrong[0]


def test_on_micro_batches_a_queue_is_what_a_batch_left_behind() -> None:
    changed = on_micro_batches(CASES[4].policy)
    assert {t.metric for rule in changed.rules for t in rule.triggers} == {"backlog"}
    assert [rule.name for rule in changed.rules] == [rule.name for rule in CASES[4].policy.rules]


def test_cases_and_targets_that_do_not_exist_are_told() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'scale-out'"):
        run_cases(SIMULATOR, ["scaleout"])
    with pytest.raises(UnknownNameError, match="did you mean 'spark'"):
        run_cases("spork")


def test_the_page_has_a_picture_for_each_case_and_no_markup_of_others() -> None:
    picture = CasePicture(
        title="<b>x</b>",
        expected="e",
        measured="m",
        ok=False,
        queues={"a": [(0.0, 1.0)]},
        sizes={"a": [(0.0, 1)]},
    )
    page = rules_page([picture])
    assert "0 of 1 tests" in page
    assert "&lt;b&gt;x" in page
    assert '"queue length"' in page
