"""The drop-in keeps the call and the ports of the original exporter, and bakes everything in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.errors import ExportError, UsageError


class Statistics(nn.Module):
    """rsl_rl's EmpiricalNormalization, in evaluation."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("_mean", torch.linspace(-2, 2, size))
        self.register_buffer("_std", torch.linspace(0.5, 3, size))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self._mean) / (self._std + 1e-2)


class Embedding(nn.Module):
    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Sequential(nn.Linear(size, width), nn.GELU())

    def forward(self, x: Tensor) -> Tensor:
        return self.embedding(x)


class BertActor(nn.Module):
    """The BERT form of GBC: observation and reference as tokens, a mask for rows without one."""

    def __init__(self, obs: int = 10, ref: int | None = 6, actions: int = 4) -> None:
        super().__init__()
        self.obs_embedding = Embedding(obs, 16)
        self.ref_obs_embedding = None if ref is None else Embedding(ref, 16)
        self.cls = nn.Parameter(torch.randn(1, 1, 16))
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(16, actions)

    def forward(self, obs: Tensor, ref: tuple[Tensor, Tensor] | None = None) -> Tensor:
        tokens = [self.cls.expand(obs.shape[0], -1, -1), self.obs_embedding(obs).unsqueeze(1)]
        if ref is not None and self.ref_obs_embedding is not None:
            values, mask = ref
            tokens.append(self.ref_obs_embedding(values).unsqueeze(1) * mask[:, None, None])
        return self.head(self.encoder(torch.cat(tokens, dim=1))[:, 0])


class ActorCritic(nn.Module):
    def __init__(self, actor: nn.Module, rnn: nn.Module | None = None) -> None:
        super().__init__()
        self.actor = actor
        self.critic = nn.Linear(3, 1)
        self.is_recurrent = rnn is not None
        if rnn is not None:
            self.memory_a = nn.Module()
            self.memory_a.rnn = rnn


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def mlp(wide: int = 8) -> nn.Sequential:
    return nn.Sequential(nn.Linear(wide, 16), nn.ELU(), nn.Linear(16, 3))


def ports(path: Path) -> tuple[list[str], list[str]]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return [p.name for p in session.get_inputs()], [p.name for p in session.get_outputs()]


def test_an_mlp_actor_maps_obs_to_actions_through_the_normalizer(tmp_path: Path) -> None:
    policy, normalizer = ActorCritic(mlp()), Statistics(8)
    path = rw.export_policy_as_onnx(policy, str(tmp_path / "new" / "folder"), normalizer)
    assert path == tmp_path / "new" / "folder" / "policy.onnx"
    assert ports(path) == (["obs"], ["actions"])
    obs = torch.randn(5, 8)
    with torch.no_grad():
        expected = policy.actor(normalizer(obs)).numpy()
    np.testing.assert_allclose(rw.load(path).act(obs.numpy()), expected, atol=1e-6)


def test_the_normalizer_changes_the_actions(tmp_path: Path) -> None:
    policy = ActorCritic(mlp())
    with_it = rw.load(rw.export_policy_as_onnx(policy, tmp_path, Statistics(8), "with.onnx"))
    without = rw.load(rw.export_policy_as_onnx(policy, tmp_path, filename="without.onnx"))
    obs = np.ones(8, dtype=np.float32)
    assert np.abs(with_it.act(obs) - without.act(obs)).max() > 1e-2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["with.onnx", "without.onnx"]


def test_a_reference_actor_takes_obs_ref_obs_and_ref_mask(tmp_path: Path) -> None:
    policy, normalizer = ActorCritic(BertActor()), Statistics(10)
    path = rw.export_policy_as_onnx(policy, tmp_path, normalizer)
    assert ports(path) == (["obs", "ref_obs", "ref_mask"], ["actions"])
    obs, ref = torch.randn(4, 10), torch.randn(4, 6)
    mask = torch.tensor([True, False, True, False])
    with torch.no_grad():
        expected = policy.actor.eval()(normalizer(obs), (ref, mask)).numpy()
    feed = {"obs": obs.numpy(), "ref_obs": ref.numpy(), "ref_mask": mask.numpy()}
    np.testing.assert_allclose(rw.load(path).act(feed), expected, atol=1e-5)


def test_a_bert_actor_without_reference_takes_obs_alone(tmp_path: Path) -> None:
    path = rw.export_policy_as_onnx(ActorCritic(BertActor(ref=None)), tmp_path)
    assert ports(path) == (["obs"], ["actions"])


@pytest.mark.parametrize("layers", [1, 2])
def test_an_lstm_actor_takes_and_returns_h_and_c(tmp_path: Path, layers: int) -> None:
    rnn, normalizer = nn.LSTM(8, 12, layers), Statistics(8)
    policy = ActorCritic(mlp(12), rnn)
    path = rw.export_policy_as_onnx(policy, tmp_path, normalizer, "robot.onnx")
    assert ports(path) == (["obs", "h_in", "c_in"], ["actions", "h_out", "c_out"])
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    state = [np.zeros((layers, 1, 12), np.float32)] * 2
    hidden = None
    for obs in torch.randn(20, 1, 8):
        actions, *state = session.run(
            None, {"obs": obs.numpy(), "h_in": state[0], "c_in": state[1]}
        )
        with torch.no_grad():
            features, hidden = rnn(normalizer(obs).unsqueeze(0), hidden)
            expected = policy.actor(features.squeeze(0)).numpy()
        np.testing.assert_allclose(actions, expected, atol=1e-5)


def test_a_gru_actor_takes_and_returns_h(tmp_path: Path) -> None:
    path = rw.export_policy_as_onnx(ActorCritic(mlp(12), nn.GRU(8, 12)), tmp_path)
    assert ports(path) == (["obs", "h_in"], ["actions", "h_out"])


def test_the_policy_is_left_in_training_mode(tmp_path: Path) -> None:
    policy = ActorCritic(BertActor())
    policy.train()
    rw.export_policy_as_onnx(policy, tmp_path)
    assert all(module.training for module in policy.modules())


def test_verbose_prints_the_signature_and_the_certificate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rw.export_policy_as_onnx(ActorCritic(mlp()), tmp_path, verbose=True)
    out = capsys.readouterr().out
    assert "input   obs      float32 (batch, 8)" in out
    assert "certificate passed" in out


def test_a_normalizer_that_was_forgotten_is_asked_for(tmp_path: Path) -> None:
    policy = ActorCritic(mlp())
    policy.actor_obs_normalizer = Statistics(8)
    with pytest.raises(UsageError, match="normalises its observations") as caught:
        rw.export_policy_as_onnx(policy, tmp_path)
    assert caught.value.findings[0].code == "RW031"
    assert caught.value.findings[0].where == "ActorCritic.actor_obs_normalizer"
    rw.export_policy_as_onnx(policy, tmp_path, nn.Identity())
    assert (tmp_path / "policy.onnx").is_file()


def test_an_object_without_actor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Linear has no module \.actor"):
        rw.export_policy_as_onnx(nn.Linear(2, 2), tmp_path)


def test_a_size_that_cannot_be_read_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="size of the observation cannot be read from Tanh"):
        rw.export_policy_as_onnx(ActorCritic(nn.Tanh()), tmp_path)
    path = rw.export_policy_as_onnx(
        ActorCritic(nn.Tanh()), tmp_path, example={"obs": torch.zeros(1, 5)}
    )
    assert rw.load(path).act(np.zeros(5, np.float32)).shape == (5,)


def test_a_failed_export_keeps_the_older_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    class Sampling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(4, 2)

        def forward(self, obs: Tensor) -> Tensor:
            mean: Tensor = self.net(obs)
            return mean + torch.randn_like(mean)

    (tmp_path / "policy.onnx").write_bytes(b"older")
    with pytest.raises(ExportError, match="the outputs are random"):
        rw.export_policy_as_onnx(ActorCritic(Sampling()), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["policy.onnx"]
    assert (tmp_path / "policy.onnx").read_bytes() == b"older"
