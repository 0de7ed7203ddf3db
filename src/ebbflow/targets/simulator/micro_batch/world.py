"""The time of the micro-batch engine: queries that share the slots of clusters, event by event.

A batch that has its cluster's slots for itself, on nodes that stay, is settled by the formula as it begins.
That holds until something interferes: another query's batch, or a change of the nodes. Then it is looked at again
from its beginning, task by task (``slots``); what lies in the past comes out as it was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ebbflow.core.readings import Reading
from ebbflow.targets.simulator.clusters import Link
from ebbflow.targets.simulator.engine import Start
from ebbflow.targets.simulator.micro_batch.run import MicroBatchRun
from ebbflow.targets.simulator.micro_batch.slots import Slots, StageAtWork
from ebbflow.targets.simulator.nodes.pool import NodePool


@dataclass(frozen=True)
class _Alone:
    """A batch settled by the formula: whose, when it ends, and the state of the nodes it was settled for."""

    run: MicroBatchRun
    end_s: float
    version: int


class _Site:
    """A cluster at work."""

    def __init__(self, pool: NodePool) -> None:
        self.pool = pool
        self.slots = Slots(pool)
        self.alone: _Alone | None = None
        self.whose: dict[StageAtWork, MicroBatchRun] = {}

    def next_s(self) -> float:
        """When something ends or changes here next."""
        return self.alone.end_s if self.alone else self.slots.next_s()


class MicroBatchWorld:
    """All queries, on all clusters."""

    def __init__(
        self, starts: Sequence[Start], pools: Mapping[str, NodePool], link: Link | None = None
    ) -> None:
        self.pools = pools
        self.link = link or Link()
        self._sites = {cluster: _Site(pool) for cluster, pool in pools.items()}
        self.runs = [MicroBatchRun(start, self) for start in starts]
        self._numbers = {run: number for number, run in enumerate(self.runs)}

    def advance(self, until_s: float) -> None:
        """Let time pass."""
        if len(self.runs) == 1:
            self._advance_one(self.runs[0], until_s)
        else:
            while self._event(until_s):
                pass

    def busy(self, cluster: str) -> bool:
        """Whether a batch runs in a cluster."""
        return any(run.batch is not None and run.cluster == cluster for run in self.runs)

    def node_readings(self, _now_s: float) -> list[Reading]:
        """None: Spark's monitor reads nothing of this kind."""
        return []

    # -- events --------------------------------------------------------------------------------

    def _advance_one(self, run: MicroBatchRun, until_s: float) -> None:
        """As below, without asking who is next."""
        while True:
            if run.batch is None:
                run.run_stretch(until_s)
                start_s = run.next_start_s(until_s)
                if start_s > until_s:
                    return
                self._begin(run, start_s)
            site = self._sites[run.cluster]
            self._look_again(site)
            next_s = site.next_s()
            if next_s > until_s:
                return
            self._go_on(site, next_s, math.inf, until_s)

    def _event(self, until_s: float) -> bool:
        """Let the next batch begin, or what happens before go on until one ends; False if nothing does by then.

        At one time, batches begin before slots are dealt.
        """
        first_s, who = math.inf, None
        for run in self.runs:
            if run.batch is None and (start_s := run.next_start_s(until_s)) < first_s:
                first_s, who = start_s, run
        while True:
            next_s, then_s, where = math.inf, math.inf, None
            for site in self._sites.values():
                self._look_again(site)
                site_s = site.next_s()
                if site_s < next_s:
                    next_s, then_s, where = site_s, next_s, site
                else:
                    then_s = min(then_s, site_s)
            if min(first_s, next_s) > until_s:
                return False
            if who is not None and first_s <= next_s:
                if self._sites[who.cluster].alone is None:
                    self._begin(who, first_s)
                    return True
                self._unsettle(self._sites[who.cluster])  # what it has done so far comes first
            elif where is not None and self._go_on(where, next_s, min(first_s, then_s), until_s):
                return True

    def _begin(self, run: MicroBatchRun, start_s: float) -> None:
        batch = run.begin(start_s)
        site = self._sites[run.cluster]
        end_s = run.run_through(batch) if site.slots.idle and not site.alone else None
        if end_s is not None:
            site.alone = _Alone(run, end_s, site.pool.version)
        else:
            self._submit(site, run)

    def _look_again(self, site: _Site) -> None:
        if site.alone is not None and site.alone.version != site.pool.version:
            self._unsettle(site)

    def _unsettle(self, site: _Site) -> None:
        """A batch that was settled is not alone any more, or its nodes change: task by task, from its start."""
        assert site.alone is not None
        run, site.alone = site.alone.run, None
        assert run.batch is not None
        run.batch.runs = []
        self._submit(site, run)

    def _submit(self, site: _Site, run: MicroBatchRun) -> bool:
        """Announce the stage that a batch is in; False if it is through."""
        stage = run.stage_at_work(self._numbers[run])
        if stage is None or run.batch is None:
            return False
        site.whose[stage] = run
        site.slots.submit(run.batch.stage_s, stage)
        return True

    def _go_on(self, site: _Site, at_s: float, before_s: float, until_s: float) -> bool:
        """What ends or changes at a cluster next, up to the end of a stage: as long as tasks follow tasks, nobody else
        needs to be asked, until something happens elsewhere. Whether a batch has ended."""
        if site.alone is not None:
            run, site.alone = site.alone.run, None
            self._finish(site, run, at_s)
            return True
        slots, pool, ended = site.slots, site.pool, False
        while not (over := slots.step(at_s)):
            slots.hand_out(at_s)
            pool.let_go(at_s, between_batches=False, busy=slots.busy_nodes)
            slots.roll_on(before_s, until_s)
            at_s = slots.next_s()
            if at_s >= before_s or at_s > until_s:
                return False
        for stage in over:
            run = site.whose.pop(stage)
            run.stage_over(at_s, stage)
            if not self._submit(site, run):
                self._finish(site, run, at_s)
                ended = True
        slots.hand_out(at_s)
        pool.let_go(at_s, between_batches=False, busy=slots.busy_nodes)
        return ended

    def _finish(self, site: _Site, run: MicroBatchRun, at_s: float) -> None:
        cluster = run.cluster
        run.finish(at_s)
        site.pool.let_go(at_s, between_batches=not self.busy(cluster), busy=site.slots.busy_nodes)
