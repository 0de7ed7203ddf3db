"""Ebbflow keeps a Spark streaming pipeline exactly as large as its load needs.

In a job, one line::

    import ebbflow
    ebbflow.attach(spark, executors=(1, 20), slo="freshness p95 <= 30s")

Around an unchanged job: ``ebbflow submit --executors 1:20 job.py``. To see it at work: ``ebbflow demo``.

The names below are public and loaded on first use, so ``import ebbflow`` is cheap and does not need Spark. Public, too,
are ``ebbflow.testing``, ``ebbflow.errors``, ``ebbflow.core.parameters`` (options of your own strategies and guards)
and, of the modules that docs/api.md lists, the names that the documentation uses. Everything else may change between
minor versions.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it for True; typing itself would be half of the import time
if TYPE_CHECKING:
    from ebbflow.control.attach import attach
    from ebbflow.control.attached import Attached
    from ebbflow.core.decision import Decision, Outcome
    from ebbflow.core.layout import Layout
    from ebbflow.core.limits import Limits
    from ebbflow.core.ports import DecidesOn, Guard, Observation, Strategy, Target
    from ebbflow.core.slo import Slo
    from ebbflow.core.snapshot import ActionKind, Snapshot
    from ebbflow.policy.model import Policy
    from ebbflow.targets.spark.act.restart import ManagedQuery
    from ebbflow.targets.spark.launch.settings import scaling_settings
    from ebbflow.targets.spark.operators.operator import OperatorCounts, operator

__all__ = [
    "ActionKind",
    "Attached",
    "DecidesOn",
    "Decision",
    "Guard",
    "Layout",
    "Limits",
    "ManagedQuery",
    "Observation",
    "OperatorCounts",
    "Outcome",
    "Policy",
    "Slo",
    "Snapshot",
    "Strategy",
    "Target",
    "__version__",
    "attach",
    "operator",
    "scaling_settings",
]

__version__ = "0.1.0"

_MODULES = {
    "ActionKind": "ebbflow.core.snapshot",
    "Attached": "ebbflow.control.attached",
    "DecidesOn": "ebbflow.core.ports",
    "Decision": "ebbflow.core.decision",
    "Guard": "ebbflow.core.ports",
    "Layout": "ebbflow.core.layout",
    "Limits": "ebbflow.core.limits",
    "ManagedQuery": "ebbflow.targets.spark.act.restart",
    "Observation": "ebbflow.core.ports",
    "OperatorCounts": "ebbflow.targets.spark.operators.operator",
    "Outcome": "ebbflow.core.decision",
    "Policy": "ebbflow.policy.model",
    "Slo": "ebbflow.core.slo",
    "Snapshot": "ebbflow.core.snapshot",
    "Strategy": "ebbflow.core.ports",
    "Target": "ebbflow.core.ports",
    "attach": "ebbflow.control.attach",
    "operator": "ebbflow.targets.spark.operators.operator",
    "scaling_settings": "ebbflow.targets.spark.launch.settings",
}


def __getattr__(name: str) -> object:
    """Load a public name on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module 'ebbflow' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
