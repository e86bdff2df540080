"""The numbers behind a choice are compared, wherever in the policy the choice is made."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw


class Chooses(nn.Module):
    """An argmax inside the module, as in most code for DQN."""

    def __init__(self, how: str) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 5))
        self.how = how

    def forward(self, obs: Tensor) -> Tensor:
        values = self.net(obs)
        if self.how == "argmax":
            return values.argmax(dim=-1)
        if self.how == "max":
            return values.max(dim=-1)[1]
        if self.how == "distribution":
            return torch.distributions.Categorical(logits=values).mode
        if self.how == "two groups":
            return torch.stack([values[:, :2].argmax(-1), torch.argmax(values[:, 2:], 1)], dim=-1)
        return (values == values.max(dim=-1, keepdim=True)[0]).to(torch.int64)


WAYS = ["argmax", "max", "distribution", "one-hot", "two groups"]


@pytest.mark.parametrize("how", WAYS)
def test_a_choice_inside_the_module_is_looked_behind(how: str, tmp_path: Path) -> None:
    module = Chooses(how)
    bundle = rw.export(module, tmp_path / "b", example={"obs": torch.zeros(1, 4)})
    certificate = rw.Certificate.from_bytes(bundle.files["certificate.json"])
    (check,) = [each for each in certificate.checks if each.name == "logits"]
    assert check.passed
    assert check.steps == 64


@pytest.mark.parametrize("how", WAYS)
def test_an_error_that_turns_no_choice_is_seen_behind_it(how: str, tmp_path: Path) -> None:
    module = Chooses(how)
    rw.export(module, tmp_path / "b", example={"obs": torch.zeros(1, 4)})
    with torch.no_grad():
        module.net[2].bias += 1e-3 * torch.arange(5) if how == "distribution" else 1e-3
    certificate = rw.verify(tmp_path / "b", against=module)
    failed = [check.name for check in certificate.checks if not check.passed]
    assert "logits" in failed


class ChoosesFromMemory(nn.Module):
    """The values that it chooses among are what it remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 3)

    def forward(self, obs: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        values = 0.9 * values + self.net(obs)
        return values.argmax(-1), values


def test_a_choice_among_what_is_remembered_is_looked_behind(tmp_path: Path) -> None:
    bundle = rw.export(
        ChoosesFromMemory(),
        tmp_path / "b",
        example={"obs": torch.zeros(1, 4)},
        memory={"values": torch.zeros(1, 3)},
    )
    certificate = rw.Certificate.from_bytes(bundle.files["certificate.json"])
    assert [check.passed for check in certificate.checks if check.name == "logits"] == [True]


class Mixes(nn.Module):
    """An argmax in the middle, and floats that come out: no choice is made by the policy."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 3)

    def forward(self, obs: Tensor) -> Tensor:
        best = self.net(obs).argmax(-1, keepdim=True)
        return obs.gather(-1, best)


def test_an_argmax_whose_result_is_no_action_asks_for_no_check(tmp_path: Path) -> None:
    bundle = rw.export(Mixes(), tmp_path / "b", example={"obs": torch.zeros(1, 4)})
    certificate = rw.Certificate.from_bytes(bundle.files["certificate.json"])
    assert "logits" not in [check.name for check in certificate.checks]
