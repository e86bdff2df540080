"""State_dicts without a word about themselves: bare ones, and those of CleanRL's scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw
from tests.checkpoints.stepping import Stepped

ELU = {"activation": "elu", "normalizer": "none"}


def written(state: object, folder: Path) -> Path:
    path = folder / "weights.pt"
    torch.save(state, path)
    return path


def rebuilt(state: object, folder: Path, rows: int = 50, **keywords: Any) -> Stepped:
    return Stepped(rw.to_source(written(state, folder), **keywords), rows)


def test_all_questions_are_asked_at_once(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 16), nn.ELU(), nn.Linear(16, 2))
    with pytest.raises(rw.UsageError) as caught:
        rw.export(written(net.state_dict(), tmp_path), tmp_path / "out")
    codes = [finding.code for finding in caught.value.findings]
    assert codes == ["RW180"] * 3
    text = str(caught.value)
    for name in ("activation=tanh|relu|elu", "normalizer=none", "output=argmax|"):
        assert f"--assume {name}" in text
    assert not (tmp_path / "out").exists()


def test_an_environment_answers_what_it_can(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 16), nn.ELU(), nn.Linear(16, 2))
    source: Any = rw.to_source(
        written(net.state_dict(), tmp_path), assume=ELU, env="CartPole-v1", outputs=["logits"]
    )
    assert source.origin["facts"][-1] == {
        "name": "output", "value": "argmax", "source": "the environment",
    }  # fmt: skip
    obs = torch.randn(50, 4)
    outputs = Stepped(source, 50).step({"obs": obs})
    np.testing.assert_array_equal(outputs["action"], net(obs).argmax(1))
    np.testing.assert_allclose(outputs["logits"], net(obs).detach(), atol=1e-6)


@pytest.mark.parametrize(
    ("assume", "message"),
    [
        ({"activation": "elo"}, "did you mean 'elu'?"),
        ({"activaton": "elu"}, "did you mean 'activation'?"),
        ({"output": "clip_to_bounds", "action_low": "a"}, "expected -1.0,-1.0"),
    ],
)
def test_a_wrong_answer_is_met_with_the_right_ones(
    tmp_path: Path, assume: dict[str, str], message: str
) -> None:
    net = nn.Sequential(nn.Linear(4, 16), nn.ELU(), nn.Linear(16, 2))
    with pytest.raises(rw.UsageError) as caught:
        rw.to_source(written(net.state_dict(), tmp_path), assume=assume)
    assert message in str(caught.value)
    assert caught.value.findings[0].code == "RW184"


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.norm = nn.Linear(4, 8), nn.LayerNorm(8)
        self.rnn, self.mu, self.critic = nn.GRU(8, 5, 2), nn.Linear(5, 2), nn.Linear(5, 1)
        self.log_std = nn.Parameter(torch.zeros(2))

    def forward(self, obs: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        features = nn.functional.elu(self.norm(self.fc(obs)))
        out, h = self.rnn(features[None], h)
        return self.mu(out[0]).tanh() * 2 + 1, h


def test_named_layers_and_a_gru_are_chained(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net, h = Named(), torch.zeros(2, 3, 5)
    said = {"output": "tanh_to_bounds", "action_low": "-1", "action_high": "3"}
    actor = rebuilt(net.state_dict(), tmp_path, 3, assume={**ELU, **said})
    for _ in range(30):
        obs = torch.randn(3, 4)
        expected, h = net(obs, h)
        np.testing.assert_allclose(actor.step({"obs": obs})["action"], expected.detach(), atol=1e-5)


def test_weights_that_do_not_follow_each_other_are_unexplained(tmp_path: Path) -> None:
    state = {"a.weight": torch.zeros(8, 4), "b.weight": torch.zeros(2, 5), "odd": torch.zeros(3, 3)}
    with pytest.raises(rw.UsageError) as caught:
        rw.to_source(written(state, tmp_path), assume={**ELU, "output": "plain"})
    assert "nothing explains odd, b (takes 5, a gives 8)" in str(caught.value)


def test_a_file_of_nobody_lists_what_it_holds(tmp_path: Path) -> None:
    with pytest.raises(rw.UsageError) as caught:
        rw.to_source(written({"epoch": 3, "best": 0.5}, tmp_path))
    assert "no framework writes such a file: it holds the keys epoch, best" in str(caught.value)


def test_a_stack_of_frames_is_memory(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(12, 8), nn.ELU(), nn.Linear(8, 2))
    actor = rebuilt(net.state_dict(), tmp_path, 2, assume={**ELU, "output": "plain"}, frame_stack=3)
    history: list[Tensor] = []
    for step in range(8):
        obs = torch.randn(2, 4)
        history = [obs] * 3 if step in (0, 5) else [*history[1:], obs]
        if step == 5:
            actor.reset(np.ones(2, bool))
        expected = net(torch.cat(history, dim=1)).detach()
        np.testing.assert_allclose(actor.step({"obs": obs})["action"], expected, atol=1e-6)


def atari(head: str) -> nn.Module:
    made = nn.Module()
    made.network = nn.Sequential(
        nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
        nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 16), nn.ReLU(),
    )  # fmt: skip
    setattr(made, head, nn.Linear(16, 6))
    made.critic = nn.Linear(16, 1)
    return made


def test_cleanrl_ppo_on_atari_needs_no_question_about_images(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net: Any = atari("actor")
    actor = rebuilt(net.state_dict(), tmp_path, 4, assume={"activation": "relu"})
    assert actor.source.origin["framework"] == "CleanRL"
    obs = torch.randint(0, 256, (4, 4, 84, 84), dtype=torch.uint8)
    expected = net.actor(net.network(obs / 255.0)).argmax(1)
    np.testing.assert_array_equal(actor.step({"obs": obs})["action"], expected)


def test_cleanrl_c51_acts_on_the_expected_value(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = nn.Module()
    net.network = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3 * 11))
    net.register_buffer("atoms", torch.linspace(-5, 10, 11))
    state = {"model_weights": net.state_dict(), "args": {"n_atoms": 11}}
    actor = rebuilt(state, tmp_path, assume={"activation": "relu", "normalizer": "none"})
    obs = torch.randn(50, 4) * 3
    shares = net.network(obs).view(50, 3, 11).softmax(dim=2)
    expected = (shares * net.atoms).sum(2).argmax(1)
    np.testing.assert_array_equal(actor.step({"obs": obs})["action"], expected)


@pytest.mark.parametrize("last", ["fc_mu", "fc_mean"])
def test_cleanrl_td3_and_sac_scale_by_their_buffers(tmp_path: Path, last: str) -> None:
    torch.manual_seed(0)
    net: Any = nn.Module()
    net.fc1, net.fc2, out = nn.Linear(4, 16), nn.Linear(16, 8), nn.Linear(8, 2)
    setattr(net, last, out)
    if last == "fc_mean":
        net.fc_logstd = nn.Linear(8, 2)
    net.register_buffer("action_scale", torch.tensor([[2.0, 0.5]]))
    net.register_buffer("action_bias", torch.tensor([[0.0, 1.0]]))
    state = net.state_dict() if last == "fc_mean" else (net.state_dict(), {}, {})
    actor = rebuilt(state, tmp_path, assume={"activation": "relu", "normalizer": "none"})
    obs = torch.randn(50, 4)
    hidden = net.fc2(net.fc1(obs).relu()).relu()
    expected = out(hidden).tanh() * net.action_scale + net.action_bias
    np.testing.assert_allclose(actor.step({"obs": obs})["action"], expected.detach(), atol=1e-6)


def test_cleanrl_continuous_ppo_asks_what_becomes_of_its_mean(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net: Any = nn.Module()
    net.actor_mean = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    net.critic = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    net.actor_logstd = nn.Parameter(torch.zeros(1, 1))
    said = {"activation": "tanh", "normalizer": "none"}
    with pytest.raises(rw.UsageError, match="--assume output="):
        rw.to_source(written(net.state_dict(), tmp_path), assume=said)
    said["output"] = "clip_to_bounds"
    actor = rebuilt(net.state_dict(), tmp_path, assume=said, env="Pendulum-v1")
    obs = torch.randn(50, 3) * 9
    expected = net.actor_mean(obs).clamp(-2, 2).detach()
    np.testing.assert_allclose(actor.step({"obs": obs})["action"], expected, atol=1e-6)


def test_safetensors_are_read_too(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    net = nn.Sequential(nn.Linear(4, 8), nn.ELU(), nn.Linear(8, 2))
    save_file(net.state_dict(), tmp_path / "policy.safetensors")
    source = rw.to_source(tmp_path / "policy.safetensors", assume={**ELU, "output": "plain"})
    obs = torch.randn(5, 4)
    got = Stepped(source, 5).step({"obs": obs})["action"]
    np.testing.assert_allclose(got, net(obs).detach(), atol=1e-6)


class Swapped(nn.Module):
    """Two layers of one shape, in another order in the file than in forward."""

    def __init__(self) -> None:
        super().__init__()
        self.late, self.early, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, obs: Tensor) -> Tensor:
        hidden = nn.functional.elu(self.late(nn.functional.elu(self.early(obs))))
        return self.head(hidden)  # type: ignore[no-any-return]


def test_layers_that_could_change_places_are_asked_about(tmp_path: Path) -> None:
    net = Swapped()
    assume = ELU | {"output": "plain"}
    with pytest.raises(rw.UsageError, match="late and early have one shape") as caught:
        rw.to_source(written(net.state_dict(), tmp_path), assume=assume)
    assert "--assume order=" in str(caught.value)
    obs = torch.randn(50, 4)
    got = rebuilt(net.state_dict(), tmp_path, assume=assume | {"order": "early,late,head"}).step(
        {"obs": obs}
    )
    np.testing.assert_allclose(got["action"], net(obs).detach(), atol=1e-6)
    other = rebuilt(net.state_dict(), tmp_path, assume=assume | {"order": "file"})
    assert np.abs(other.step({"obs": obs})["action"] - net(obs).detach().numpy()).max() > 1e-3
    with pytest.raises(rw.UsageError, match="order is 'early,head'"):
        rw.to_source(written(net.state_dict(), tmp_path), assume=assume | {"order": "early,head"})


def test_numbers_in_names_are_an_order(tmp_path: Path) -> None:
    state = {
        f"fc{number}.{name}": value
        for number in (1, 2, 3)
        for name, value in nn.Linear(4, 4).state_dict().items()
    }
    rw.to_source(written(state, tmp_path), assume=ELU | {"output": "plain"})
