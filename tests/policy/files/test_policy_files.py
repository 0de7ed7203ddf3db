"""Policies round-trip through TOML and YAML; every problem is reported with line and column."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_policies import policies

from ebbflow.errors import PolicyError
from ebbflow.policy.files import load_policy, parse_policy, policy_text
from ebbflow.policy.files.document import read_document, write_document
from ebbflow.policy.files.schema import policy_schema
from ebbflow.policy.files.toml_format import read_toml
from ebbflow.policy.files.yaml_format import read_yaml
from ebbflow.policy.model import BoundsRule, Policy, Rule, Trigger

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "policies").iterdir())
GROW = """\
[[rule]]
name = "grow"
action = "scale-out"
operator = "enrich"
by = 1
never-above = 2
when = [
  { metric = "queue-length", above = "300 rows", for-at-least = "30s" },
]
"""


def paths(document: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths of all values of a document."""
    yield path
    if isinstance(document, dict | list):
        for key, value in document.items() if isinstance(document, dict) else enumerate(document):
            yield from paths(value, (*path, key))


KEYS = [
    *Rule.__struct_encode_fields__,
    *BoundsRule.__struct_encode_fields__,
    *Trigger.__struct_encode_fields__,
]
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.just(10**400), st.floats(), st.text(max_size=9),
    st.sampled_from(["30s", "300 rows", "80%", "x2", "scale-out", "queue-length", "mean over 1m", "4 of 5",
                     "1e400", "x1e400", "9e999s", "08:00", "weekdays", "-1", "nan", "inf %"]),
)  # fmt: skip
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from([*KEYS, "any-of", "all-of", "rule", "bounds", "x"]), inner, max_size=6
        ),
    ),
    max_leaves=25,
)


@given(st.one_of(anything, st.lists(anything).map(lambda each: {"rule": each, "bounds": each})))
@settings(max_examples=200, deadline=None)
def test_any_document_is_a_policy_or_a_list_of_problems(document: object) -> None:
    policy, problems = read_document(document)
    assert (policy is None) is bool(problems)
    assert all(problem.text for problem in problems)


@given(policies())
@settings(max_examples=60, deadline=None)
def test_a_policy_round_trips_through_both_formats(policy: Policy) -> None:
    schema = jsonschema.Draft202012Validator(policy_schema())
    for suffix, read in ((".toml", read_toml), (".yaml", read_yaml)):
        document, positions = read(policy_text(policy, suffix))
        assert set(paths(document)) <= set(positions)
        again, problems = read_document(document)
        assert problems == []
        assert again == policy
        assert list(schema.iter_errors(document)) == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_are_valid_and_fit_the_schema(path: Path) -> None:
    policy = load_policy(path)
    assert policy.rules
    jsonschema.validate(write_document(policy), policy_schema())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (GROW.replace("never-above", "never-over"), "a.toml:6:1: unknown key 'never-over': did you mean"),
        (GROW.replace('"scale-out"', '"scale-up"'),
         "a.toml:3:1: unknown action 'scale-up'; write scale-out or scale-in"),
        (GROW.replace('"300 rows"', '"30%"'),
         "a.toml:8:30: 30% does not fit queue-length, which is measured in rows; "
         "write, for example, 300 rows"),
        (GROW.replace('"300 rows"', '"300 rows/s"'), "a.toml:8:30: 300 rows/s does not fit queue-length"),
        (GROW.replace('"300 rows"', '"many"'), "a.toml:8:30: 'many' is not a quantity; write a number and a unit"),
        (GROW.replace('"30s"', '"a while"'), "a.toml:8:50: 'a while' is not a duration; write it like"),
        (GROW.replace('"30s"', "30"), "a.toml:8:50: 30 is not a duration; add a unit, for example 30s or 5m"),
        (GROW.replace("queue-length", "queue-lenght"), "a.toml:8:5: unknown metric 'queue-lenght': did you mean"),
        (GROW.replace(', for-at-least = "30s"', ""),
         "a.toml:8:5: a single reading cannot fire a rule; add for-at-least"),
        (GROW.replace("by = 1", "by = 0"), "a.toml:5:1: invalid step 0; write a whole number of at least 1"),
        (GROW.replace("by = 1\n", ""),
         "a.toml:2:1: rule 'grow' needs by (a step, such as 1) or to (an exact size, such as 4)"),
        (GROW.replace("by = 1\n", "by = 1\nto = 4\n"), "a.toml:6:1: rule 'grow' has both by and to; remove one"),
        (GROW.replace('name = "grow"\n', ""), "a.toml:1:1: missing key 'name'; write name = "),
        (GROW.replace("never-above", "never-below"),
         "a.toml:6:1: never-below limits a scale-in; for a scale-out write never-above"),
        (GROW.replace('operator = "enrich"', 'operator = 7'), "a.toml:4:1: expected text, found 7"),
        (GROW + GROW, "a.toml:11:1: duplicate name 'grow'; give each rule and bounds a name of its own"),
        (GROW.replace("{ metric", "[ metric"), "a.toml:8:5: invalid TOML"),
        ("rules = 3", "a.toml:1:1: unknown key 'rules': did you mean 'rule'? There are: bounds, rule"),
        ("x = " + "[" * 9000, "a.toml:1:1: cannot parse this file"),
        ("x = " + "9" * 9000, "a.toml:1:1: cannot parse this file"),
        ("rule = 3", "a.toml:1:1: expected a list of rule tables, found 3"),
        ('[[bounds]]\nname="x"\nat-least=5\nat-most=2',
         "a.toml:3:1: at-least 5 is greater than at-most 2; did you mean at-least 2 and at-most 5?"),
        ('[[bounds]]\nname="x"\nat-least=5\nfrom="25:00"\nuntil="9:00"', "a.toml:4:1: '25:00' is not a time of day"),
        ('[[bounds]]\nname="x"\nat-least=5\non=["monday", "moonday"]', "a.toml:4:15: unknown day 'moonday'"),
        ('[[bounds]]\nname="x"\nat-least=5\ntimezone="Mars"', "a.toml:4:1: unknown time zone 'Mars'"),
    ],
)  # fmt: skip
def test_a_problem_has_its_position_and_a_remedy(text: str, problem: str) -> None:
    with pytest.raises(PolicyError) as error:
        parse_policy(text, "a.toml")
    assert any(line.startswith(problem) for line in error.value.problems), error.value.problems


def test_all_problems_of_one_table_are_reported_at_once() -> None:
    bounds = '[[bounds]]\nname = "b"\nat-least = 9\nat-most = 3\nfrom = "08:00"\ntimezone = "Mars"\n'
    rule = GROW.replace("by = 1", "to = 0").replace("never-above", "never-below")
    trigger = GROW.replace('"300 rows", for-at-least = "30s"', '"30%"')
    for text, found in (
        (
            bounds,
            [
                "3:1: at-least 9 is greater than at-most 3",
                "5:1: from and until go together",
                "6:1: unknown time zone 'Mars'",
            ],
        ),
        (rule, ["5:1: to 0 is too small; the smallest size is 1", "6:1: never-below limits a scale-in"]),
        (trigger, ["8:5: a single reading", "8:30: 30% does not fit"]),
    ):
        with pytest.raises(PolicyError) as error:
            parse_policy(text, "a.toml")
        assert len(error.value.problems) == len(found)
        for line, start in zip(error.value.problems, found, strict=True):
            assert line.startswith(f"a.toml:{start}"), line


def problems_of(text: str) -> list[str]:
    with pytest.raises(PolicyError) as error:
        parse_policy(text, "a.toml")
    return [line.removeprefix("a.toml:")[:24] for line in error.value.problems]


def test_an_unreadable_value_does_not_hide_other_problems_of_its_table() -> None:
    bounds = '[[bounds]]\nname="b"\nat-least=9\nat-most=3\nfrom="08:00"\ntimezone="Mars/X"\non=["mon"]\n'
    assert problems_of(bounds) == [
        "3:1: at-least 9 is great",
        "5:1: from and until go t",
        "6:1: unknown time zone '",
        "7:5: unknown day 'mon': ",
    ]
    rule = GROW.replace("by = 1", 'by = "much"\nto = 0').replace("never-above", "never-below")
    assert problems_of(rule.replace('"enrich"', '" "')) == [
        "4:1: the operator name i",
        "5:1: 'much' is not a ste",
        "6:1: to 0 is too small; ",
        "7:1: never-below limits ",
    ], "but not that by is missing"
    trigger = GROW.replace('"300 rows", for-at-least = "30s"', '"30%", for-at-least = "a while"')
    assert problems_of(trigger) == ["8:30: 30% does not fit q", "8:45: 'a while' is not a"]
    assert problems_of(GROW.replace(" above =", " abvoe =")) == ["8:30: unknown key 'abvoe"], (
        "but not that the threshold is missing"
    )


def test_a_condition_cannot_have_both_all_of_and_any_of() -> None:
    text = GROW.replace("{ metric", "{ all-of = [], any-of = [], metric")
    (problem,) = problems_of(text)
    assert problem == "8:18: a condition has ei"


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.toml", GROW.replace('"grow"', "2026-11-16"), "a.toml:2:1: expected text, found 2026-11-16"),
        ("a.toml", GROW.replace("never-above = 2", "never-above = true"), "a.toml:6:1: true is not a limit; write 8"),
        ("a.toml", GROW.replace('"scale-out"', "true"), "a.toml:3:1: unknown action true"),
        ("a.toml", GROW.replace('"enrich"', '" "'), "a.toml:4:1: the operator name is blank"),
        ("a.toml", GROW.replace('"queue-length"', '"queue-length", of = "  "'),
         "a.toml:8:30: the name in 'of' is blank"),
        ("a.toml", GROW.replace("by = 1", "to = 1000000001"),
         "a.toml:5:1: to is too large; the largest size is 1000000000"),
        ("a.toml", '[[bounds]]\nname = "b"\nat-most = 2000000000',
         "a.toml:3:1: at-most is too large; the largest size is 1000000000"),
        ("a.toml", GROW.replace("by = 1", "by = 0x" + "f" * 5000), "a.toml:5:1: the number has more than 300 digits"),
        ("a.toml", GROW.replace('"grow"', "0x" + "f" * 5000),
         "a.toml:2:1: expected text, found a number with hundreds of digits"),
        ("a.toml", "x = " + "9" * 5001,
         "a.toml:1:1: cannot parse this file: it contains a number with thousands of digits"),
        ("a.yaml", "x: " + "9" * 5001,
         "a.yaml:1:1: cannot parse this file: it contains a number with thousands of digits"),
        ("a.yaml", "x: " + "[" * 5000, "a.yaml:1:1: cannot parse this file: lists or tables are nested too deeply"),
        ("a.yaml", "rule: \x07", "a.yaml:1:1: invalid YAML: unacceptable character #x0007"),
        ("a.yaml", "rule:\n- name:\n  by: 1\n", "a.yaml:2:3: expected text, found nothing"),
    ],
)  # fmt: skip
def test_problems_use_the_notation_of_the_file_not_of_python(name: str, text: str, problem: str) -> None:
    with pytest.raises(PolicyError) as error:
        parse_policy(text, name)
    assert any(line.startswith(problem) for line in error.value.problems), error.value.problems
    assert not any("Python" in line or "recursion" in line or "True" in line for line in error.value.problems)


@pytest.mark.parametrize("form", [".toml", ".yaml"])
def test_a_byte_order_mark_is_skipped(tmp_path: Path, form: str) -> None:
    policy, path = parse_policy(GROW, "a.toml"), tmp_path / f"a{form}"
    path.write_bytes(policy_text(policy, form).encode("utf-8-sig"))
    assert load_policy(path) == policy


def test_the_fields_of_each_kind_of_table_are_inspected_once(monkeypatch: pytest.MonkeyPatch) -> None:
    inspected: list[object] = []
    fields = msgspec.structs.fields

    def counted(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
        inspected.append(kind)
        return fields(kind)

    monkeypatch.setattr(msgspec.structs, "fields", counted)
    parse_policy("".join(GROW.replace('"grow"', f'"grow {n}"') for n in range(5)), "a.toml")
    assert len(inspected) == len(set(inspected))


def test_problems_are_reported_in_the_order_of_the_file() -> None:
    text = GROW.replace("by = 1", 'by = "much"').replace("300 rows", "30%") + '[[bounds]]\nname = "b"\n'
    with pytest.raises(PolicyError) as error:
        parse_policy(text, "a.toml")
    assert [line.split(": ")[0] for line in error.value.problems] == [
        "a.toml:5:1",
        "a.toml:8:30",
        "a.toml:11:1",
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("rule:\n- name: x\n  action: scale-out\n  bye: 1\n  when: []\n", "a.yaml:4:3: unknown key 'bye'"),
        ("rule:\n- name: x\n - y", "a.yaml:3:2: invalid YAML"),
        ("rule: &a []\nbounds: *a\n", "a.yaml:2:9: invalid YAML: aliases are not allowed in a policy"),
        ("rule: []\nrule: []\n", "a.yaml:2:1: invalid YAML: duplicate key 'rule'"),
        ("- 1\n- 2\n", "a.yaml:1:1: a policy is a table of rules and bounds; start with"),
        ("rule: !!python/object/apply:os.system [x]\n", "a.yaml:1:7: invalid YAML"),
    ],
)
def test_problems_in_yaml_have_positions(text: str, place: str) -> None:
    with pytest.raises(PolicyError) as error:
        parse_policy(text, "a.yaml")
    assert any(line.startswith(place) for line in error.value.problems), error.value.problems


@pytest.mark.parametrize(
    ("text", "name"), [("", "a.toml"), ("bounds = []", "a.toml"), ("", "a.yml"), ("rule: []", "a.yaml")]
)
def test_a_file_without_rules_and_bounds_is_refused(text: str, name: str) -> None:
    with pytest.raises(PolicyError) as error:
        parse_policy(text, name)
    assert error.value.problems[0].startswith(
        f"{name}:1:1: the policy is empty, which would stop all scaling; write"
    )
    assert len(error.value.problems) == 1


def test_yaml_is_read_as_version_1_2() -> None:
    text = "bounds:\n- name: on\n  at-least: 3\n  from: 08:00\n  until: 20:00\n  on: weekdays\n"
    only = parse_policy(text, "a.yml").bounds[0]
    assert (only.name, str(only.from_), len(only.on)) == ("on", "08:00", 5)


def test_toml_local_times_are_accepted() -> None:
    text = '[[bounds]]\nname = "day"\nat-least = 3\nfrom = 08:00:00\nuntil = 20:30:00\n'
    only = parse_policy(text, "a.toml").bounds[0]
    assert (str(only.from_), str(only.until)) == ("08:00", "20:30")
    with pytest.raises(PolicyError, match=r"a.toml:4:1: .* is not a time of day; write, for example, 08:30"):
        parse_policy(text.replace("08:00:00", "08:00:30"), "a.toml")


@pytest.mark.parametrize("form", [".toml", ".yaml"])
@pytest.mark.parametrize("between", ["\x85", "\u2028", "\u2029", "\r", "\n", "\t", "\x1b", "\ufeff"])
def test_names_keep_unusual_characters(form: str, between: str) -> None:
    policy = Policy(BoundsRule(name=f"a{between}b", at_least=1))
    assert parse_policy(policy_text(policy, form), f"a{form}") == policy


VALUES: dict[str, tuple[object, ...]] = {
    "by": (1, "1", "x2", "x1.5", "25%", "1e2%", " x 2 ", "x1", "x0.5", 0, "0", "much", 1.5, "1.0", "0%", "0.00%",
           "0.5%", "1000%", "1000.1%", "2000%", "x1000", "x2000", "x1.000", "x1.0001", "0007", "-1", "x"),
    "never-above": (8, "8", "x2", "x 1.5", "x2e1", 0, "0", "-1", "eight", 10**9, 10**9 + 1, "x0", "x0.0", "x0.01",
                    "8.0", "1000000000", "1000000001", "x1000000001"),
    "above": ("300 rows", "5", 5, "1e2 rows", "five", "3 apples", "1 row/s", ""),
    "for-at-least": ("30s", "1m30s", "a while", 30, "0s", "0m 0.0s", "0m1s", " 5 m "),
    "measure": ("each reading", "mean over 1m", "mean over x", "mean over 0s", "p95 over 5m", "p100 over 5m",
                "p0 over 5m", "p99.9 over 1h", "p0.1 over 1h", "p095 over 1m", " mean  over  1m ", "p over 1m",
                "forecast 5m ahead", "forecast 0s ahead", "forecast ahead", "forecast 1m 30s  ahead ", "mean of 1m"),
    "in-at-least": ("4 of 5", "0 of 5", "4 of 0", " 4  of 05 ", "4of5", "four of 5"),
    "name": (" ", ""),
    "never-below": (2,),
    "operator": (" ",),
}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, values in VALUES.items() for value in values]
)
def test_schema_and_reader_agree(key: str, value: object) -> None:
    trigger = {"metric": "queue-length", "above": "300 rows", "for-at-least": "30s"}
    table = {"name": "grow", "action": "scale-out", "by": 1, "when": [trigger]}
    if key == "in-at-least":
        del trigger["for-at-least"]
    (trigger if key in (*trigger, "measure", "in-at-least") else table)[key] = value
    _, problems = read_document({"rule": [table]})
    refused = [each for each in problems if "does not fit" not in each.text]  # units are not in the schema
    schema = jsonschema.Draft202012Validator(policy_schema())
    assert bool(list(schema.iter_errors({"rule": [table]}))) is bool(refused), problems


@pytest.mark.parametrize("hour", ["08:00", " 08:00 ", "8:00", "24:00", "24:01", "8", "08:60", "008:00"])
def test_schema_and_reader_agree_on_hours(hour: str) -> None:
    document = {"bounds": [{"name": "b", "at-least": 1, "from": "07:00", "until": hour}]}
    schema = jsonschema.Draft202012Validator(policy_schema())
    assert schema.is_valid(document) is (read_document(document)[0] is not None)


def test_positions_are_found_in_all_toml_syntax() -> None:
    text = (
        "# a comment with = and [\n"
        'title = """long ""\n string"""  # [[no]]\n'
        "'a b'.\"c\\u0064\" = [1, # one\n  'x]', {k = [true]}]\n"
        "[[rule]]\nx.y = 1\n[rule.sub]\nz = 2\n[[rule]]\nw = 2024-01-01T00:00:00Z\n"
    )
    document, positions = read_toml(text)
    assert document["rule"][1]["w"].year == 2024
    assert positions["title",] == (2, 1)
    assert positions["a b", "cd"] == (4, 1)
    assert positions["a b", "cd", 1] == (5, 3)
    assert positions["a b", "cd", 2, "k", 0] == (5, 15)
    assert positions["rule", 0, "x", "y"] == (7, 1)
    assert positions["rule", 0, "sub", "z"] == (9, 1)
    assert positions["rule", 1, "w"] == (11, 1)


@pytest.mark.parametrize(
    ("name", "words"), [("no-such.toml", "there is no policy file"), ("x.json", "ends in .toml")]
)
def test_an_unreadable_file_is_one_problem(tmp_path, name: str, words: str) -> None:
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(PolicyError, match=words):
        load_policy(tmp_path / name)


def test_a_binary_file_is_one_problem(tmp_path) -> None:
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PolicyError, match="not a UTF-8 text file"):
        load_policy(tmp_path / "x.toml")


@given(policies())
@settings(max_examples=30)
def test_a_policy_can_be_pickled(policy: Policy) -> None:
    assert pickle.loads(pickle.dumps(policy)) == policy


@pytest.mark.parametrize("file", ["a.yaml", "a.toml"])
def test_deep_nesting_is_found_whatever_the_recursion_limit(file: str) -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        with pytest.raises(PolicyError, match="nested too deeply"):
            parse_policy(("x: " if file == "a.yaml" else "x = ") + "[" * 200 + "]" * 200, file)
    finally:
        sys.setrecursionlimit(before)
