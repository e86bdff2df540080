"""Policies that are unusual but right: each once went wrong, and must be exported or explained."""

from __future__ import annotations

import math
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.errors import BatchSpecialised, CertificateFailed, ExportError, PortMismatch

OBS = {"obs": torch.zeros(1, 4)}
H = torch.full((1, 4), 0.5)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 4)

    def forward(self, obs: Tensor) -> Any:
        return self.net(obs)


class Through(Net):
    def forward(self, obs: Tensor, h: Tensor) -> Any:
        return self.net(obs) + h, h


class NeverRead(Net):
    def forward(self, obs: Tensor, h: Tensor) -> Any:
        return self.net(obs), torch.ones_like(h) + obs


class Unused(Net):
    def forward(self, obs: Tensor, privileged: Tensor) -> Any:
        return self.net(obs)


class KeywordOnly(Net):
    def forward(self, *, obs: Tensor) -> Any:
        return self.net(obs)


class Constant(Net):
    def forward(self, obs: Tensor) -> Any:
        return {"actions": self.net(obs), "gains": torch.full((obs.shape[0], 2), 0.5)}


class UnevenLimits(Net):
    """A whole number and a broken one as limits: torch.onnx alone does not write them."""

    def forward(self, obs: Tensor) -> Any:
        return self.net(obs).clamp(0, 0.5) - obs.clip(max=0.5, min=-1)


class KeepsBuffers(nn.Module):
    """A pair in two buffers: what looks for state must put them back with their rows."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(4, 8)
        self.register_buffer("h", torch.zeros(1, 1, 8))
        self.register_buffer("c", torch.zeros(1, 1, 8))

    def forward(self, obs: Tensor) -> Any:
        features, (self.h, self.c) = self.rnn(obs.unsqueeze(0), (self.h, self.c))
        return features.squeeze(0)


class KeepsAndReturns(Net):
    """One memory in an attribute and one of another width as an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(1, 4))

    def forward(self, obs: Tensor, total: Tensor) -> Any:
        total = 0.9 * total + self.last.sum(-1, keepdim=True)
        self.last = self.net(obs)
        return self.last + total, total


class Lstm(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.rnn = nn.LSTM(4, 8, layers)

    def forward(self, obs: Tensor, h: Tensor, c: Tensor) -> Any:
        features, (h, c) = self.rnn(obs[None], (h, c))
        return features[0], h, c


class StartsAtOnes(Net):
    def __init__(self) -> None:
        super().__init__()
        self.h: Tensor | None = None

    def forward(self, obs: Tensor) -> Any:
        if self.h is None:
            self.h = torch.ones(obs.shape[0], 4)
        self.h = torch.tanh(self.h + self.net(obs))
        return self.h


class Deque(Net):
    def __init__(self) -> None:
        super().__init__()
        self.past: deque[Tensor] = deque(maxlen=3)

    def forward(self, obs: Tensor) -> Any:
        self.past.append(obs)
        return self.net(torch.stack(list(self.past)).sum(0))


class OtherFromSeven(Net):
    def forward(self, obs: Tensor) -> Any:
        return self.net(obs) * (1 if obs.shape[0] < 7 else 2)


def certified(source: rw.Source, folder: Path) -> rw.Bundle:
    """The bundle, after it was compared with the module once more, with other values."""
    bundle = rw.export(source, folder)
    rw.verify(folder, against=source.module, seed=5).raise_if_failed()
    return bundle


@pytest.mark.parametrize(
    "source",
    [
        rw.Source(Through(), example=OBS, memory={"h": H}),
        rw.Source(NeverRead(), example=OBS, memory={"h": H}),
        rw.Source(Unused(), example={**OBS, "privileged": torch.zeros(1, 2)}),
        rw.Source(KeywordOnly(), example=OBS),
        rw.Source(Constant(), example=OBS),
        rw.Source(UnevenLimits(), example=OBS),
        rw.Source(KeepsBuffers(), example=OBS, memory={"h": "h", "c": "c"}),
        rw.Source(
            KeepsAndReturns(), example=OBS, memory={"last": "last", "total": torch.zeros(1, 1)}
        ),
        rw.Source(nn.Identity(), example=OBS),
        rw.Source(nn.utils.parametrizations.weight_norm(nn.Linear(4, 2)), example=OBS),
        rw.Source(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 2)).train(), example=OBS),
        rw.Source(Net(), example=np.zeros((3, 4), np.float32)),
    ],
    ids=[
        "memory passed through", "memory never read", "unused input", "keyword only",
        "constant output", "uneven limits", "buffers", "attribute first",
        "identity", "weight norm", "spectral norm", "array",
    ],
)  # fmt: skip
def test_unusual_policy_is_certified(source: rw.Source, tmp_path: Path) -> None:
    bundle = certified(source, tmp_path / "bundle")
    assert bundle.manifest["waivers"] == []


@pytest.mark.parametrize(("rows", "layers"), [(1, 2), (2, 1), (2, 2), (3, 1)])
def test_fixed_rows_never_meet_another_axis(tmp_path: Path, rows: int, layers: int) -> None:
    memory = {name: torch.zeros(layers, rows, 8) for name in "hc"}
    source = rw.Source(
        Lstm(layers), example={"obs": torch.zeros(rows, 4)}, memory=memory, batch=rows
    )
    bundle = certified(source, tmp_path / "bundle")
    assert bundle.signature.fixed_rows == rows
    assert rw.load(tmp_path / "bundle").act(np.zeros((rows, 4), np.float32)).shape == (rows, 8)
    with pytest.raises(PortMismatch, match=f"expected float32 \\({rows}, 4\\)"):
        rw.load(tmp_path / "bundle").act(np.zeros((rows + 1, 4), np.float32))


def test_fixed_rows_reset_together(tmp_path: Path) -> None:
    memory = {name: torch.zeros(1, 2, 8) for name in "hc"}
    source = rw.Source(Lstm(1), example={"obs": torch.zeros(2, 4)}, memory=memory, batch=2)
    rw.export(source, tmp_path / "bundle")
    policy = rw.load(tmp_path / "bundle")
    policy.act(np.ones((2, 4), np.float32))
    with pytest.raises(rw.RoadworthyError, match="the policy has 2 fixed rows, which change"):
        policy.reset(np.array([True, False]))
    policy.reset(np.array([True, True]))
    assert not policy.memory["h"].any()


@pytest.mark.parametrize(
    "description",
    [
        {"about": {"obs": rw.About(low=-math.inf, high=math.inf)}},
        {"about": {"obs": rw.About(low=0.0)}},
        {"about": {"actions": rw.About(high=(1.0, 2.0, math.inf, 4.0))}},
        {"action": rw.Clip(low=-math.inf, high=1.0)},
    ],
)
def test_limits_may_be_infinite_or_one_sided(tmp_path: Path, description: dict[str, Any]) -> None:
    bundle = certified(rw.Source(Net(), example=OBS, **description), tmp_path / "bundle")
    assert rw.load(tmp_path / "bundle" / "policy.onnx").signature == bundle.signature


@pytest.mark.parametrize("limits", [{"low": 5}, {"high": 3}, {"low": 2, "high": 8}, {}])
def test_index_is_drawn_within_its_limits(tmp_path: Path, limits: dict[str, int]) -> None:
    source = rw.Source(
        nn.Sequential(nn.Embedding(9, 3)),
        example={"obs": torch.zeros(1, dtype=torch.int64)},
        about={"obs": rw.About(**limits)},
    )
    bundle = certified(source, tmp_path / "bundle")
    from roadworthy.spec.trace import Trace

    drawn = Trace.from_bytes(bundle.files["trace.npz"]).inputs["obs"]
    assert drawn.min() >= limits.get("low", 0)
    assert drawn.max() <= limits.get("high", 8)


def test_module_that_starts_elsewhere_than_at_zero_is_refused(tmp_path: Path) -> None:
    source = rw.Source(StartsAtOnes(), example=OBS, memory={"h": "h"})
    with pytest.raises(ExportError, match=r"\[RW114\] StartsAtOnes\.h: the first call"):
        rw.export(source, tmp_path / "bundle")
    said = rw.Source(StartsAtOnes(), example=OBS, memory={"h": rw.Attribute("h", initial=1.0)})
    assert certified(said, tmp_path / "one").signature.memory[0].initial == 1.0
    hinted = rw.Attribute("h", initial="first input")
    certified(rw.Source(StartsAtOnes(), example=OBS, memory={"h": hinted}), tmp_path / "hinted")


def test_deque_of_past_observations_is_named_and_put_back(tmp_path: Path) -> None:
    module = Deque()
    with pytest.raises(ExportError, match=r"\[RW112\] Deque\.past: a call writes it"):
        rw.export(module, tmp_path / "bundle", example=OBS)
    assert list(module.past) == []


def test_module_that_differs_from_seven_rows_on_is_refused(tmp_path: Path) -> None:
    with pytest.raises((BatchSpecialised, CertificateFailed)):
        rw.export(OtherFromSeven(), tmp_path / "bundle", example=OBS)
    assert list(tmp_path.iterdir()) == []


def test_example_of_any_number_of_rows_gives_the_same_policy(tmp_path: Path) -> None:
    module = Net()
    for rows in (1, 2, 3, 16):
        rw.export(module, tmp_path / str(rows), example={"obs": torch.zeros(rows, 4)})
    models = {(tmp_path / str(rows) / "policy.onnx").read_bytes() for rows in (1, 2, 3, 16)}
    assert len(models) == 1
