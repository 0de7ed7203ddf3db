"""Apply a function to many items: in this process, on all cores, or on a Spark cluster.

``task(shared, item)`` is called for every item, and the results come back in the order of the items. ``shared`` (the
scenarios with their loads) is sent to each worker once. On an interrupt, running tasks are killed. Workers end with
their parent, however that ends.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait
from typing import Any

Task = Callable[[Any, Any], Any]
OnDone = Callable[[int, Any], None]
"""Called with the index of a finished item and its result."""

ParallelMap = Callable[[Task, Sequence[Any], OnDone], list[Any]]
"""Calls ``task(shared, item)`` for each item. The third argument is called in this process after each one. A task must
not raise but return its error."""


def parallel_map(
    shared: Any, *, workers: int, master: str | None = None
) -> AbstractContextManager[ParallelMap]:
    """A map on the Spark cluster ``master`` if given, in this process for one worker, else on that many processes."""
    if master is not None:
        from ebbflow.targets.spark.launch.cluster_map import cluster_map

        return cluster_map(shared, master=master)
    return _in_process(shared) if workers <= 1 else _in_pool(shared, workers)


@contextmanager
def _in_process(shared: Any) -> Iterator[ParallelMap]:
    def work(task: Task, items: Sequence[Any], on_done: OnDone) -> list[Any]:
        results = []
        for index, item in enumerate(items):
            results.append(task(shared, item))
            on_done(index, results[-1])
        return results

    yield work


@contextmanager
def _in_pool(shared: Any, workers: int) -> Iterator[ParallelMap]:
    before = set(active_children())
    # Spawn, not fork: a progress bar runs in a thread here, and a fork would copy its locks in whatever state.
    pool = ProcessPoolExecutor(
        max_workers=workers, mp_context=get_context("spawn"), initializer=_init_worker, initargs=(shared,)
    )

    def work(task: Task, items: Sequence[Any], on_done: OnDone) -> list[Any]:
        order: dict[Future[Any], int] = {}
        results: list[Any] = [None] * len(items)
        for index, item in enumerate(items):
            try:
                order[pool.submit(_call, task, item)] = index
            except BrokenProcessPool as broken:  # a worker was killed before
                results[index] = broken
                on_done(index, broken)
        for done in as_completed(order):
            # If a worker is killed, all open tasks fail with it.
            index, error = order[done], done.exception()
            results[index] = error if error is not None else done.result()
            on_done(index, results[index])
        return results

    try:
        yield work
    except BaseException:  # above all an interrupt: do not wait for the running tasks
        for worker in set(active_children()) - before:
            worker.kill()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_shared: Any = None


def _init_worker(shared: Any) -> None:
    """Keep the shared values; ignore interrupts, because the parent kills its workers; end when the parent is gone."""
    global _shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _shared = shared


def _end_with_parent() -> None:
    """A parent that is terminated or killed cannot end its workers, and their queue never closes."""
    parent = parent_process()
    assert parent is not None  # this is a worker
    wait([parent.sentinel])
    os._exit(1)


def _call(task: Task, item: Any) -> Any:
    return task(_shared, item)
