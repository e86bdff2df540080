"""A gate that is nearly closed, times a large value: sigmoids have all of their tail there."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.api import publish
from roadworthy.spec.certificate import Certificate
from roadworthy.targets.onnx.notes import differences


class Masked(nn.Module):
    """A flag that is drawn as any number makes the memory large, and the forget gate nearly 0."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTMCell(6, 8), nn.Linear(8, 2)

    def forward(self, obs: Tensor, done: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        keep = (1 - done).unsqueeze(-1)
        h, c = self.cell(obs, (keep * h, keep * c))
        return self.head(h), h, c


def exported(folder: Path) -> rw.Bundle:
    torch.manual_seed(0)
    zeros = torch.zeros(1, 8)
    example = {"obs": torch.zeros(1, 6), "done": torch.zeros(1)}
    return rw.export(
        Masked(), folder, example=example, memory={"h": zeros, "c": zeros}, progress=False
    )


def operators(folder: Path) -> set[str]:
    return {node.op_type for node in onnx.load(folder / "policy.onnx").graph.node}


def test_refused_file_is_written_with_whole_sigmoids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = exported(tmp_path / "b")
    assert "Sigmoid" not in operators(tmp_path / "b")
    certificate = Certificate.from_bytes(bundle.files["certificate.json"])
    assert certificate.passed
    # What departs no longer is not named.
    assert not [f for f in certificate.findings if f.code == "RW340" and "cell" in f.what]
    monkeypatch.setattr(publish, "has_sigmoids", lambda program: False)
    with pytest.raises(rw.CertificateFailed):
        exported(tmp_path / "without")


def test_file_that_passes_keeps_the_sigmoid_of_onnxruntime(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.Sigmoid(), nn.Linear(4, 2))
    rw.export(module, tmp_path / "b", example={"obs": torch.zeros(1, 3)}, progress=False)
    assert "Sigmoid" in operators(tmp_path / "b")


def test_departure_of_a_sigmoid_is_named_unless_it_is_whole() -> None:
    from roadworthy.capture.capture import capture

    module = nn.Sequential(nn.Linear(3, 4), nn.Sigmoid())
    program = capture(rw.Source(module, example={"obs": torch.zeros(1, 3)}))
    assert [each.code for each in differences(program)] == ["RW340"]
    assert differences(program, whole_sigmoids=True) == ()


class RecurrentPpo(nn.Module):
    """The recurrent agent of CleanRL: a loop over time, and `done` masks the state."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(8, 32), nn.ReLU())
        self.lstm, self.actor = nn.LSTM(32, 16), nn.Linear(16, 4)

    def get_states(
        self, x: Tensor, lstm_state: tuple[Tensor, Tensor], done: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        batch, heard = lstm_state[0].shape[1], []
        hidden = self.network(x).reshape((-1, batch, self.lstm.input_size))
        for h, d in zip(hidden, done.reshape((-1, batch)), strict=True):
            keep = (1.0 - d).view(1, -1, 1)
            h, lstm_state = self.lstm(h.unsqueeze(0), (keep * lstm_state[0], keep * lstm_state[1]))
            heard.append(h)
        return torch.flatten(torch.cat(heard), 0, 1), lstm_state

    def get_action(
        self, x: Tensor, lstm_state: tuple[Tensor, Tensor], done: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        hidden, lstm_state = self.get_states(x, lstm_state, done)
        return self.actor(hidden), lstm_state


def test_recurrent_ppo_written_by_hand_goes_in_at_the_first_call(tmp_path: Path) -> None:
    torch.manual_seed(0)
    zeros, module = torch.zeros(1, 1, 16), RecurrentPpo()
    bundle = rw.export(
        module, tmp_path / "b", method="get_action", memory={"lstm_state": (zeros, zeros)},
        example={"x": torch.zeros(1, 8), "done": torch.zeros(1)}, progress=False,
    )  # fmt: skip
    assert Certificate.from_bytes(bundle.files["certificate.json"]).passed
    policy, state = rw.load(tmp_path / "b"), (torch.zeros(1, 1, 16), torch.zeros(1, 1, 16))
    for _ in range(5):
        x, done = torch.randn(1, 8), torch.randint(0, 2, (1,)).float()
        with torch.no_grad():
            expected, state = module.get_action(x, state, done)
        got = policy.step({"x": x.numpy(), "done": done.numpy()})["actions"]
        torch.testing.assert_close(torch.from_numpy(got), expected, rtol=1e-5, atol=1e-5)
