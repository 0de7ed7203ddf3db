"""Singular and plural in messages."""

from __future__ import annotations


def counted(count: int, one: str, many: str = "") -> str:
    """A number of things; ``many`` is the plural if it is not ``one`` and an s.

    >>> counted(1, "run"), counted(12, "run"), counted(0, "strategy", "strategies")
    ('1 run', '12 runs', '0 strategies')
    """
    return f"{count} {one if count == 1 else many or one + 's'}"
