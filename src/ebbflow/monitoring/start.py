"""An agent on this host, put together."""

from __future__ import annotations

import time
from pathlib import Path

from ebbflow.core.clock import SystemClock
from ebbflow.monitoring.agent import Agent, host_name
from ebbflow.monitoring.keys import agent_keys
from ebbflow.monitoring.sampling import Sampler


def start_agent(
    address: str, *, keys: Path | None = None, name: str | None = None, every_s: float = 1.0
) -> Agent:
    """An agent that listens; it samples once it is run."""
    name = host_name() if name is None else name
    return Agent(
        address,
        Sampler(host=name, elapsed_s=time.monotonic),
        SystemClock(),
        elapsed_s=time.monotonic,
        name=name,
        keys=None if keys is None else agent_keys(keys),
        every_s=every_s,
    )
