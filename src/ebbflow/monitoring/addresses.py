"""Addresses at which agents listen and to which collectors connect."""

from __future__ import annotations

import ipaddress
import re

from ebbflow.errors import InputError

DEFAULT = "tcp://127.0.0.1:7788"
_TCP = re.compile(r"tcp://(?P<host>\[[^\]]+\]|[^:/\s]+):(?P<port>\d{1,5}|\*)")
_IPC = re.compile(r"ipc://(?P<path>[^@\s].{0,99})")


def is_local(address: str) -> bool:
    """Whether only this machine can reach an address; ``InputError`` if it is not an address.

    A name, even ``localhost``, may resolve to anything, so only loopback numbers and files count.

    >>> is_local("tcp://127.0.0.1:7788"), is_local("ipc:///run/agent"), is_local("tcp://0.0.0.0:7788")
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
    """Return the address if it may be used. Without keys, only this machine may be able to reach it."""
    if not has_keys and not is_local(address):
        raise InputError(
            f"{address} can be reached from other machines, which needs keys; create them with "
            f"`ebbflow agent keys DIR` and pass {option}, or use {DEFAULT}"
        )
    is_local(address)
    return address
