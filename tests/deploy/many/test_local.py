"""Tasks in processes: each has its outcome, whatever happens to the others."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

import pytest

from roadworthy.deploy.many.local import run_local
from roadworthy.deploy.many.task import DIED
from tests.deploy.many import work


def test_every_task_has_its_outcome_and_one_thread(tmp_path: Path) -> None:
    tasks = [work.task(name, tmp_path) for name in "abc"]
    printed = sorted(outcome.printed for outcome in run_local(work.echo, tasks, 2))
    assert printed == ["a 1", "b 1", "c 1"]


def test_a_process_that_dies_costs_one_task_only(tmp_path: Path) -> None:
    kinds = {"a": "fine", "b": "always", "c": "once", "d": "fine"}
    tasks = [work.task(name, tmp_path, kind) for name, kind in kinds.items()]
    outcomes = {outcome.task.name: outcome for outcome in run_local(work.dies, tasks, 2)}
    assert {name: outcome.code for name, outcome in outcomes.items()} == {
        "a": 0, "b": DIED, "c": 0, "d": 0,
    }  # fmt: skip
    assert "its process ended before it did, again" in outcomes["b"].printed


def test_an_interrupt_lets_every_worker_put_its_things_away(tmp_path: Path) -> None:
    tasks = [work.task(name, tmp_path) for name in "ab"]

    def interrupted() -> None:
        running = run_local(work.waits, tasks, 2)
        for _ in running:
            pytest.fail("no task was to end")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("roadworthy.deploy.many.local.wait", lambda *_, **__: _interrupt(tmp_path))
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    assert list(tmp_path.iterdir()) == []
    assert multiprocessing.active_children() == []


def _interrupt(folder: Path) -> None:
    """Ctrl-C, once both workers have begun something."""
    for _ in range(1200):
        if len(list(folder.glob("*.half"))) == 2:
            raise KeyboardInterrupt
        time.sleep(0.1)
    pytest.fail("the workers did not begin")
