"""ADWIN: detects that the mean of a series has changed, without a window size to choose.

Of the n values seen since the last change, every split into an older part of n0 and a newer part of n1 is tested.
Their means differ for a reason other than chance, with confidence 1 − δ, if

    |μ0 − μ1| > √(2/m · σ² · ln(2/δ')) + 2/(3m) · ln(2/δ')     1/m = 1/n0 + 1/n1,  δ' = δ / ln n,  values in [0, 1]

Then the older part is dropped, and the test repeated. The paper has δ' = δ / n; its authors' code and river divide by
ln n, as neighbouring splits are nearly the same test, and so does this. Reference: A. Bifet, R. Gavaldà, *Learning from
time-changing data with adaptive windowing*, SDM 2007.

This is ADWIN0 of the paper, which keeps all values of a bounded window and tests every split. ADWIN2, which river has,
keeps sums in exponentially growing buckets and tests only splits between those. At one value per cycle the window is
short enough to test all of it in some 20 µs, and river would bring 160 MB into every installation for these few lines.
The test compares both.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np

LEAST = 5
"""Fewest values in each part."""


class AdaptiveWindow:
    """Reports changes of the mean of a series that is not negative. Values are divided by the largest in the window.

    ``delta``: bound on the chance of a false alarm. ``most``: values in the window, at most.

    >>> window = AdaptiveWindow()
    >>> [k for k in range(100) if window.update(100.0 if k < 50 else 300.0)]
    [73]
    >>> len(window)  # what was before the change is gone
    50
    """

    def __init__(self, *, delta: float = 0.002, most: int = 720) -> None:
        self._delta = delta
        self._values: deque[float] = deque(maxlen=most)

    def __len__(self) -> int:
        return len(self._values)

    def update(self, value: float) -> bool:
        """Add a value. Returns whether the mean has changed."""
        self._values.append(value)
        changed = False
        while (cut := self._cut()) > 0:
            changed = True
            for _ in range(cut):
                self._values.popleft()
        return changed

    def _cut(self) -> int:
        """Number of values before the clearest change; 0 if there is none."""
        n = len(self._values)
        if n < 2 * LEAST:
            return 0
        values = np.array(self._values)
        largest = values.max()
        if largest <= 0:
            return 0
        values /= largest
        older = np.arange(LEAST, n - LEAST + 1)
        sums = np.cumsum(values)
        means = sums[older - 1] / older, (sums[-1] - sums[older - 1]) / (n - older)
        per_m = 1.0 / older + 1.0 / (n - older)
        log = math.log(2.0 * math.log(n) / self._delta)
        bound = np.sqrt(2.0 * per_m * values.var() * log) + 2.0 / 3.0 * per_m * log
        beyond = np.abs(means[0] - means[1]) - bound
        clearest = int(np.argmax(beyond))
        return int(older[clearest]) if beyond[clearest] > 0 else 0
