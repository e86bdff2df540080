"""A thread that shares something with a policy is named before anything waits for it."""

from __future__ import annotations

import queue
import threading

import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.capture.capture import capture


class AsksAWorker(nn.Module):
    """Counts in the local variable of another thread."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.asked: queue.Queue[int] = queue.Queue()
        self.answered: queue.Queue[int] = queue.Queue()
        threading.Thread(target=self.work, name="worker", daemon=True).start()

    def work(self) -> None:
        count = 0
        while self.asked.get():
            count += 1
            self.answered.put(count)

    def forward(self, obs: Tensor) -> Tensor:
        self.asked.put(1)
        return self.layer(obs) * (0.0 if self.answered.get() > 300 else 1.0)


def test_a_thread_that_answers_the_policy_is_named() -> None:
    policy = AsksAWorker()
    with pytest.raises(rw.ExportError) as caught:
        capture(rw.Source(policy, example={"obs": torch.zeros(1, 4)}))
    policy.asked.put(0)
    (finding,) = caught.value.findings
    assert finding.code == "RW124"
    assert "'worker'" in finding.what
    assert "self.asked.get()" in finding.where


def test_a_thread_that_shares_nothing_is_nobodys_business() -> None:
    stop = threading.Event()

    def wait() -> None:
        stop.wait()

    beside = threading.Thread(target=wait, daemon=True)
    beside.start()
    try:
        capture(rw.Source(nn.Linear(4, 2), example={"input": torch.zeros(1, 4)}))
    finally:
        stop.set()
        beside.join()
