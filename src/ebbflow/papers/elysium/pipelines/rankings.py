"""The sink of the top words: a board of the best for each window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ebbflow.papers.elysium.pipelines import ranking
from ebbflow.papers.elysium.pipelines.ranking import ROW_MARK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Ranking = list[tuple[str, int]]


class Rankings:
    """Keeps the best words of the last windows; taking the same batch twice is harmless.

    Counts that come in are totals and replace older ones. The boards are in this process: counts survive a new
    driver (they are in the checkpoint), boards of windows that were open then miss the words that came no more.

    >>> boards = Rankings(window_s=60, slide_s=20, top=2)
    >>> boards.add([(60, "tea", 3), (80, "tea", 3), (100, "tea", 3)])
    >>> boards.add([(60, "sun", 4), (80, "sun", 4), (100, "sun", 4), (120, "sun", 1)])
    >>> boards.windows()[60], boards.top()
    ([('sun', 4), ('tea', 3)], [('sun', 4), ('tea', 3)])
    """

    def __init__(self, *, window_s: int, slide_s: int, top: int, windows: int = 12) -> None:
        self._open_s = window_s - slide_s
        self._top = top
        self._kept = max(windows, window_s // slide_s)
        self._boards: dict[int, Ranking] = {}
        self._rows: dict[int, int] = {}

    def take(self, batch: DataFrame, batch_id: int) -> None:  # noqa: ARG002
        """What ``foreachBatch`` calls. Ranks first: without rankers before it, a batch is all that changed."""
        for best in ranking.best(iter(batch.toArrow().to_batches()), self._top):
            self.add(list(zip(*(column.to_pylist() for column in best.columns), strict=True)))

    def add(self, ranked: list[tuple[int, str, int]]) -> None:
        """Take in (end of window, word, count)."""
        changed: dict[int, dict[str, int]] = {}
        for ends_s, word, count in ranked:
            if word.startswith(ROW_MARK):
                self._rows[int(word[1:])] = count
            else:
                changed.setdefault(ends_s, {})[word] = count
        boards = dict(self._boards)
        for ends_s, counts in changed.items():
            total = dict(boards.get(ends_s, ())) | counts
            boards[ends_s] = sorted(total.items(), key=lambda each: (-each[1], each[0]))[: self._top]
        self._boards = {ends_s: boards[ends_s] for ends_s in sorted(boards)[-self._kept :]}

    def windows(self) -> dict[int, Ranking]:
        """The best words of the last windows by the end of each, in s since the epoch; safe from any thread."""
        return self._boards

    def top(self) -> Ranking:
        """The most frequent words just now: of the longest-open window that the newest tweet is in."""
        boards = self._boards
        return boards.get(max(boards) - self._open_s, boards[max(boards)]) if boards else []

    def audit(self, rows: int) -> tuple[list[int], int]:
        """(numbers of those lost, how many repeated) among the first ``rows`` rows of the source."""
        lost = [row for row in range(rows) if row not in self._rows]
        repeated = sum(count - 1 for count in self._rows.values())
        return lost, repeated
