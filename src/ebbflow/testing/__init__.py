"""Test your own strategies, guards, targets and forecasters, without Ebbflow's test tree.

- ``check_strategy``, ``check_guard``, ``check_target`` and ``check_forecaster`` run the contract that the built-in ones
  keep.
- ``make_snapshot``, ``make_batch``, ``make_stage`` and ``OperatorReadings`` build snapshots.
- ``FakeTarget`` stands in for a cluster on a ``ManualClock``.
- ``run_loop`` runs a strategy with the real loop and guards on a small engine of ``FakeQuery`` and ``FakeStage``.
"""

from __future__ import annotations

from ebbflow.core.clock import ManualClock
from ebbflow.testing.engine import FakeQuery, FakeStage, LoopRun, run_loop
from ebbflow.testing.forecaster import check_forecaster
from ebbflow.testing.guard import check_guard
from ebbflow.testing.snapshots import OperatorReadings, make_batch, make_snapshot, make_stage
from ebbflow.testing.strategy import check_scales_out_under_overload, check_strategy
from ebbflow.testing.target import FakeTarget, check_target

__all__ = [
    "FakeQuery",
    "FakeStage",
    "FakeTarget",
    "LoopRun",
    "ManualClock",
    "OperatorReadings",
    "check_forecaster",
    "check_guard",
    "check_scales_out_under_overload",
    "check_strategy",
    "check_target",
    "make_batch",
    "make_snapshot",
    "make_stage",
    "run_loop",
]
