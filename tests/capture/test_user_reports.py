"""What strangers brought and were sent away with: each goes in now, or is told what to write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw


class PerhapsLikely(nn.Module):
    """An actor that gives a log-probability only where it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(3, 2)

    def forward(self, obs: Tensor, likely: bool = False) -> tuple[Tensor, Tensor | None]:
        action = self.net(obs)
        return action, action.sum(-1) if likely else None


def test_result_that_is_none_is_left_out_as_the_hint_says(tmp_path: Path) -> None:
    actor, example = PerhapsLikely(), {"obs": torch.zeros(1, 3)}
    with pytest.raises(rw.ExportError, match=r"RW190") as caught:
        rw.export(actor, tmp_path / "b", example=example)
    assert "leave it out: outputs=('actions', None)" in str(caught.value)
    bundle = rw.export(actor, tmp_path / "b", example=example, outputs=("actions", None))
    assert [port.name for port in bundle.signature.outputs] == ["actions"]


class Tasks(nn.Module):
    """A table of tasks that is cut to a norm where it is looked up, in place."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(5, 4, max_norm=1.0)
        with torch.no_grad():
            self.table.weight.mul_(3)
        self.net = nn.Linear(7, 2)

    def forward(self, obs: Tensor, task: Tensor) -> Tensor:
        action: Tensor = self.net(torch.cat([obs, self.table(task)], dim=-1))
        return action


def test_table_of_a_largest_norm_is_no_state(tmp_path: Path) -> None:
    module = Tasks()
    before = module.table.weight.detach().clone()
    example = {"obs": torch.zeros(1, 3), "task": torch.zeros(1, dtype=torch.int64)}
    rw.export(module, tmp_path / "b", example=example)
    assert torch.equal(module.table.weight, before)
    policy = rw.load(tmp_path / "b")
    obs, task = np.ones((5, 3), np.float32), np.arange(5)
    with torch.no_grad():
        expected = module(torch.from_numpy(obs), torch.from_numpy(task)).numpy()
    assert np.allclose(policy.step({"obs": obs, "task": task})["actions"], expected, atol=1e-6)


class Late(nn.Module):
    """State that is not there before the first call."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 3)

    def forward(self, obs: Tensor) -> Tensor:
        if not hasattr(self, "h"):
            self.h = torch.zeros_like(obs)
        self.h = torch.tanh(self.net(torch.cat([obs, self.h], dim=-1)))
        return self.h


def test_attribute_that_the_first_call_makes_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(rw.UsageError, match=r"self\.h = None in __init__"):
        rw.export(Late(), tmp_path / "b", example={"obs": torch.zeros(1, 3)}, memory={"h": "h"})


class Scripted(nn.Module):
    """What legged_gym saves: an LSTM with its state in buffers, compiled by TorchScript."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = nn.LSTM(3, 8)
        self.register_buffer("hidden_state", torch.zeros(1, 1, 8))
        self.register_buffer("cell_state", torch.zeros(1, 1, 8))

    def forward(self, obs: Tensor) -> Tensor:
        out, (h, c) = self.memory(obs.unsqueeze(0), (self.hidden_state, self.cell_state))
        self.hidden_state[:] = h
        self.cell_state[:] = c
        action: Tensor = out.squeeze(0)
        return action


def test_scripted_lstm_is_entered(tmp_path: Path) -> None:
    """Its class was made anew without the lists of weights that only Python code keeps."""
    module = nn.Sequential(torch.jit.script(Scripted()))
    with pytest.raises(
        rw.ExportError, match=r"RW112[\s\S]*memory=\{'hidden_state': '0\.hidden_state'"
    ):
        rw.export(module, tmp_path / "b", example={"obs": torch.zeros(1, 3)})


class MaskedGru(nn.Module):
    """MAPPO's actor in small: a mask that is no mask to whoever draws samples, and a choice."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.gru = nn.GRU(8, 64)
        self.head = nn.Linear(64, 4)

    def forward(self, obs: Tensor, masks: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        features, h = self.gru(obs[None], (h * masks)[None])
        return self.head(features[0]).argmax(-1), h[0]


def test_gates_of_large_values_have_their_tail(tmp_path: Path) -> None:
    example = {"obs": torch.zeros(1, 8), "masks": torch.ones(1, 1)}
    memory = {"h": torch.zeros(1, 64)}
    bundle = rw.export(MaskedGru(), tmp_path / "b", example=example, memory=memory)
    assert bundle.certificate.passed
