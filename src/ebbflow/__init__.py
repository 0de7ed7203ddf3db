"""Ebbflow keeps a Spark streaming pipeline exactly as large as its load needs.

In a job, one line::

    import ebbflow
    ebbflow.attach(spark, executors=(1, 20), slo="freshness p95 <= 30s")

Around a job nobody changed: ``ebbflow submit --executors 1:20 job.py``. To see it: ``ebbflow demo``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ebbflow.control.attach import attach
    from ebbflow.control.attached import Attached
    from ebbflow.targets.spark.act.restart import ManagedQuery
    from ebbflow.targets.spark.operators.operator import OperatorCounts, operator

__all__ = ["Attached", "ManagedQuery", "OperatorCounts", "__version__", "attach", "operator"]

__version__ = "0.1.0"

_HOMES = {
    "Attached": "ebbflow.control.attached",
    "ManagedQuery": "ebbflow.targets.spark.act.restart",
    "OperatorCounts": "ebbflow.targets.spark.operators.operator",
    "attach": "ebbflow.control.attach",
    "operator": "ebbflow.targets.spark.operators.operator",
}


def _offer_environment() -> None:
    """Let ``gymnasium.make("ebbflow/Scaling-v0")`` work once ``ebbflow`` is imported, where there is a Gymnasium."""
    try:
        from gymnasium.envs.registration import register
    except ImportError:
        return
    register(id="ebbflow/Scaling-v0", entry_point="ebbflow.runs.environment:ScalingEnv")


_offer_environment()


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is asked for: ``import ebbflow`` stays cheap and needs no Spark."""
    if name not in _HOMES:
        raise AttributeError(f"module 'ebbflow' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
