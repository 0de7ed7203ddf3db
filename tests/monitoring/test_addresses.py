"""Without keys nothing leaves this machine."""

from __future__ import annotations

import pytest

from ebbflow.errors import InputError
from ebbflow.monitoring.addresses import check

HERE = ["tcp://127.0.0.1:7788", "tcp://127.9.9.9:1", "tcp://[::1]:7788", "tcp://127.0.0.1:*", "ipc:///tmp/a"]
ELSEWHERE = [
    "tcp://0.0.0.0:7788", "tcp://*:7788", "tcp://[::]:7788", "tcp://10.0.0.1:7788", "tcp://eth0:7788",
    "tcp://lo:7788", "tcp://localhost:7788", "tcp://worker-1.example:7788",
]  # fmt: skip
NONE = [
    "", "7788", "127.0.0.1:7788", "tcp://127.0.0.1", "tcp://127.0.0.1:99999", "tcp://127.0.0.1:-1", "udp://a:1",
    "inproc://x", "ipc://", "ipc://@abstract", "tcp://a b:1", "tcp://127.0.0.1:1;10.0.0.1:1",
    "ipc:///" + "a" * 200,
]  # fmt: skip


@pytest.mark.parametrize("address", HERE)
def test_this_machine_needs_no_keys(address: str) -> None:
    assert check(address, has_keys=False) == address


@pytest.mark.parametrize("address", ELSEWHERE)
def test_another_machine_needs_keys(address: str) -> None:
    with pytest.raises(InputError, match="ebbflow agent keys DIR"):
        check(address, has_keys=False)
    assert check(address, has_keys=True) == address


@pytest.mark.parametrize("address", NONE)
@pytest.mark.parametrize("has_keys", [True, False])
def test_an_invalid_address_is_reported(address: str, has_keys: bool) -> None:
    with pytest.raises(InputError, match=r"is not an address; write it like tcp://127\.0\.0\.1:7788"):
        check(address, has_keys=has_keys)
