"""Whatever reads the clock, draws global random numbers or does I/O fails the contract, under any name."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from time import perf_counter as pc
from time import time as t

import numpy as np
import pytest

from ebbflow.core.decision import Decision, hold
from ebbflow.core.ports import Guard, Strategy
from ebbflow.core.snapshot import Snapshot
from ebbflow.testing import check_guard, check_strategy
from ebbflow.testing.purity import clock_calls, no_side_effects

NOWHERE = Path("no-such-folder") / "file"


def swallowed() -> None:
    with contextlib.suppress(BaseException):
        t()


IMPURE: dict[str, tuple[Callable[[], object], str]] = {
    "clock by another name": (t, r"time\.time\(\)"),
    "timer by another name": (pc, r"time\.perf_counter\(\)"),
    "pause": (lambda: time.sleep(0.0), r"time\.sleep\(\)"),
    "date and time": (lambda: datetime.now(UTC), r"datetime\.datetime\.now\(\)"),
    "date": (date.today, r"datetime\.date\.today\(\)"),
    "swallowed": (swallowed, r"time\.time\(\)"),
    "read": (NOWHERE.read_text, r"open\('no-such-folder/file'\)"),
    "write": (lambda: NOWHERE.write_text(""), r"open\('no-such-folder/file'\)"),
    "look for a file": (NOWHERE.exists, r"os\.stat\(\)"),
    "list a folder": (lambda: list(Path().iterdir()), r"os\.listdir\('\.'\)"),
    "file descriptor": (lambda: os.open(NOWHERE, os.O_RDONLY), r"open\("),
    "remove": (NOWHERE.unlink, r"os\.remove\("),
    "shell": (lambda: os.system("true"), r"os\.system\("),
    "process": (lambda: subprocess.run(["true"]), r"subprocess\.Popen\('true'\)"),
    "socket": (socket.socket, r"socket\.__new__\(\)"),
    "thread": (lambda: threading.Thread(target=list).start(), r"_thread\.start"),
    "environment": (lambda: os.environ.get("HOME"), r"os\.environ"),
    "environment by name": (lambda: os.getenv("HOME"), r"os\.environ"),
    "random": (random.random, r"random\.random\(\)"),
    "random choice": (lambda: random.choice([1, 2]), r"random\.getrandbits\(\)"),
    "numpy's random": (np.random.normal, r"numpy\.random"),
    "entropy": (lambda: os.urandom(2), r"os\.urandom\(\)"),
    "print": (lambda: print(end=""), r"builtins\.print\(\)"),  # noqa: T201
}


@pytest.mark.parametrize("what", IMPURE)
def test_a_strategy_with_side_effects_fails_the_contract(what: str) -> None:
    call, message = IMPURE[what]

    class Impure(Strategy):
        name = "impure"

        def decide(self, snapshot: Snapshot) -> Decision:
            call()
            return hold(snapshot, "hold", "n")

    with pytest.raises(AssertionError, match=rf"a decision (called|drew from) {message}"):
        check_strategy(Impure)


def test_a_guard_with_side_effects_fails_the_contract() -> None:
    class Impure(Guard):
        name = "impure"

        def restrain(self, snapshot: Snapshot, decision: Decision) -> Decision:
            NOWHERE.exists()
            return decision

    with pytest.raises(AssertionError, match=r"os\.stat"):
        check_guard(Impure)


def test_a_clock_on_a_path_that_no_run_takes_is_found_in_the_source() -> None:
    class Rare(Strategy):
        name = "rare"

        def decide(self, snapshot: Snapshot) -> Decision:
            at_s = t() if snapshot.now_s < 0 else snapshot.now_s
            return hold(snapshot, f"{at_s:g} s", "n")

    with pytest.raises(AssertionError, match=r"test_purity.py:\d+: t\(\) reads the clock"):
        check_strategy(Rare)


def test_the_scan_of_one_class_ignores_the_rest_of_the_file(tmp_path: Path) -> None:
    source = tmp_path / "job.py"
    source.write_text("import time\nclass Mine:\n    def decide(self): return 1\ntime.sleep(1)\n")
    assert clock_calls(source, "Mine") == []
    assert clock_calls(source) == ["job.py:4: time.sleep()"]


def test_seeded_generators_fixed_dates_and_imports_are_allowed() -> None:
    sys.modules.pop("colorsys", None)
    with no_side_effects():
        import colorsys

        assert random.Random(1).random() != np.random.default_rng(1).random()
        assert datetime.fromtimestamp(0.0, UTC) == datetime(1970, 1, 1, tzinfo=UTC)
    assert colorsys.rgb_to_hls(0, 0, 0)


def test_other_threads_and_later_calls_are_not_watched() -> None:
    worked, go = threading.Event(), threading.Event()

    def work() -> None:
        go.wait(10)
        if list(Path().iterdir()) and t() > 0:
            worked.set()

    thread = threading.Thread(target=work)
    thread.start()
    with no_side_effects():
        go.set()
        thread.join(10)
    assert worked.is_set()
    assert t() > 0
