"""A device that forward names: the CPU is meant, on a machine with a GPU and on one without."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.capture.capture import capture
from roadworthy.errors import ExportError
from tests.policies import CASES


class Base(nn.Module):
    """The device as people keep it."""

    def __init__(self) -> None:
        super().__init__()
        self.device = torch.device("cuda:0")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.net = nn.Linear(4, 2)


class ByKeyword(Base):
    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs) + torch.ones(2, device="cuda") + torch.arange(2, device=self.device)


class ByMethod(Base):
    def forward(self, obs: Tensor) -> Tensor:
        scale = torch.tensor([2.0, 3.0]).cuda()
        return self.net(obs.cuda()).to("cuda", torch.float32) * scale.to(self.device)


class ByAttribute(Base):
    def forward(self, obs: Tensor) -> Tensor:
        with torch.device("cuda"):
            zeros = torch.zeros(obs.shape[0], 2)
        return self.net(obs.to(0)) + zeros.to(device=self.device) + obs.new_ones(2, device="cuda:1")


class KeepsState(Base):
    """Memory made on the device at the first step, as it is where a checkpoint was trained."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(1, 2))

    def forward(self, obs: Tensor) -> Tensor:
        self.last = 0.5 * self.last.to(self.device) + self.net(obs.to(self.device))
        return self.last


def plain(module: Base, obs: Tensor) -> Tensor:
    """What each of them means, without a device."""
    value: Tensor = module.net(obs)
    if isinstance(module, ByKeyword):
        return value + 1 + torch.arange(2)
    if isinstance(module, ByMethod):
        return value * torch.tensor([2.0, 3.0])
    return value + 1


@pytest.mark.parametrize("kind", [ByKeyword, ByMethod, ByAttribute])
def test_a_device_in_forward_is_the_cpu(kind: type[Base], tmp_path: Path) -> None:
    module = kind()
    rw.export(module, tmp_path / "b", example={"obs": torch.zeros(1, 4)})
    obs = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    got = rw.load(tmp_path / "b").act(obs.numpy())
    assert np.allclose(got, plain(module, obs).detach().numpy(), atol=1e-6)
    assert module.device == torch.device("cuda:0")
    rw.verify(tmp_path / "b", against=module).raise_if_failed()


def test_memory_on_a_device_is_memory(tmp_path: Path) -> None:
    module = KeepsState()
    rw.export(module, tmp_path / "b", example={"obs": torch.zeros(1, 4)}, memory={"last": "last"})
    policy, obs = rw.load(tmp_path / "b"), np.ones((1, 4), np.float32)
    first, second = policy.act(obs), policy.act(obs)
    assert np.allclose(second, 1.5 * first, atol=1e-6)


class Asks(Base):
    def forward(self, obs: Tensor) -> Tensor:
        if obs.is_cuda:
            return self.net(obs.half().float())
        return self.net(obs)


class AsksForType(Base):
    def forward(self, obs: Tensor) -> Tensor:
        device = obs.device
        if device.type == "cuda":
            return self.net(obs.half().float())
        return self.net(obs)


class PassesTypeOn(Base):
    def forward(self, obs: Tensor) -> Tensor:
        with torch.autocast(obs.device.type, enabled=False):
            if obs.device.type == "mps":
                obs = obs.float()
            return self.net(obs)


def test_a_type_that_is_passed_on_is_no_question() -> None:
    capture(rw.Source(PassesTypeOn(), example={"obs": torch.zeros(1, 4)}))


class Recurrent(Base):
    """An LSTM asks for the device of its weights when its parameters are laid out."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 4)

    def forward(self, obs: Tensor) -> Tensor:
        self.lstm.flatten_parameters()
        return self.net(self.lstm(obs[None].to(self.device))[0][0])


def test_what_a_layer_of_torch_asks_is_no_question_of_the_policy() -> None:
    capture(rw.Source(Recurrent(), example={"obs": torch.zeros(1, 4)}))


class MovesWhatItMade(Base):
    """As in the most copied PPO of all, beside a hack for its optimiser."""

    def forward(self, obs: Tensor) -> Tensor:
        zeros = torch.zeros(obs.shape[0], 2)
        if obs.is_cuda:
            zeros = zeros.cuda()
        return self.net(obs) + zeros


class MovesItself(Base):
    def forward(self, obs: Tensor) -> Tensor:
        ones, more = torch.ones(2), [torch.ones(2)]
        if not obs.is_cuda:
            obs = obs.to(self.device, non_blocking=True)
        on_gpu = obs.is_cuda
        if on_gpu and self.device is not None:
            self.net.cuda()
            ones, more = ones.cuda(), [each.cuda() for each in more]
            torch.cuda.synchronize()
        return self.net(obs) + (more[0].cuda() if on_gpu else more[0]) * ones


class ChoosesADevice(Base):
    def forward(self, obs: Tensor) -> Tensor:
        device = "cuda" if obs.is_cuda else "cpu"
        kind = torch.cuda.FloatTensor if obs.is_cuda else torch.FloatTensor
        ones = kind([0.5, 0.5]).to(device)
        if obs.device.type == "cuda":
            return self.net(obs) + torch.full((2,), 0.5, device=device) + ones
        return self.net(obs) + torch.full((2,), 0.5) + ones


@pytest.mark.parametrize("kind", [MovesWhatItMade, MovesItself, ChoosesADevice])
def test_a_question_that_decides_only_where_tensors_lie_is_followed(
    kind: type[Base], tmp_path: Path
) -> None:
    module = kind()
    rw.export(module, tmp_path / "b", example={"obs": torch.zeros(1, 4)})
    obs = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    got = rw.load(tmp_path / "b").act(obs.numpy())
    expected = module.net(obs) + (0 if kind is MovesWhatItMade else 1)
    assert np.allclose(got, expected.detach().numpy(), atol=1e-6)


class MovesAndCasts(Base):
    def forward(self, obs: Tensor) -> Tensor:
        if obs.is_cuda:
            obs = obs.cuda().half().float()
        return self.net(obs)


class MovesAnother(Base):
    """A move, but into another name."""

    def forward(self, obs: Tensor) -> Tensor:
        zeros, ones = torch.zeros(2), torch.ones(2)
        if obs.is_cuda:
            zeros = ones.cuda()
        return self.net(obs) + zeros


class KeepsTheAnswer(Base):
    def forward(self, obs: Tensor) -> Tensor:
        on_gpu = obs.is_cuda
        zeros = torch.zeros(2).cuda() if on_gpu else torch.zeros(2)
        return self.net(obs) + zeros + float(on_gpu)


class NamesTheDevice(Base):
    def forward(self, obs: Tensor) -> Tensor:
        device = "cuda" if obs.is_cuda else "cpu"
        return self.net(obs) + torch.full((2,), float(len(device)), device=device)


def scaled(obs: Tensor, device: str = "cpu") -> Tensor:
    return obs * (2.0 if device == "cuda" else 1.0)


class HandsItOn(Base):
    def forward(self, obs: Tensor) -> Tensor:
        device = "cuda" if obs.is_cuda else "cpu"
        return self.net(scaled(obs, device=device))


def to_scaled(obs: Tensor, device: str = "cpu") -> Tensor:
    return scaled(obs, device)


class HandsItToAnotherName(Base):
    """What begins like a method that places tensors may do anything."""

    def forward(self, obs: Tensor) -> Tensor:
        device = "cuda" if obs.is_cuda else "cpu"
        return self.net(to_scaled(obs, device=device))


class NamesItInTheBranch(Base):
    def forward(self, obs: Tensor) -> Tensor:
        zeros = torch.zeros(2)
        if on_gpu := obs.is_cuda:
            zeros = zeros.cuda()
        return self.net(obs) + zeros + float(on_gpu)


_on_gpu = False


class TellsEverybody(Base):
    """Who else reads such a name is not to be seen in the function."""

    def forward(self, obs: Tensor) -> Tensor:
        global _on_gpu
        _on_gpu = obs.is_cuda
        zeros = torch.zeros(2).cuda() if _on_gpu else torch.zeros(2)
        return self.told(obs) + zeros

    def told(self, obs: Tensor) -> Tensor:
        shifted: Tensor = self.net(obs) + float(_on_gpu)
        return shifted


class ReturnsEarly(Base):
    def forward(self, obs: Tensor) -> Tensor:
        if obs.is_cuda:
            return self.net(obs.cuda())
        obs = obs.clamp(-1, 1)
        return self.net(obs)


class AsksAnother(Base):
    """What is asked inside of the branch counts, and is asked on a GPU alone."""

    def forward(self, obs: Tensor) -> Tensor:
        self.asked = torch.zeros(())
        if obs.is_cuda:
            obs = obs.cuda()
            if self.counts():
                pass
        return self.net(obs) + self.asked

    def counts(self) -> bool:
        self.asked = self.asked + 1
        return True


class OldType(Base):
    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs) + torch.cuda.FloatTensor([1.0, 2.0])


@pytest.mark.filterwarnings("ignore:The torch.cuda")  # where there is a GPU, PyTorch says so too
@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (Asks, "if obs.is_cuda"),
        (AsksForType, "device = obs.device"),
        (OldType, "FloatTensor"),
        (MovesAndCasts, "if obs.is_cuda"),
        (MovesAnother, "if obs.is_cuda"),
        (KeepsTheAnswer, "on_gpu = obs.is_cuda"),
        (NamesTheDevice, "if obs.is_cuda else"),
        (HandsItOn, "if obs.is_cuda else"),
        (HandsItToAnotherName, "if obs.is_cuda else"),
        (NamesItInTheBranch, "if on_gpu := obs.is_cuda"),
        (TellsEverybody, "_on_gpu = obs.is_cuda"),
        (ReturnsEarly, "if obs.is_cuda"),
        (AsksAnother, "if obs.is_cuda"),
    ],
)
def test_what_cannot_be_followed_is_refused_with_the_line(
    kind: type[Base], line: str, tmp_path: Path
) -> None:
    with pytest.raises(ExportError) as caught:
        rw.export(kind(), tmp_path / "b", example={"obs": torch.zeros(1, 4)})
    (finding, *_) = (each for each in caught.value.findings if each.code == "RW119")
    assert line in finding.where
    assert "test_devices.py" in finding.where


@pytest.mark.parametrize("name", ["mlp", "gru", "normalized_sb3", "keeps_hidden"])
def test_whatever_the_default_device_the_bytes_are_the_same(name: str, tmp_path: Path) -> None:
    """On `meta` tensors have no values: whatever is made without a device would show."""
    rw.export(CASES[name].make(), tmp_path / "plain")
    source = CASES[name].make()
    torch.set_default_device("meta")
    try:
        rw.export(source, tmp_path / "default")
    finally:
        torch.set_default_device(None)
    for file in ("policy.onnx", "trace.npz", "manifest.json"):
        one, other = ((tmp_path / side / file).read_bytes() for side in ("plain", "default"))
        assert one == other, file
