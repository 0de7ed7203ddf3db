"""Run benchmarks by name, or all of them; each prints a table of figures, bars and verdicts."""

from __future__ import annotations

import argparse
import importlib
import json
import sys

from benchmarks.figures import Figure, show

NAMES = (
    "decision",
    "simulator",
    "leaderboard",
    "learner",
    "traces",
    "policy",
    "agent",
    "store",
    "memory",
    "environment",
    "loop",
    "operator_cost",
    "google_cluster",
    "pipelines",
    "profiles",
    "side_by_side",
    "training",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=", ".join(NAMES))
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]}; choose from: {', '.join(NAMES)}")
    figures: list[Figure] = []
    for name in options.names or NAMES:
        print(f"· {name}", file=sys.stderr, flush=True)
        found = importlib.import_module(f"benchmarks.{name}").measure()
        figures += found
        if not options.json:
            show(found)
    if options.json:
        print(json.dumps([figure.to_json() for figure in figures], indent=2))
    return 0 if all(figure.ok for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
