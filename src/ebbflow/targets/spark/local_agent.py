"""The agent of a local cluster: a process that ends with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ebbflow.targets.spark import supervisor

LOG = "agent.log"


def start_local_agent(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Start an agent under a supervisor; returns that process and the agent's address.

    It listens at a file in the cluster's own folder, which nobody else may enter: that needs neither a port
    nor keys. Who calls before it is up is connected when it is.
    """
    address = f"ipc://{folder / 'agent'}"
    command = [sys.executable, "-m", "ebbflow.monitoring", address]
    return supervisor.start(command, log=folder / LOG), address
