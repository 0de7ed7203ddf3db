"""Where many runs are worked off: in this process, on the cores of this machine, or on a Spark cluster.

All three do the same with ``task(shared, item)`` for a list of items: the answers come back in the order of
the items, whoever was done first. What is ``shared`` (the scenarios with their loads) is sent to each worker
once, so that a day of one-second samples does not travel with every run. Whoever interrupts does not wait for
what is under way: it is ended.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import active_children, get_context
from typing import Any

Task = Callable[[Any, Any], Any]
OnDone = Callable[[int, Any], None]
"""Told which item is done, and the answer."""

ParallelMap = Callable[[Task, Sequence[Any], OnDone], list[Any]]
"""Works off a list: ``task(shared, item)`` for each item. The third argument is called once for each, in this process,
as it is done. A task must not raise: it returns what went wrong."""


def parallel_map(
    shared: Any, *, workers: int, master: str | None = None
) -> AbstractContextManager[ParallelMap]:
    """Here where one worker is enough; else on the cores; on a cluster where a master is named."""
    if master is not None:
        from ebbflow.targets.spark.launch.cluster_map import cluster_map

        return cluster_map(shared, master=master)
    return _here(shared) if workers <= 1 else _on_cores(shared, workers)


@contextmanager
def _here(shared: Any) -> Iterator[ParallelMap]:
    def work(task: Task, items: Sequence[Any], on_done: OnDone) -> list[Any]:
        answers = []
        for index, item in enumerate(items):
            answers.append(task(shared, item))
            on_done(index, answers[-1])
        return answers

    yield work


@contextmanager
def _on_cores(shared: Any, workers: int) -> Iterator[ParallelMap]:
    before = set(active_children())
    # Spawned, not forked: a progress bar runs in a thread here, and a fork would copy its locks as they are.
    pool = ProcessPoolExecutor(
        max_workers=workers, mp_context=get_context("spawn"), initializer=_take_up, initargs=(shared,)
    )

    def work(task: Task, items: Sequence[Any], on_done: OnDone) -> list[Any]:
        order: dict[Future[Any], int] = {}
        answers: list[Any] = [None] * len(items)
        for index, item in enumerate(items):
            try:
                order[pool.submit(_do, task, item)] = index
            except BrokenProcessPool as broken:  # a worker was killed before
                answers[index] = broken
                on_done(index, broken)
        for done in as_completed(order):
            # A worker that was killed takes all that is open with it; each of those is told as failed.
            index, error = order[done], done.exception()
            answers[index] = error if error is not None else done.result()
            on_done(index, answers[index])
        return answers

    try:
        yield work
    except BaseException:  # an interrupt above all: nobody waits for runs whose results nobody wants
        for worker in set(active_children()) - before:
            worker.kill()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_shared: Any = None


def _take_up(shared: Any) -> None:
    """In a new worker: keep what all tasks need; an interrupt is for the parent, who ends us."""
    global _shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _shared = shared


def _do(task: Task, item: Any) -> Any:
    return task(_shared, item)
