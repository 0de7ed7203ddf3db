"""A batch of a query that nothing is known of yet, and that goes on and on."""

from __future__ import annotations

from collections.abc import Mapping

from ebbflow.core.decision import Decision
from ebbflow.core.snapshot import Snapshot

FIRST_BATCH_S = 15.0
"""A first batch starts Python and loads classes: so long it says nothing about the size."""


class FirstBatch:
    """Doubles while a batch runs on that no model can judge, and again after each step of time.

        n = n₀ · 2^(1 + ⌊(running − max(w, step)) / step⌋),  step = max(SLO / 2, lead)

    A step is half the objective, or the time in which more nodes come if that is longer: before it is over,
    nobody can say that the last doubling was not enough.
    """

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None
        """(start, nodes planned then) of the batch that has run longest."""

    def doubled(self, snapshot: Snapshot, unlearned: Mapping[str, float | None]) -> Decision | None:
        """The decision to double; None while there is no need to. ``unlearned``: queries by the start of their
        batch, as in a snapshot."""
        running = {name: since_s for name, since_s in unlearned.items() if since_s is not None}
        if not running:
            self._first = None
            return None
        name = min(running, key=lambda each: running[each])
        since_s, now, slo_s = running[name], snapshot.planned.main_nodes, snapshot.slo.freshness_s
        if self._first is None or self._first[0] != since_s:
            self._first = (since_s, now)
        step_s, running_s = max(slo_s / 2, snapshot.lead_time_s), snapshot.now_s - since_s
        doublings = min(int(1 + (running_s - max(FIRST_BATCH_S, step_s)) // step_s), 20)
        wanted = snapshot.limits.clamp(self._first[1] * 2 ** max(0, doublings))
        if wanted <= now or not snapshot.observed.main_nodes:
            return None
        return Decision(
            wanted=snapshot.planned.with_nodes(wanted),
            reason=(
                f"learning, and a batch of {name} has run for {running_s:.0f} s at an objective of {slo_s:g} s: "
                f"doubled, and again every {step_s:g} s"
            ),
            formula="n = n₀ · 2^(1 + ⌊(running − max(w, step)) / step⌋), step = max(SLO / 2, lead)",
            inputs={"running_s": round(running_s, 1), "w_s": FIRST_BATCH_S, "step_s": round(step_s, 1)},
        )
