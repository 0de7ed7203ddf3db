"""The flow of the continuous engine: a second at a time (``flow_step``), or many at once where nothing waits.

Where nothing waits and there is room for all that comes, ``stretch`` does many seconds at once on arrays, with the
same operations in the same order as a step: the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.targets.simulator.flow_step import SteppedFlow


class Flow(SteppedFlow):
    """Rows in, at and through every operator. ``place`` puts instances on nodes, ``step`` and ``play`` let time go."""

    @property
    def calm(self) -> bool:
        """Whether nothing waits and all sources read, so that a stretch may be tried."""
        return not any(self.queue) and not self.wires and all(self.reads)

    def stretch(self, new_rows: Sequence[Floats], factors: Sequence[Floats] | None) -> Stretch:
        """As many of the next seconds as pass without a row that has to wait; ask only when ``calm``.

        Nothing has happened yet: ``play`` lets it.
        """
        count = len(new_rows[0])
        outs = np.empty((len(self.vertices), count))
        for i, source in enumerate(self._source_of):
            out = new_rows[source] if source >= 0 else np.zeros(count)
            for j, selectivity in self._streams[i]:
                out = out + outs[j] * selectivity
            outs[i] = out
        factor = None if factors is None else np.stack([factors[v.pipeline] for v in self.vertices])
        capacity = np.asarray(self._capacity)[:, None]
        fits = np.all(outs <= (capacity if factor is None else capacity * factor), axis=0)
        if self._tightest:
            # all nodes at once; who is not on a node adds nothing there, so it is as if each were done by itself
            cores, cpu_s = self._tightest_as_arrays(len(self.vertices))
            wanted = np.zeros((len(cores), count))
            for i, out in enumerate(outs):
                cpu = out * cpu_s[i]
                wanted += cpu if factor is None else cpu / factor[i]
            fits &= np.all(wanted <= cores, axis=0)
        done = _running_sums(self.done, outs)
        service = np.asarray(self._service)[:, None]
        settled, processed = [], []
        for pipeline, last in enumerate(self._last):
            through = _least([done[i] / self._rate[i] + self.lost[i] for i in last])
            settled.append(through)
            processed.append(_least([done[i] / self._rate[i] for i in last]) if self._some_lost else through)
            if self._most_pending[pipeline] < math.inf:
                for i, source in enumerate(self._source_of):
                    if source == pipeline:
                        room = self._most_pending[pipeline] - (done[i][:-1] - through[:-1])
                        fits &= outs[i] <= np.maximum(0.0, room)
        return Stretch(
            seconds=count if fits.all() else int(np.argmin(fits)),
            done=done,
            spent_s=_running_sums(self.spent_s, outs / (service if factor is None else service * factor)),
            settled=settled,
            processed=processed,
        )

    def _tightest_as_arrays(self, operators: int) -> tuple[Floats, Floats]:
        """Of the tightest nodes: cores (a line for each), CPU seconds for each operator (then a line for each)."""
        cpu_s = np.zeros((operators, len(self._tightest), 1))
        for node, (_, on) in enumerate(self._tightest):
            for i, seconds in on:
                cpu_s[i, node] = seconds
        return np.asarray([[cores] for cores, _ in self._tightest]), cpu_s

    def play(self, stretch: Stretch, seconds: int) -> None:
        """Let the first seconds of a stretch have happened."""
        self.done = stretch.done[:, seconds].tolist()
        self.spent_s = stretch.spent_s[:, seconds].tolist()
        self.settled = [float(through[seconds]) for through in stretch.settled]
        self.processed = [float(through[seconds]) for through in stretch.processed]


@dataclass(frozen=True, kw_only=True, eq=False)
class Stretch:
    """Seconds ahead in which nothing waits. Columns: after 0, 1, 2, … seconds."""

    seconds: int
    done: Floats
    spent_s: Floats
    settled: Sequence[Floats]
    """Source rows through or lost, for each pipeline."""
    processed: Sequence[Floats]
    """Source rows through, for each pipeline."""


def _least(each: Sequence[Floats]) -> Floats:
    return each[0] if len(each) == 1 else np.asarray(np.min(each, axis=0))


def _running_sums(start: Sequence[float], more: Floats) -> Floats:
    """Of each row: start, start + a, start + a + b, …, added one after the other."""
    first = np.asarray(start)[:, None]
    return np.asarray(np.cumsum(np.concatenate((first, more), axis=1), axis=1))
