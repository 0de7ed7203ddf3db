"""``import ebbflow``: what it offers, and what it does not load."""

from __future__ import annotations

import re
import subprocess
import sys

import ebbflow

EXTENSION_POINTS = {
    "Strategy",
    "Guard",
    "Target",
    "Snapshot",
    "Decision",
    "Layout",
    "Slo",
    "Limits",
    "Policy",
}
MOST_US = 50_000


def test_every_public_name_can_be_imported() -> None:
    assert ebbflow.__all__ == sorted(ebbflow.__all__)
    for name in ebbflow.__all__:
        assert getattr(ebbflow, name) is not None
    assert set(dir(ebbflow)) >= set(ebbflow.__all__)
    assert set(ebbflow.__all__) >= EXTENSION_POINTS | {"attach", "operator", "ManagedQuery"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(ebbflow, "atach")


def test_the_import_loads_no_heavy_library() -> None:
    shown = "import sys, ebbflow; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run(
        [sys.executable, "-c", shown], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"gymnasium", "numpy", "pandas", "pyspark", "msgspec", "zmq", "typer"} & set(loaded)


def test_the_import_takes_less_than_50_ms() -> None:
    """The best of three: a busy machine may delay one."""

    def took_us() -> int:
        run = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", "import ebbflow"],
            capture_output=True,
            text=True,
            check=True,
        )
        (total,) = re.findall(r"\| +(\d+) \| ebbflow$", run.stderr, re.M)
        return int(total)

    assert min(took_us() for _ in range(3)) < MOST_US
