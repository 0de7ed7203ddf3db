"""Run the same commands in two checkouts and compare what they print, byte by byte.

    python -m benchmarks.compare_checkouts OLD NEW [--only REGEX] [--expect REGEX] [--jobs 2] [--json]

It proves that a restructuring changes no behaviour. It uses only ``python -m ebbflow``, so it does not matter where
modules are or what they are called. Both sides read the examples of OLD and run on the same Python; ``PYTHONPATH``
selects the checkout. Compare a checkout with itself to see which cases are deterministic.

Fields that only one side has are listed and not compared: a new field changes no behaviour that there was.

A case is *same*, *different*, *expected* (different, and named by ``--expect``) or *failed* (it runs on neither
side, so it proves nothing). The exit code is 0 if every case is same or expected, 1 otherwise, and 2 on bad input.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.markup import escape
from rich.table import Table

MACHINE_TIMES = (
    "learned_at",  # `profile`: when the profile was made
    "training_s",  # `profile`: how long the models took to train
)
"""Fields that tell the time or speed of the machine. Their values are not compared."""

TIMEOUT_S = 300.0
ABSENT = "(absent)"
SHOWN = 70
"""Characters of a differing value in the table; ``--json`` has all of them."""

_MASKED = re.compile(rf'("(?:{"|".join(MACHINE_TIMES)})": )(?:"[^"\\]*"|[-+.\w]+)')
_PLAIN_KEY = re.compile(r"[A-Za-z_][\w-]*")

NOISY = ("--noise", "0.1", "--lead-noise", "0.2", "--workers", "1", "--json")
ENGINES = ("micro-batch", "continuous")
LOADS = {
    "sine": ("--load", "noise(sine(base=150, peak=900, period=1h), amount=0.05)", "--seconds", "2h", "--seed", "7"),
    "square": (
        "--load", "square(base=60, peak=700, period=40m)", "--seconds", "2h", "--seed", "11",
        "--pipeline", "sentiment", "--slots-per-node", "2", "--lead-time", "45s", "--slo", "freshness p99 <= 20s",
    ),
}  # fmt: skip
PROFILE = ("profile", "--pipeline", "top-words", "--target", "simulator", "--seed", "7", "--json")


class BadInputError(Exception):
    """Bad input of the caller, as one line."""


@dataclass(frozen=True)
class Case:
    """A command, and one to run before it in the same folder if it needs a file."""

    name: str
    command: tuple[str, ...]
    prepare: tuple[str, ...] = ()


@dataclass(frozen=True)
class CaseOutput:
    """What a command left."""

    code: int
    output: str
    error: str
    seconds: float

    @property
    def failed(self) -> bool:
        return self.code != 0 or not self.output

    def __str__(self) -> str:
        return f"exit code {self.code}{f': {self.error}' if self.failed and self.error else ''}"


@dataclass(frozen=True)
class Difference:
    """The first place where two outputs differ, with the JSON text of both values."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Comparison:
    """A case on both sides."""

    case: str
    status: str
    old_s: float
    new_s: float
    difference: Difference | None = None
    one_sided: tuple[str, ...] = ()
    """Fields that only one side has, with that side; ``[*]`` for any index of a list."""

    @property
    def ok(self) -> bool:
        return self.status in ("same", "expected")


def cases_for(strategies: Sequence[str]) -> list[Case]:
    """Every case, long ones first so that no job is left with one at the end."""
    symbiotic = ("simulate", "--strategy", "symbiotic,symbiotic-proactive", *LOADS["sine"], *NOISY)
    tried = ("policy", "try", "examples/policies/queue.toml", "--operators", "enrich=12", "--json")
    hours = ("policy", "try", "examples/policies/office_hours.yaml", "--engine", "micro-batch", "--json")
    board = ("bench", "leaderboard", "--seconds", "1h", "--seeds", "1", "--workers", "1", "--json")
    elysium = ("bench", "elysium", "--seeds", "1", "--no-studies", "--workers", "1", "--json")
    replay = ("replay", "examples/recorded_run.jsonl.gz", "--strategy", "capacity,spark-dra", "--json")
    found = [
        Case("bench/elysium", elysium),  # the studies are on the page only, not in the JSON
        Case("bench/leaderboard", board),
        Case("profile/continuous", PROFILE),
        Case("profile/micro-batch", (*PROFILE, "--engine", "micro-batch")),
        Case(
            "simulate/profile",
            (*symbiotic, "--engine", "continuous", "--profile", "learned.toml"),
            prepare=(*PROFILE, "--output", "learned.toml"),
        ),
        *(
            Case(f"simulate/examples/{name}", ("simulate", f"examples/{name}.toml", "--workers", "1", "--json"))
            for name in ("rough_day", "rush", "two_clusters")
        ),
        Case("bench/rules", ("bench", "rules", "--json")),
        Case("replay", replay),
        Case("policy/try/queue", (*tried, "--load", "square(base=10, peak=30, period=5m)")),
        Case(
            "policy/try/office_hours",
            (*hours, "--load", "sine(base=100, peak=900, period=1h)", "--seconds", "4h", "--at", "2026-11-16T06:00"),
        ),
        Case("policy/show", ("policy", "show", "examples/policies/office_hours.yaml", "--json")),
        Case("policy/schema", ("policy", "schema", "--json")),
        Case("metrics", ("metrics", "--json")),
    ]  # fmt: skip
    return found + [
        Case(
            f"simulate/{strategy}/{engine}/{load}",
            ("simulate", "--strategy", strategy, "--engine", engine, *options, *NOISY),
        )
        for strategy in strategies
        for engine in ENGINES
        for load, options in LOADS.items()
    ]


# -- comparing --------------------------------------------------------------------------------


def masked(text: str) -> str:
    """The text with null for the values of ``MACHINE_TIMES``.

    >>> masked('{"training_s": 1.25, "hold_s": 60}')
    '{"training_s": null, "hold_s": 60}'
    """
    return _MASKED.sub(r"\1null", text)


def compare(old: str, new: str) -> Difference | None:
    """The first difference between two JSON texts; None if they are the same byte by byte, machine times aside.

    >>> compare('[{"nodes": 2}]', '[{"nodes": 3}]')
    Difference(path='$[0].nodes', old='2', new='3')
    """
    old, new = masked(old), masked(new)
    if old == new:
        return None
    try:
        found = first_difference(json.loads(old), json.loads(new))
    except ValueError:
        found = None  # not JSON: show the line instead
    return found or _first_line(old, new)


def first_difference(old: Any, new: Any, path: str = "$") -> Difference | None:
    """The first difference between two JSON documents in the order of the old one.

    The order of keys counts, and so does 1 against 1.0.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            inner = _field(path, key)
            if key not in new:
                return Difference(inner, _text(old[key]), ABSENT)
            if key not in old:
                return Difference(inner, ABSENT, _text(new[key]))
            if found := first_difference(old[key], new[key], inner):
                return found
        if list(old) != list(new):
            return Difference(f"{path} (order of keys)", _text(list(old)), _text(list(new)))
        return None
    if isinstance(old, list) and isinstance(new, list):
        for index, (one, other) in enumerate(zip(old, new, strict=False)):
            if found := first_difference(one, other, f"{path}[{index}]"):
                return found
        at = min(len(old), len(new))
        if len(old) > at:
            return Difference(f"{path}[{at}]", _text(old[at]), ABSENT)
        if len(new) > at:
            return Difference(f"{path}[{at}]", ABSENT, _text(new[at]))
        return None
    return None if type(old) is type(new) and old == new else Difference(path, _text(old), _text(new))


def _first_line(old: str, new: str) -> Difference:
    """For what only the text shows: layout, or the spelling of a number."""
    ours, theirs = old.splitlines(keepends=True), new.splitlines(keepends=True)
    at = next(
        (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs))
    )
    result = [repr(lines[at]) if at < len(lines) else ABSENT for lines in (ours, theirs)]
    return Difference(f"line {at + 1}", *result)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class Common:
    """Two documents without the fields that only one of them has."""

    old: Any
    new: Any
    one_sided: tuple[str, ...]


def common(old: Any, new: Any, path: str = "$") -> Common:
    """Leave out the fields that only one of two JSON documents has.

    >>> common([{"late": 1, "gap": 2}], [{"late": 1}])
    Common(old=[{'late': 1}], new=[{'late': 1}], one_sided=('$[*].gap (old only)',))
    """
    if isinstance(old, dict) and isinstance(new, dict):
        missing = [(key, "old only") for key in old if key not in new]
        missing += [(key, "new only") for key in new if key not in old]
        found = [f"{_field(path, key)} ({side})" for key, side in missing]
        both = {key: common(old[key], new[key], _field(path, key)) for key in old if key in new}
        found += [each for inner in both.values() for each in inner.one_sided]
        return Common(
            {key: both[key].old for key in old if key in both},
            {key: both[key].new for key in new if key in both},
            tuple(dict.fromkeys(found)),
        )
    if isinstance(old, list) and isinstance(new, list):
        pairs = [common(one, other, f"{path}[*]") for one, other in zip(old, new, strict=False)]
        at = len(pairs)
        return Common(
            [*(each.old for each in pairs), *old[at:]],
            [*(each.new for each in pairs), *new[at:]],
            tuple(dict.fromkeys(each for inner in pairs for each in inner.one_sided)),
        )
    return Common(old, new, ())


def _field(path: str, key: str) -> str:
    return f"{path}.{key}" if _PLAIN_KEY.fullmatch(key) else f"{path}[{_text(key)}]"


def _judged(old: str, new: str) -> tuple[Difference | None, tuple[str, ...]]:
    try:
        shared = common(json.loads(masked(old)), json.loads(masked(new)))
    except ValueError:
        return compare(old, new), ()
    if not shared.one_sided:
        return compare(old, new), ()
    return first_difference(shared.old, shared.new), shared.one_sided


def judge(
    case: Case, old: CaseOutput, new: CaseOutput, expected: Sequence[re.Pattern[str]] = ()
) -> Comparison:
    """What became of a case."""
    found: Difference | None
    one_sided: tuple[str, ...] = ()
    if old.failed or new.failed:
        found = Difference("exit", str(old), str(new))
    else:
        found, one_sided = _judged(old.output, new.output)
    status = "same"
    if old.failed and new.failed:
        status = "failed"
    elif found is not None:
        status = "expected" if any(pattern.search(case.name) for pattern in expected) else "different"
    return Comparison(case.name, status, old.seconds, new.seconds, found, one_sided)


# -- running ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """A checkout, and the examples that its commands read."""

    checkout: Path
    examples: Path

    def check(self) -> None:
        """Make sure that its own code runs, whatever else is installed."""
        result = self._python("-c", "import ebbflow; print(ebbflow.__file__)")
        if result.failed:
            raise BadInputError(f"{self.checkout}: cannot import ebbflow: {result.error}")
        file = Path(result.output.strip()).resolve()
        if not file.is_relative_to(self.checkout):
            raise BadInputError(f"{self.checkout}: its code does not run; ebbflow is imported from {file}")

    def strategies(self) -> list[str]:
        """Every strategy that it knows: a leaderboard has a row for each."""
        result = self.run(
            ("bench", "leaderboard", "--loads", "constant(10)", "--seconds", "1m", "--seeds", "1", "--workers", "1",
             "--json"),
        )  # fmt: skip
        if result.failed:
            raise BadInputError(f"{self.checkout}: cannot list strategies: {result}")
        return sorted(row["strategy"] for row in json.loads(result.output))

    def run(self, command: tuple[str, ...], prepare: tuple[str, ...] = ()) -> CaseOutput:
        """Run a command in an empty folder with nothing but the examples."""
        with tempfile.TemporaryDirectory(prefix="ebbflow-compare-") as folder:
            (Path(folder) / "examples").symlink_to(self.examples)
            if prepare:
                made = self._python("-m", "ebbflow", *prepare, folder=folder)
                if made.failed:
                    return made
            return self._python("-m", "ebbflow", *command, folder=folder)

    def _python(self, *arguments: str, folder: str | None = None) -> CaseOutput:
        environment = os.environ | {
            "PYTHONPATH": str(self.checkout / "src"),
            "PYTHONIOENCODING": "utf-8",
            "OMP_NUM_THREADS": "1",  # the jobs share the cores; it fixes the order of sums too
        }
        began = time.perf_counter()
        try:
            result = subprocess.run(
                [sys.executable, "-P", *arguments], cwd=folder or self.examples, env=environment,
                stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=TIMEOUT_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return CaseOutput(-1, "", f"stopped after {TIMEOUT_S:g} s", TIMEOUT_S)
        lines = result.stderr.strip().splitlines()
        return CaseOutput(
            result.returncode, result.stdout, lines[-1] if lines else "", time.perf_counter() - began
        )


def run_cases(
    cases: Sequence[Case], old: Side, new: Side, *, jobs: int, expected: Sequence[re.Pattern[str]]
) -> list[Comparison]:
    """Run every case on both sides, ``jobs`` commands at once."""
    verdicts: list[Comparison] = []
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        started: list[tuple[Case, list[Future[CaseOutput]]]] = [
            (case, [pool.submit(side.run, case.command, case.prepare) for side in (old, new)])
            for case in cases
        ]
        try:
            for number, (case, (before, after)) in enumerate(started, start=1):
                verdicts.append(judge(case, before.result(), after.result(), expected))
                print(
                    f"· {number}/{len(cases)} {case.name}: {verdicts[-1].status}", file=sys.stderr, flush=True
                )
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return verdicts


# -- the command ------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInputError(message)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser(
        prog="python -m benchmarks.compare_checkouts",
        description="Run the same commands in two checkouts and compare their JSON byte by byte.",
        epilog="Exit code: 0 if every case is same or expected, 1 otherwise, 2 on bad input.",
    )
    parser.add_argument(
        "old", type=Path, metavar="OLD", help="the checkout before the change; its examples are used"
    )
    parser.add_argument("new", type=Path, metavar="NEW", help="the checkout after the change")
    parser.add_argument("--only", metavar="REGEX", help="run only the cases whose names match")
    parser.add_argument(
        "--expect", metavar="REGEX", action="append", default=[],
        help="allow the cases whose names match to differ; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--jobs", type=int, default=2, metavar="N", help="commands that run at once (default 2)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")
    return parser.parse_args(arguments)


def _side(checkout: Path, examples_of: Path) -> Side:
    if not (checkout / "src" / "ebbflow").is_dir():
        raise BadInputError(f"{checkout} is not a checkout: it has no folder src/ebbflow")
    examples = examples_of / "examples"
    if not examples.is_dir():
        raise BadInputError(f"{examples_of} has no folder examples")
    side = Side(checkout.resolve(), examples.resolve())
    side.check()
    return side


def _pattern(option: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise BadInputError(f"{option} {text}: not a regular expression: {error}") from None


def _compare(options: argparse.Namespace) -> list[Comparison]:
    if options.jobs < 1:
        raise BadInputError(f"--jobs {options.jobs}: write 1 or more")
    only = None if options.only is None else _pattern("--only", options.only)
    expected = [_pattern("--expect", text) for text in options.expect]
    old, new = _side(options.old, options.old), _side(options.new, options.old)
    strategies = sorted({*old.strategies(), *new.strategies()})
    cases = [case for case in cases_for(strategies) if only is None or only.search(case.name)]
    if not cases:
        raise BadInputError(f"--only {options.only}: no case matches")
    return run_cases(cases, old, new, jobs=options.jobs, expected=expected)


def _short(text: str) -> str:
    return escape(text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…")


def _show(verdicts: Sequence[Comparison]) -> None:
    table = Table("case", "verdict", box=None, pad_edge=False)
    table.add_column("old s", justify="right")
    table.add_column("new s", justify="right")
    table.add_column("first difference", overflow="fold")
    for verdict in verdicts:
        result, where = verdict.status if verdict.ok else verdict.status.upper(), ""
        if (found := verdict.difference) is not None:
            where = f"{escape(found.path)}: {_short(found.old)} → {_short(found.new)}"
        if verdict.one_sided:
            where += f"{'; ' if where else ''}not compared: {escape(', '.join(verdict.one_sided))}"
        table.add_row(escape(verdict.case), result, f"{verdict.old_s:.1f}", f"{verdict.new_s:.1f}", where)
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    console.print(table)
    counts = {
        status: sum(v.status == status for v in verdicts)
        for status in dict.fromkeys(v.status for v in verdicts)
    }
    console.print(
        f"{len(verdicts)} cases: {', '.join(f'{count} {status}' for status, count in counts.items())}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        options = _options(arguments)
        verdicts = _compare(options)
    except BadInputError as error:
        print(f"compare_checkouts: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps([asdict(verdict) for verdict in verdicts], indent=2, ensure_ascii=False))
    else:
        _show(verdicts)
    return 0 if all(verdict.ok for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
