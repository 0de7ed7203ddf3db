"""A policy replaced while the pipeline runs: validated, applied between two cycles, recorded in the ledger."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from ebbflow.control.loop import ControlLoop
from ebbflow.control.policy_file import PolicyFile
from ebbflow.core.clock import ManualClock
from ebbflow.core.folders import replace_file
from ebbflow.core.pipeline import Pipeline
from ebbflow.errors import InputError, PolicyError
from ebbflow.guards import guards_for
from ebbflow.monitoring.store import MemoryStore
from ebbflow.policy.files import parse_policy
from ebbflow.policy.model import Policy
from ebbflow.targets.simulator import Continuous, NodeKind, Scenario
from ebbflow.workloads import parse_load

RULE = """\
[[rule]]
name = "{name}"
action = "scale-out"
operator = "slow"
by = {by}
never-above = {most}
when = [{{ metric = "queue-length", above = "{above} tuples", for-at-least = "30s" }}]
"""


def text(name: str = "grow", by: int = 1, most: int = 9, above: int = 300) -> str:
    return RULE.format(name=name, by=by, most=most, above=above)


class Running:
    """A pipeline that takes 5 of 10 rows/s, its loop, and the file it follows."""

    def __init__(self, path: Path) -> None:
        self.clock = ManualClock(0.0)
        engine = Continuous(
            pipeline=Pipeline.chain("p", "slow"),
            row_cost_s={"slow": 0.2},
            pause_s=(0.0, 0.0),
            drain_limit_s=0.0,
        )
        scenario = Scenario(
            engine=engine, load=parse_load("constant(10)"), nodes=NodeKind(lead_time_s=0.0), seconds=600
        )
        self.file = PolicyFile(path)
        self.loop = ControlLoop(
            target=scenario.target(self.clock),
            strategy=self.file.rules,
            guards=guards_for(self.file.rules),
            store=MemoryStore(),
            clock=self.clock,
            limits=scenario.limits,
            slo=scenario.slo,
            decide_at_least_every_s=1.0,
            before_cycle=self.file.refresh,
        )

    def run(self, until_s: int) -> None:
        while self.clock.now_s() < until_s:
            self.loop.cycle()
            self.clock.advance(1.0)

    @property
    def notes(self) -> list[tuple[float, str]]:
        return [
            (entry.time_s, entry.decision.reason)
            for entry in self.loop.ledger.entries
            if entry.decision.reason.startswith("policy ")
        ]

    @property
    def acts(self) -> list[tuple[float, str]]:
        return [
            (entry.time_s, str(entry.decision.wanted.difference(entry.before)))
            for entry in self.loop.ledger.entries
            if entry.verdict == "act"
        ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "policy.toml"
    file.write_text(text())
    return file


def test_an_unchanged_rule_keeps_its_history_and_fires_when_it_would_have(path: Path) -> None:
    running = Running(path)
    running.run(80)
    replace_file(path, text() + text("more", by=2, above=3000))
    running.run(95)
    assert running.notes == [(81.0, "policy policy.toml replaced: 1 added (more); 1 unchanged")]
    assert running.acts == [(91.0, "main +1 node, slow ×1→2")]


def test_a_policy_set_in_python_applies_from_the_next_cycle_and_the_file_is_still_watched(
    path: Path,
) -> None:
    running = Running(path)
    running.run(80)
    running.file.use(parse_policy(text() + text("more", by=2, above=3000), "p.toml"))
    running.run(85)
    assert running.notes == [(80.0, "policy replaced: 1 added (more); 1 unchanged")]
    with pytest.raises(PolicyError):
        running.file.use(Policy(*parse_policy(text(), "p.toml").rules, *parse_policy(text(), "p.toml").rules))
    replace_file(path, text(by=3))
    running.run(90)
    assert "replaced: 1 changed (grow); 1 removed (more)" in running.notes[-1][1]


def test_a_changed_rule_applies_from_the_next_cycle_without_its_history(path: Path) -> None:
    running = Running(path)
    running.run(80)
    path.write_text(text(by=3))
    running.run(130)
    assert running.acts[0] == (111.0, "main +3 nodes, slow ×1→4")
    entry = next(e for e in running.loop.ledger.entries if e.decision.reason.startswith("policy "))
    assert entry.verdict == "hold"
    assert entry.decision.inputs["policy"] == str(path)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (text(most=1), "every size is at least 1"),
        ("[[rule]\n", "policy.toml:1:7: invalid TOML"),
        (text().replace("300 tuples", "30%"), "does not fit queue-length"),
        ("", "the policy is empty, which would stop all scaling; write at least one rule"),
        ("rule = []\n", "the policy is empty"),
    ],
)
def test_a_bad_policy_leaves_the_old_one_in_force_and_says_why(path: Path, bad: str, words: str) -> None:
    running = Running(path)
    running.run(80)
    path.write_text(bad)
    running.run(95)
    (note,) = running.notes
    assert "not replaced, the old one stays in force" in note[1]
    assert words in note[1]
    assert running.acts == [(91.0, "main +1 node, slow ×1→2")]
    path.write_text(text())
    running.run(100)
    assert running.notes[-1][1] == "policy policy.toml is in force again"


def test_a_binary_policy_file_is_refused(path: Path) -> None:
    running = Running(path)
    running.run(3)
    path.write_bytes(b"\xff\xfe")
    running.run(6)
    assert "not a text file" in running.notes[0][1]


def test_a_missing_policy_file_changes_nothing_and_is_reported_once(path: Path) -> None:
    running = Running(path)
    running.run(80)
    path.unlink()
    running.run(95)
    assert [words for _, words in running.notes] == [
        "policy policy.toml cannot be read (No such file or directory); the old one stays in force"
    ]
    assert running.acts


def test_a_partly_written_file_is_not_used(path: Path) -> None:
    running = Running(path)
    running.run(5)
    half = text() + "\n" + text("more", above=3000)[:20]
    for size in (10, 60, len(text()), len(half)):
        path.write_text(half[:size])
        running.run(int(running.clock.now_s()) + 1)
    path.write_text(text() + "\n" + text("more", above=3000))
    running.run(12)
    assert [words for _, words in running.notes] == [
        "policy policy.toml replaced: 1 added (more); 1 unchanged"
    ]


@pytest.mark.parametrize("nothing", ["", "# nothing yet\n", "rule = []\nbounds = []\n"])
def test_a_job_does_not_start_with_an_empty_policy(path: Path, nothing: str) -> None:
    path.write_text(nothing)
    with pytest.raises(
        PolicyError, match=r"policy\.toml:1:1: the policy is empty, which would stop all scaling"
    ):
        PolicyFile(path)


def test_an_object_that_is_not_a_policy_is_refused(path: Path) -> None:
    with pytest.raises(InputError, match="'x' is not a policy"):
        PolicyFile(path).use("x")  # type: ignore[arg-type]


def test_a_policy_set_during_a_cycle_is_not_lost(path: Path) -> None:
    """The last policy set is in force at the end, whatever the order of the two threads."""
    running, policies = PolicyFile(path), [parse_policy(text(by=by), "p.toml") for by in range(1, 20)]
    done = threading.Event()

    def refresh() -> None:
        while not done.is_set():
            running.refresh()

    refreshing = threading.Thread(target=refresh)
    refreshing.start()
    for policy in policies:
        running.use(policy)
    done.set()
    refreshing.join()
    running.refresh()
    assert running.rules.policy == policies[-1]


def test_touching_the_file_does_not_replace_the_policy(path: Path) -> None:
    running = Running(path)
    running.run(5)
    os.utime(path, (1.0, 1.0))
    running.run(10)
    assert running.notes == []


def replaced_in_python(path: Path) -> Running:
    """A job whose policy was replaced in Python."""
    running = Running(path)
    running.run(5)
    running.file.use(parse_policy(text(above=400), "p.toml"))
    running.run(10)
    return running


def test_a_restored_file_replaces_a_policy_set_in_python(path: Path) -> None:
    running, as_it_was = replaced_in_python(path), text()
    path.write_text("garbage")
    running.run(15)
    path.write_text(as_it_was)
    running.run(20)
    assert running.file.rules.policy == parse_policy(as_it_was, "p.toml")
    assert [note.removeprefix("policy ") for _, note in running.notes][0::2] == [
        "replaced: 1 changed (grow); 0 unchanged",
        "policy.toml replaced: 1 changed (grow); 0 unchanged",
    ], "and not that it is in force again"


def test_rewriting_the_same_file_replaces_a_policy_set_in_python(path: Path) -> None:
    running = replaced_in_python(path)
    assert running.file.rules.policy == parse_policy(text(above=400), "p.toml"), (
        "the file has not been written since"
    )
    replace_file(path, text())
    running.run(15)
    assert running.file.rules.policy == parse_policy(text(), "p.toml")
    assert "replaced: 1 changed (grow)" in running.notes[-1][1]


def test_a_bad_policy_at_the_start_is_an_error_at_once(path: Path) -> None:
    path.write_text(text(most=1))
    with pytest.raises(PolicyError, match="never fires"):
        PolicyFile(path)
