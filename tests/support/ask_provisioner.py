"""Ask the provisioner of a test, which listens on a socket file: SOCKET start|stop HOST [fresh|restart]."""

from __future__ import annotations

import socket
import sys

if __name__ == "__main__":
    with socket.socket(socket.AF_UNIX) as asked:
        asked.connect(sys.argv[1])
        asked.sendall(" ".join(sys.argv[2:]).encode() + b"\n")
        answer = asked.makefile().readline().strip()
    sys.exit(0 if answer == "ok" else answer or "no answer")
