"""Tasks in processes of this machine."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from typing import NoReturn

from roadworthy.deploy.many.task import DIED, Outcome, Task, Work
from roadworthy.errors import Finding

# Seconds that a worker has to put away what it has begun.
PATIENCE_S = 30.0
# How often a task is tried alone that was running when a process died.
TRIES = 2


def run_local(work: Work, tasks: Sequence[Task], jobs: int) -> Iterator[Outcome]:
    """The outcome of every task, in the order in which they end.

    One job is a process of its own too: what a policy becomes must not depend on how many there
    are. Where a process dies, those that were running are tried again, each alone.
    """
    waiting, suspects = deque(tasks), deque[Task]()
    while waiting:
        yield from _until_one_dies(work, waiting, suspects, jobs)
    for task in suspects:
        alone = deque([task])
        for _ in range(TRIES):
            waiting, alone = alone, deque[Task]()
            yield from _until_one_dies(work, waiting, alone, 1)
        if alone:
            yield died(task, "its process ended before it did, again: out of memory, or a crash")


def died(task: Task, why: str) -> Outcome:
    """The outcome of a task that could not say anything itself."""
    finding = Finding(code="RW900", where=task.name, what=why, hint="run it alone, with --debug")
    said = {"code": finding.code, "what": finding.what, "where": finding.where}
    found = [said | {"hint": finding.hint, "severity": finding.severity}]
    return Outcome(task=task, code=DIED, printed=json.dumps({"error": found}))


def _until_one_dies(
    work: Work, waiting: deque[Task], suspects: deque[Task], jobs: int
) -> Iterator[Outcome]:
    """Takes tasks from `waiting`; those that ran when a process died are left in `suspects`."""
    running: dict[Future[Outcome], Task] = {}
    with _workers(jobs) as pool:
        while waiting or running:
            # No more than there are processes: what has not begun cannot be a suspect.
            while waiting and len(running) < jobs:
                task = waiting.popleft()
                running[pool.submit(work, task)] = task
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                try:
                    outcome = done.result()
                except BrokenProcessPool:
                    suspects.extend(running.values())
                    return
                del running[done]
                yield outcome


class _workers:  # noqa: N801  # a context manager, which reads as a function
    """A pool of processes; when it is left by an error, they put away what they have begun."""

    def __init__(self, jobs: int) -> None:
        # A fresh interpreter: PyTorch's threads do not survive a fork.
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin)

    def __enter__(self) -> ProcessPoolExecutor:
        return self._pool

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self._pool.shutdown()
            return
        self._pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.terminate()
        for child in multiprocessing.active_children():
            child.join(PATIENCE_S)


def _begin() -> None:
    """Prepares a worker: one thread, and an end when it is told so or when its parent is gone."""
    # Sums of many numbers depend on how many threads share them.
    os.environ["OMP_NUM_THREADS"] = "1"
    # Ctrl-C reaches every process of the terminal; the parent alone decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _interrupt)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _follow(sentinel: int) -> None:
    connection.wait([sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
