"""Registers the simulator as a Gymnasium environment, ``ebbflow/Scaling-v0``, when it is imported.

``gymnasium.make("ebbflow.gym:ebbflow/Scaling-v0")`` imports it by itself. It is a module of its own because
``import ebbflow`` in a job must not load Gymnasium.
"""

from __future__ import annotations

try:
    from gymnasium.envs.registration import register, registry
except ImportError:
    raise ImportError(
        "ebbflow.gym needs Gymnasium; install it with: pip install 'ebbflow[learning]'"
    ) from None

ENV_ID = "ebbflow/Scaling-v0"

if ENV_ID not in registry:
    register(id=ENV_ID, entry_point="ebbflow.bench.learning.environment:ScalingEnv")
