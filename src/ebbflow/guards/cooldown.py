"""Wait after a change until its effect shows."""

from __future__ import annotations

from typing import Annotated

from ebbflow.core.decision import Decision
from ebbflow.core.duration import format_duration
from ebbflow.core.parameters import Duration
from ebbflow.core.ports import Guard
from ebbflow.core.snapshot import Snapshot


class CoolDown(Guard):
    """Block scale-out for ``out_s`` after a scale-out, and scale-in for ``in_s`` after any change.

    Short by default: long cool-downs cost nodes and hardly avoid late rows.
    """

    name = "cool-down"

    def __init__(
        self,
        *,
        out_s: Annotated[float, Duration("Time after a scale-out in which the next scale-out waits.")] = 3.0,
        in_s: Annotated[float, Duration("Time after any change in which a scale-in waits.")] = 5.0,
    ) -> None:
        self._out_s = out_s
        self._in_s = in_s

    def restrain(self, snapshot: Snapshot, decision: Decision) -> Decision:
        """Keep the size if the last change is too recent."""
        if decision.wanted is snapshot.planned:
            return decision  # fast path for holds
        for cluster, nodes in decision.wanted.nodes.items():
            now = snapshot.planned.nodes.get(cluster, 0)
            if nodes > now:
                wait_s = self._remaining_s(snapshot.now_s, self._out_s, snapshot.last_out_s)
            elif nodes < now:
                wait_s = self._remaining_s(
                    snapshot.now_s, self._in_s, snapshot.last_out_s, snapshot.last_in_s
                )
            else:
                wait_s = 0.0
            if wait_s > 0:
                decision = decision.bound(
                    decision.wanted.with_nodes(now, cluster),
                    self.name,
                    f"{now} → {nodes} waits {format_duration(wait_s)} more after the last change",
                )
        return decision

    @staticmethod
    def _remaining_s(now_s: float, quiet_s: float, *changes_s: float | None) -> float:
        last_s = max((c for c in changes_s if c is not None), default=None)
        return 0.0 if last_s is None else last_s + quiet_s - now_s
