"""When nodes may be given up: at once; or, where the load has come back after falls, when it was low for longer.

Giving up nodes costs a stop, and where the load comes back, a second one, with rows piling up until then. Whether it
does, the past tells: a *dip* is an assessment that needed fewer nodes than the one before and was followed by one that
needed more, within ``WITHIN``. While one of the last ``REMEMBER`` assessments was a dip, a smaller layout has to be
enough for the highest load since ``WAIT`` assessments ago.

The seed has nothing like it. On a load that goes up and comes down slowly there is no dip, and nothing changes.
docs/symbiotic.md has what it brought on five days of Twitter's load.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise

WITHIN = 3
WAIT = 2
REMEMBER = 10
"""All three in assessments."""


class Patience:
    """Follows how many nodes assessments needed.

    >>> patience = Patience()
    >>> for nodes in (1, 4, 4, 2, 1):
    ...     patience.note(nodes)
    >>> patience.wanted  # it only fell so far
    False
    >>> patience.note(3)
    >>> patience.wanted
    True
    """

    def __init__(self) -> None:
        self._needed: deque[int] = deque(maxlen=REMEMBER)

    def note(self, nodes: int) -> None:
        """So many were needed at an assessment."""
        self._needed.append(nodes)

    def forget_last(self) -> None:
        """The last assessment is made again."""
        self._needed.pop()

    @property
    def wanted(self) -> bool:
        """Whether a fall was followed by a rise lately."""
        needed = list(self._needed)
        return any(
            after < before and max(needed[at + 1 : at + 1 + WITHIN], default=0) > after
            for at, (before, after) in enumerate(pairwise(needed), start=1)
        )
