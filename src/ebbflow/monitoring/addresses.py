"""Where agents may listen and collectors may call."""

from __future__ import annotations

import ipaddress
import re

from ebbflow.errors import InputError

DEFAULT = "tcp://127.0.0.1:7788"
_TCP = re.compile(r"tcp://(?P<host>\[[^\]]+\]|[^:/\s]+):(?P<port>\d{1,5}|\*)")
_IPC = re.compile(r"ipc://(?P<path>[^@\s].{0,99})")


def stays_here(address: str) -> bool:
    """Whether only this machine can reach an address; raises ``InputError`` if it is none.

    A name, even ``localhost``, may lead anywhere: only a loopback number or a file is certain.

    >>> stays_here("tcp://127.0.0.1:7788"), stays_here("ipc:///run/agent"), stays_here("tcp://0.0.0.0:7788")
    (True, True, False)
    """
    if _IPC.fullmatch(address):
        return True
    match = _TCP.fullmatch(address)
    if match is None or (match["port"] != "*" and int(match["port"]) > 65535):
        raise InputError(f"'{address}' is not an address; write it like {DEFAULT}")
    try:
        return ipaddress.ip_address(match["host"].strip("[]")).is_loopback
    except ValueError:
        return False


def check(address: str, *, has_keys: bool, option: str = "--keys") -> str:
    """The address, if it may be used; without keys that is one that only this machine can reach."""
    if not has_keys and not stays_here(address):
        raise InputError(
            f"{address} can be reached from other machines, and there are no keys; make them with "
            f"`ebbflow agent keys DIR` and give {option}, or stay on this machine with {DEFAULT}"
        )
    stays_here(address)
    return address
