"""How the loop asks a strategy for a decision, so that a broken strategy can neither mislead the loop nor stop it.

Every decision is checked before the guards and again after them. With ``FailureLimits``, as on Spark, a strategy or
guard that raises, returns nonsense or takes too long leads to a hold with its reason in the ledger, and after several
failures in a row the fallback decides. Without them, as in simulations, the error is raised.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

import msgspec

from ebbflow.core.clock import Clock
from ebbflow.core.decision import Constraint, Decision, hold
from ebbflow.core.duration import format_duration
from ebbflow.core.failures import FailureLimits, LogLimit
from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.plural import counted, listed
from ebbflow.core.ports import DecidesOn, Guard, Strategy
from ebbflow.core.snapshot import Snapshot
from ebbflow.errors import StrategyError

log = logging.getLogger(__name__)

FAILED = "strategy failed"
"""Name of the constraint in the ledger."""


class Decider:
    """Asks a strategy, then the guards."""

    def __init__(
        self,
        strategy: Strategy,
        guards: Sequence[Guard],
        clock: Clock,
        *,
        failures: FailureLimits | None = None,
        fallback: Strategy | None = None,
    ) -> None:
        """``failures``: None to raise the errors of strategy and guards."""
        self._strategy, self._guards = strategy, tuple(guards)
        self._failures, self._fallback = failures, fallback
        self._clock = clock
        self._in_a_row = 0
        self._worker: _Worker | None = None
        self._log_limit = LogLimit()

    @property
    def name(self) -> str:
        """Name of the strategy that decides."""
        return self._strategy.name

    @property
    def handles_clusters(self) -> bool:
        """Whether the strategy decides on all clusters."""
        return self._strategy.handles_clusters

    @property
    def failed_in_a_row(self) -> int:
        """Failures since the last decision that was valid."""
        return self._in_a_row

    @property
    def is_late(self) -> bool:
        """Whether the strategy still works on a decision that it did not make in time."""
        return self._worker is not None and self._worker.is_late

    def decide(self, snapshot: Snapshot) -> Decision:
        """The decision that may be carried out."""
        if self._failures is None:
            return self._decide(snapshot)
        try:
            if self._worker is None:
                self._worker = _Worker(self._decide, self._clock)
            decision = self._worker.ask(snapshot, self._failures.within_s)
        except Exception as error:
            return self._hold(snapshot, error, self._failures)
        self._in_a_row = 0
        return decision

    def _decide(self, snapshot: Snapshot) -> Decision:
        decision = checked(_asked(self._strategy, snapshot), snapshot)
        for guard in self._guards:
            decision = guard.restrain(snapshot, decision)
        return checked(decision, snapshot, least_nodes=0)

    def _hold(self, snapshot: Snapshot, error: Exception, limits: FailureLimits) -> Decision:
        self._in_a_row += 1
        why = _one_line(error)
        reason = f"{FAILED}: {why}"
        if self._log_limit.allows(self._clock.monotonic_s()):
            log.warning(
                "%s failed (%d in a row); holding the size%s",
                self._strategy.name,
                self._in_a_row,
                self._log_limit.note(),
                exc_info=None if isinstance(error, StrategyError) else error,
            )
        if self._in_a_row >= limits.fallback_after and self._fallback is not None:
            reason += f"; after {counted(self._in_a_row, 'failure')} in a row {self._fallback.name} decides from now on"
            log.warning("%s", reason)
            # A new worker: the old one may never come back.
            self._strategy, self._fallback, self._worker, self._in_a_row = self._fallback, None, None, 0
        return Decision(wanted=snapshot.planned, reason=reason, bound_by=(Constraint(name=FAILED, why=why),))


def _asked(strategy: Strategy, snapshot: Snapshot) -> Decision:
    """The decision of a strategy; on the cluster ``main`` alone if it does not handle several."""
    if strategy.handles_clusters or snapshot.planned.nodes.keys() == {MAIN}:
        return strategy.decide(snapshot)
    why = f"strategy {strategy.name} sizes only the cluster {MAIN}, which"
    if MAIN not in snapshot.planned.nodes:
        return hold(snapshot, f"{why} is not among {listed(snapshot.planned.nodes)}", f"{MAIN} only")
    main = snapshot.of_main
    if main.pipeline.operators or strategy.decides_on is DecidesOn.NOTHING:
        return strategy.decide(main)
    return hold(snapshot, f"{why} has no operators here", f"{MAIN} only")


class _Worker:
    """A thread in which strategy and guards run, so that the loop need not wait for one that never returns."""

    def __init__(self, decide: Callable[[Snapshot], Decision], clock: Clock) -> None:
        self._clock = clock
        self._asked: queue.SimpleQueue[Snapshot] = queue.SimpleQueue()
        self._answered: queue.SimpleQueue[Decision | BaseException] = queue.SimpleQueue()
        self._late_since_s: float | None = None
        threading.Thread(target=self._run, args=(decide,), name="ebbflow-decide", daemon=True).start()

    @property
    def is_late(self) -> bool:
        """Whether an answer is overdue."""
        return self._late_since_s is not None and self._answered.empty()

    def _run(self, decide: Callable[[Snapshot], Decision]) -> None:
        while True:
            snapshot = self._asked.get()
            try:
                self._answered.put(decide(snapshot))
            except BaseException as error:  # SystemExit as well: a strategy must not end anything
                self._answered.put(error)

    def ask(self, snapshot: Snapshot, within_s: float) -> Decision:
        """The decision, or the error of the strategy; ``StrategyError`` if it takes too long."""
        if self._late_since_s is not None:
            self._drop_late_answer(self._late_since_s)
        asked_s = self._clock.monotonic_s()
        self._asked.put(snapshot)
        try:
            answer = self._answered.get(timeout=within_s)
        except queue.Empty:
            self._late_since_s = asked_s
            raise StrategyError(f"it did not decide within {format_duration(within_s)}") from None
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, BaseException):
            raise StrategyError(f"it raised {type(answer).__name__}")
        return answer

    def _drop_late_answer(self, since_s: float) -> None:
        """Take the answer that came too late: the snapshot it was for is old."""
        try:
            self._answered.get_nowait()
        except queue.Empty:
            took_s = format_duration(round(self._clock.monotonic_s() - since_s, 1))
            raise StrategyError(f"it has been deciding for {took_s}") from None
        self._late_since_s = None


# -- checks ------------------------------------------------------------------------------------------------------


def checked(decision: Any, snapshot: Snapshot, least_nodes: float = -math.inf) -> Decision:
    """The decision, if its layout can be carried out. Raises ``StrategyError`` otherwise.

    Sizes must be whole numbers, of clusters and operators that exist. Whole numbers of other types, such as numpy's,
    become ``int``. Fewer than ``least_nodes`` may be wanted as long as a guard raises them.
    """
    if not isinstance(decision, Decision):
        raise StrategyError(f"it returned {_shown(decision)} in place of a Decision")
    wanted, planned = decision.wanted, snapshot.planned
    if wanted is planned:
        return decision
    if not isinstance(wanted, Layout):
        raise StrategyError(f"it wants {_shown(wanted)} in place of a Layout")
    operators = {operator.name for operator in snapshot.pipeline.operators}.union(
        planned.parallelism, planned.placement
    )
    clusters = {MAIN, *planned.nodes, *snapshot.observed.nodes}
    nodes = _sizes(wanted.nodes, "nodes of", "cluster", clusters, least=least_nodes)
    parallelism = _sizes(wanted.parallelism, "parallelism of", "operator", operators, least=1)
    for operator, cluster in wanted.placement.items():
        _check_name(operator, "operator", operators)
        _check_name(cluster, "cluster", clusters)
    if nodes is wanted.nodes and parallelism is wanted.parallelism:
        return decision
    layout = Layout(nodes=nodes, parallelism=parallelism, placement=wanted.placement)
    return msgspec.structs.replace(decision, wanted=layout)


def _sizes(
    sizes: Mapping[str, Any], what: str, kind: str, known: set[str], *, least: float
) -> Mapping[str, int]:
    whole = sizes
    for name, size in sizes.items():
        _check_name(name, kind, known)
        if type(size) is not int:
            if isinstance(size, bool) or not isinstance(size, Integral):
                raise StrategyError(f"{what} {name}: {_shown(size)} is not a whole number")
            whole = {**whole, name: int(size)}
        if size < least:
            raise StrategyError(f"{what} {name}: {_shown(size)} is below {least}")
    return whole


def _check_name(name: str, kind: str, known: set[str]) -> None:
    if name not in known:
        raise StrategyError(f"there is no {kind} {_shown(name)}; there are {', '.join(sorted(known)[:10])}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, StrategyError):
        return text
    return f"{type(error).__name__}: {text}"[:300] if text else type(error).__name__
