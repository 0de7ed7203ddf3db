"""Numbers of things and lists of names in messages."""

from __future__ import annotations

from collections.abc import Iterable


def counted(count: int, one: str, many: str = "") -> str:
    """A number of things; ``many`` is the plural if it is not ``one`` and an s.

    >>> counted(1, "run"), counted(12, "run"), counted(0, "strategy", "strategies")
    ('1 run', '12 runs', '0 strategies')
    """
    return f"{count} {one if count == 1 else many or one + 's'}"


def listed(names: Iterable[str]) -> str:
    """Names in a sentence.

    >>> listed(["joint"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('joint', 'a and b', 'a, b and c')
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
