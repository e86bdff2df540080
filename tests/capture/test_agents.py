"""Memory of several agents, one behind the other: several rows for each row of the batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw

AGENTS, HIDDEN = 3, 6


class Team(nn.Module):
    """One network for all agents, as in QMIX and VDN: observations of (batch, agents, 8)."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.cell, self.head = nn.GRUCell(8, HIDDEN), nn.Linear(HIDDEN, 5)

    def forward(self, obs: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.cell(obs.reshape(-1, 8), hidden.reshape(-1, HIDDEN))
        return self.head(hidden).view(obs.shape[0], AGENTS, 5), hidden


class StrictTeam(Team):
    """Takes its memory in no other form than the one it returns."""

    def forward(self, obs: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        assert hidden.ndim == 2
        return super().forward(obs, hidden)


class Controller(nn.Module):
    """Starts with (batch, agents, hidden), and goes on with (batch * agents, hidden)."""

    def __init__(self, rows: int = 1) -> None:
        super().__init__()
        self.team = Team()
        self.hidden_states = torch.zeros(1, HIDDEN).expand(rows, AGENTS, -1)

    def forward(self, obs: Tensor) -> Tensor:
        action, self.hidden_states = self.team(obs, self.hidden_states)
        return action


class Flat(Controller):
    def __init__(self, rows: int = 1) -> None:
        super().__init__()
        self.hidden_states = torch.zeros(rows * AGENTS, HIDDEN)


class ByAgent(Team):
    """All rows of one agent, then all rows of the next: no axis of its own for the batch."""

    def forward(self, obs: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.cell(obs.transpose(0, 1).reshape(-1, 8), hidden)
        return self.head(hidden).view(AGENTS, -1, 5).transpose(0, 1), hidden


def followed(team: Team, policy: rw.Policy) -> None:
    """Six steps of three rows with a reset of one, beside a plain loop."""
    hidden = torch.zeros(3, AGENTS, HIDDEN)
    rng = np.random.default_rng(0)
    for step in range(6):
        if step == 3:
            policy.reset(np.array([False, True, False]))
            hidden[1] = 0
        obs = rng.standard_normal((3, AGENTS, 8)).astype(np.float32)
        with torch.no_grad():
            expected, flat = Team.forward(team, torch.from_numpy(obs), hidden.flatten(0, 1))
        hidden = flat.view(3, AGENTS, HIDDEN)
        assert np.allclose(policy.act(obs), expected.numpy(), atol=1e-5)


@pytest.mark.parametrize(("kind", "rows"), [(Controller, 1), (Flat, 2)])
def test_attribute_of_all_agents_is_memory(
    kind: type[Controller], rows: int, tmp_path: Path
) -> None:
    module, example = kind(rows), {"obs": torch.zeros(rows, AGENTS, 8)}
    with pytest.raises(rw.ExportError, match="RW112") as caught:
        rw.export(module, tmp_path / "b", example=example)
    assert "memory={'hidden_states': 'hidden_states'}" in str(caught.value)
    memory = {"hidden_states": "hidden_states"}
    bundle = rw.export(module, tmp_path / "b", example=example, memory=memory)
    (port,) = bundle.signature.memory
    assert port.shape == ("batch", AGENTS, HIDDEN)
    followed(module.team, rw.load(tmp_path / "b"))


def test_argument_of_all_agents_is_memory(tmp_path: Path) -> None:
    module = StrictTeam()
    memory = {"hidden": torch.zeros(AGENTS, HIDDEN)}
    bundle = rw.export(
        module, tmp_path / "b", example={"obs": torch.zeros(1, AGENTS, 8)}, memory=memory
    )
    assert bundle.signature.memory[0].shape == ("batch", AGENTS, HIDDEN)
    followed(module, rw.load(tmp_path / "b"))
    # From the bundle alone: the manifest says how the module keeps it.
    rw.verify(tmp_path / "b", against=module).raise_if_failed()


@pytest.mark.slow
def test_c_keeps_the_memory_of_all_agents(tmp_path: Path) -> None:
    module = StrictTeam()
    memory = {"hidden": torch.zeros(AGENTS, HIDDEN)}
    example = {"obs": torch.zeros(1, AGENTS, 8)}
    rw.export(module, tmp_path / "b", example=example, memory=memory, targets=["onnx", "c"])
    followed(module, rw.load(tmp_path / "b", engine="c", trust=True))


def test_agents_before_rows_are_no_rows_for_each(tmp_path: Path) -> None:
    with pytest.raises(rw.ExportError, match="RW110") as caught:
        rw.export(
            ByAgent(),
            tmp_path / "b",
            example={"obs": torch.zeros(1, AGENTS, 8)},
            memory={"hidden": torch.zeros(AGENTS, HIDDEN)},
        )
    assert "one behind the other: batch * agents" in caught.value.findings[0].hint
