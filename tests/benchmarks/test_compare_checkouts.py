"""Two checkouts are compared byte by byte: the first difference is found, and machine times are left out."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tool(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT)
    return import_module("benchmarks.compare_checkouts")


@pytest.mark.parametrize(
    ("old", "new", "path", "values"),
    [
        ('[{"a": 1, "b": 2.5}]', '[{"a": 1, "b": 2.6}]', "$[0].b", ("2.5", "2.6")),
        ('{"a": {"b c": [1, 2]}}', '{"a": {"b c": [1, 3]}}', '$.a["b c"][1]', ("2", "3")),
        ('{"a": 1, "b": 2}', '{"a": 1}', "$.b", ("2", "(absent)")),
        ('{"a": 1}', '{"a": 1, "b": null}', "$.b", ("(absent)", "null")),
        ("[1, 2]", "[1]", "$[1]", ("2", "(absent)")),
        ("[1]", "[1, 2]", "$[1]", ("(absent)", "2")),
        ('{"a": 1}', '{"a": 1.0}', "$.a", ("1", "1.0")),
        ('{"a": 1}', '{"a": true}', "$.a", ("1", "true")),
        ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', "$ (order of keys)", ('["a", "b"]', '["b", "a"]')),
        ('{"a": [1]}', '{"a": {"b": 1}}', "$.a", ("[1]", '{"b": 1}')),
        ('{"a": 1}\n', '{"a":  1}\n', "line 1", ("'{\"a\": 1}\\n'", "'{\"a\":  1}\\n'")),
        ("[0.0]", "[-0.0]", "line 1", ("'[0.0]'", "'[-0.0]'")),
        ("a\nb\n", "a\n", "line 2", ("'b\\n'", "(absent)")),
    ],
)
def test_the_first_difference_has_its_path_and_both_values(tool, old, new, path, values) -> None:
    assert tool.compare(old, new) == tool.Difference(path, *values)
    assert tool.compare(old, old) is None


def test_machine_times_must_be_present_but_may_differ(tool) -> None:
    old = '{\n  "learned_at": "2026-11-16T08:00:00+00:00",\n  "training_s": 1.25,\n  "nodes": 2\n}'
    later = '{\n  "learned_at": "2026-11-17T09:30:00+00:00",\n  "training_s": 3e-05,\n  "nodes": 2\n}'
    assert tool.compare(old, later) is None
    assert tool.compare(old, later.replace('"nodes": 2', '"nodes": 3')) == tool.Difference(
        "$.nodes", "2", "3"
    )
    without = later.replace('  "training_s": 3e-05,\n', "")
    assert tool.compare(old, without) == tool.Difference("$.training_s", "null", "(absent)")


def test_a_case_that_fails_on_one_side_differs_and_on_both_sides_fails(tool) -> None:
    case = tool.Case("simulate/new", ("simulate",))
    good, bad = (
        tool.CaseOutput(0, "[]", "", 1.0),
        tool.CaseOutput(2, "", "ebbflow: unknown strategy 'new'", 1.0),
    )
    expected = [re.compile("^simulate/")]
    assert tool.judge(case, good, good).status == "same"
    assert tool.judge(case, bad, good).status == "different"
    assert tool.judge(case, bad, good, expected).status == "expected"
    assert tool.judge(case, bad, bad, expected).status == "failed"
    difference = tool.judge(case, bad, good).difference
    assert difference == tool.Difference(
        "exit", "exit code 2: ebbflow: unknown strategy 'new'", "exit code 0"
    )


def test_fields_that_only_one_side_has_are_listed_and_not_compared(tool) -> None:
    case = tool.Case("simulate/new", ("simulate",))

    def judged(old: str, new: str):
        return tool.judge(case, tool.CaseOutput(0, old, "", 1.0), tool.CaseOutput(0, new, "", 1.0))

    found = judged(
        '[{"late": 1, "old": 2}, {"late": 1, "old": 3}]', '[{"gap": 9, "late": 1}, {"gap": 8, "late": 1}]'
    )
    assert found.status == "same"
    assert found.one_sided == ("$[*].old (old only)", "$[*].gap (new only)")
    found = judged('[{"late": 1, "old": 2}]', '[{"gap": 9, "late": 4}]')
    assert (found.status, found.difference) == ("different", tool.Difference("$[0].late", "1", "4"))
    assert judged('[{"late": 1}]', '[{"late": 1}, {"late": 2}]').status == "different"  # a row is no field


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "nowhere"], "nowhere is not a checkout: it has no folder src/ebbflow"),
        ([str(ROOT), str(ROOT), "--jobs", "0"], "--jobs 0: write 1 or more"),
        ([str(ROOT), str(ROOT), "--only", "("], "--only (: not a regular expression: "),
        ([str(ROOT)], "the following arguments are required: NEW"),
    ],
)
def test_bad_input_is_a_one_line_error(tool, capsys, arguments, message) -> None:
    assert tool.main(arguments) == 2
    output, error = capsys.readouterr()
    assert output == ""
    assert error.startswith(f"compare_checkouts: {message}")
    assert error.count("\n") == 1
