"""Tasks on a Ray cluster. What one task is, is ours; when and where it runs, and again, is Ray's.

Every node must see the folders of the command under the same paths, as on a shared disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from roadworthy.deploy.many.local import PATIENCE_S, died
from roadworthy.deploy.many.task import Outcome, Task, Work
from roadworthy.errors import UsageError, need

# How often Ray starts a task anew whose node is gone.
RETRIES = 3


def run_ray(work: Work, tasks: Sequence[Task], address: str | None) -> Iterator[Outcome]:
    """The outcome of every task, in the order in which they end.

    Without an address it is the cluster that Ray finds, or one of this machine alone.
    """
    ray: Any = need("ray", extra="ray")
    ours = not ray.is_initialized()
    if ours:
        try:
            ray.init(address=address, log_to_driver=False, logging_level="error")
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise UsageError(
                f"no Ray cluster at {address}: {error}",
                where="--ray",
                hint="ray start --head starts one; --ray without an address uses this machine",
            ) from error
    perform = ray.remote(num_cpus=1, max_retries=RETRIES)(work)
    running: dict[Any, Task] = {perform.remote(task): task for task in tasks}
    try:
        while running:
            for done in ray.wait(list(running), num_returns=1)[0]:
                task = running.pop(done)
                try:
                    yield ray.get(done)
                except ray.exceptions.RayError as error:
                    yield died(task, f"{type(error).__name__}: {error}".splitlines()[0])
    finally:
        # Left by Ctrl-C: those that have begun put away what they have made so far.
        for left in running:
            ray.cancel(left)
        if running:
            ray.wait(list(running), num_returns=len(running), timeout=PATIENCE_S)
        if ours:
            ray.shutdown()
