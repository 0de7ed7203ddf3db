"""``python -m ebbflow.monitoring ADDRESS``: an agent, as the local cluster starts it.

It loads neither the command line nor strategies, so it starts fast and stays small.
"""

from __future__ import annotations

import sys
import threading

from ebbflow.monitoring.agent import start_agent

if __name__ == "__main__":
    start_agent(sys.argv[1]).run(threading.Event())
