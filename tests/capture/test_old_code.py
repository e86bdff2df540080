"""What older repositories are full of: `.data`, scripted helpers, numbers made into tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.compiler import is_exporting as quietly
from torch.nn import functional

import roadworthy as rw
from tests.capture.conftest import Refuse

OBS = {"obs": torch.zeros(1, 6)}
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")


class Actor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Linear(6, 4)
        self.count = 0


class OfWeights(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        return functional.linear(obs, self.net.weight.data)


class OfTheInput(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        action: Tensor = self.net(obs.data)
        return action


class OfACopy(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        prototypes = functional.normalize(self.net.weight.data.clone(), dim=-1)
        return functional.linear(obs, prototypes)


class OfTheResult(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        action: Tensor = self.net(obs)
        return action.data


@torch.jit.script
def rotated(q: Tensor, v: Tensor) -> Tensor:
    t = 2 * torch.cross(q[:, :3], v, dim=-1)
    return v + q[:, 3:4] * t + torch.cross(q[:, :3], t, dim=-1)


class Scripted(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        return rotated(self.net(obs), obs[:, :3])


class SqueezesANumber(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        action: Tensor = self.net(obs) * self.net.bias.sum().squeeze(0)
        return action


@pytest.mark.parametrize(
    "kind", [OfWeights, OfTheInput, OfACopy, OfTheResult, Scripted, SqueezesANumber]
)
def test_it_goes_in_as_it_is(kind: type[Actor], tmp_path: Path) -> None:
    module = kind()
    rw.export(module, tmp_path / "b", example=OBS)
    obs = torch.randn(20, 6)
    wanted = module(obs).detach().numpy()
    got = rw.load(tmp_path / "b").act(obs.numpy())
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    assert "data" not in vars(torch.Tensor)  # as before the export


class AsksItself(Actor):
    """A scripted helper beside a question of its own."""

    def forward(self, obs: Tensor) -> Tensor:
        y = rotated(self.net(obs), obs[:, :3])
        return y * 0 if torch.compiler.is_exporting() else y


class AsksByAnotherName(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        y = rotated(self.net(obs), obs[:, :3])
        return y * 0 if quietly() else y


@pytest.mark.parametrize("kind", [AsksItself, AsksByAnotherName])
def test_question_beside_a_scripted_helper_is_seen(kind: type[Actor], refuse: Refuse) -> None:
    assert {each.code for each in refuse(kind(), example=OBS)} == {"RW126"}


def prototypes(weight: Tensor) -> Tensor:
    return functional.normalize(weight.data, dim=-1)


class InAHelper(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        return functional.linear(obs, prototypes(self.net.weight))


def test_data_in_a_helper_is_named(refuse: Refuse) -> None:
    (finding,) = refuse(InAHelper(), example=OBS)
    assert finding.code == "RW104"
    assert finding.hint.startswith("write x.detach() for x.data")


class WritesDataOfAResult(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        y: Tensor = self.net(obs)
        y.data[:, 0] = 0.0
        return y


def test_what_is_written_through_data_is_refused(refuse: Refuse) -> None:
    (finding,) = refuse(WritesDataOfAResult(), example=OBS)
    assert finding.code == "RW118"


class NumberAsTensor(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        action: Tensor = self.net(obs) * torch.tensor(self.count)
        self.count = self.count + 1
        return action


class NumberTimesOnes(Actor):
    """As the hint of the one before says it."""

    def forward(self, obs: Tensor) -> Tensor:
        action: Tensor = self.net(obs) * (torch.ones_like(obs[:, :1]) * self.count)
        self.count = self.count + 1
        return action


def test_number_that_is_memory_made_into_a_tensor_is_refused_at_its_line(
    refuse: Refuse, tmp_path: Path
) -> None:
    (finding,) = refuse(NumberAsTensor(), example=OBS, memory={"count": "count"})
    assert (finding.code, "torch.tensor(self.count)" in finding.where) == ("RW103", True)
    assert "torch.ones_like(obs[:, :1]) * number" in finding.hint
    rw.export(NumberTimesOnes(), tmp_path / "b", example=OBS, memory={"count": "count"})


class ComplexMemory(Actor):
    def forward(self, obs: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        x = 0.5 * x + obs
        return x.real, x


class ComplexInside(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        return torch.exp(torch.complex(obs, obs)).real


def test_complex_numbers_are_called_so(refuse: Refuse) -> None:
    start = torch.zeros(1, 6, dtype=torch.cfloat)
    (memory,) = refuse(ComplexMemory(), example=OBS, memory={"x": start})
    assert (memory.code, memory.what) == ("RW022", "a port cannot have dtype complex64")
    (inside,) = refuse(ComplexInside(), example=OBS)
    assert inside.code == "RW105"
    assert inside.what == "ONNX has no complex numbers, and torch's exp is given some"
