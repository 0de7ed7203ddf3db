"""``import ebbflow``: what it offers."""

from __future__ import annotations

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


def test_every_public_name_can_be_imported() -> None:
    assert ebbflow.__all__ == sorted(ebbflow.__all__)
    for name in ebbflow.__all__:
        assert getattr(ebbflow, name) is not None
    assert set(dir(ebbflow)) >= set(ebbflow.__all__)
    assert set(ebbflow.__all__) >= EXTENSION_POINTS | {"attach", "operator", "ManagedQuery"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(ebbflow, "atach")
