"""Convolutions: what agent.yaml says of them, what is asked, and which axis the colours are."""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import roadworthy as rw
from roadworthy.frameworks.skrl.expressions import head_of, input_of
from roadworthy.spec.transforms import ScaleOffset, Tanh
from tests.checkpoints.comparing import TOLERANCE, apart
from tests.checkpoints.recording import record, recording
from tests.checkpoints.stepping import Stepped
from tests.checkpoints.test_answers import beside

FILES = Path(__file__).parent / "files"
SKRL = """
models:
  policy:
    class: GaussianMixin
    network:
      - name: net
        input: permute(STATES, (0, 3, 1, 2)) / 255.0
        layers:
          - conv2d: [6, 4, 2]
          - conv2d: {out_channels: 8, kernel_size: 3, strides: 1, padding: 1}
          - flatten
          - 12
        activations: [relu, relu, "", relu]
    output: ACTIONS
"""
RL_GAMES = """
params:
  network:
    mlp: {activation: relu}
    cnn:
      type: conv2d
      activation: elu
      convs:
      - {filters: 6, kernel_size: 4, strides: 2, padding: 0}
      - {filters: 8, kernel_size: 3, strides: 1, padding: 1}
"""


def asked(path: Path, **keywords: Any) -> list[str]:
    with pytest.raises(rw.UsageError) as caught:
        rw.to_source(path, **keywords)
    return [finding.what.partition(":")[0] for finding in caught.value.findings]


def test_agent_yaml_of_skrl_answers_all_but_the_shape(tmp_path: Path) -> None:
    found = beside("skrl-1.4.3/ppo-cnn-bytes", tmp_path, SKRL)
    assert asked(found.checkpoint) == ["image"]
    assert apart(replace(found, assume={"image": "18,14,3"})) <= TOLERANCE


def test_without_settings_everything_about_convolutions_is_asked_at_once() -> None:
    assert asked(FILES / "skrl-1.4.3/ppo-cnn-bytes/checkpoints/agent_7.pt") == [
        "activation", "image", "divisor", "strides", "padding", "output",
    ]  # fmt: skip
    config = recording(FILES / "sample_factory-2.1.1" / "conv-gru-separate")
    assert asked(config.checkpoint) == ["image"]


@pytest.mark.framework
@pytest.mark.filterwarnings("ignore")
def test_agent_yaml_of_rl_games_answers_all_but_the_kind_of_pixels(tmp_path: Path) -> None:
    from tests.checkpoints.writers import rl_games

    torch.manual_seed(0)
    cases = rl_games.cases(importlib.metadata.version("rl-games"))
    recorded = record(next(each for each in cases if each.name == "cnn"), tmp_path)
    (tmp_path / "params").mkdir()
    (tmp_path / "params" / "agent.yaml").write_text(RL_GAMES)
    assert asked(recorded.checkpoint) == ["divisor"]
    assert apart(replace(recorded, assume={"divisor": "255"})) <= TOLERANCE
    softmax = RL_GAMES.replace("conv2d", "conv2d_spatial_softargmax")
    (tmp_path / "params" / "agent.yaml").write_text(softmax)
    with pytest.raises(rw.UsageError, match="type=conv2d_spatial_softargmax; conv2d and conv2d_"):
        rw.to_source(recorded.checkpoint, assume={"divisor": "255"})


def picture(folder: Path) -> tuple[nn.Module, Path]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 5 * 4, 2))
    torch.save(net.state_dict(), folder / "net.pt")
    return net, folder / "net.pt"


SEEN = {"activation": "relu", "normalizer": "none", "output": "plain", "divisor": "1",
        "strides": "2", "padding": "0"}  # fmt: skip


@pytest.mark.parametrize("last", [False, True])
def test_colours_are_moved_to_the_front_where_they_come_last(last: bool, tmp_path: Path) -> None:
    net, path = picture(tmp_path)
    image = "12,10,3" if last else "3,12,10"
    obs = torch.randn(1000, 3, 12, 10)
    given = obs.permute(0, 2, 3, 1) if last else obs
    actor = Stepped(rw.to_source(path, assume={**SEEN, "image": image}), 1000)
    np.testing.assert_allclose(actor.step({"obs": given})["action"], net(obs).detach(), atol=1e-5)


def test_a_shape_without_the_channels_is_answered_with_their_number(tmp_path: Path) -> None:
    _, path = picture(tmp_path)
    with pytest.raises(rw.UsageError, match="the first convolution takes 3 channels"):
        rw.to_source(path, assume={**SEEN, "image": "4,12,10"})
    assert asked(path, assume={**SEEN, "image": "3,12,3"}) == ["channels"]
    with pytest.raises(rw.UsageError, match="the weights do not fit together"):
        rw.to_source(path, assume={**SEEN, "image": "3,30,30"})


def test_expressions_of_skrl_are_read_and_never_evaluated() -> None:
    assert head_of("ACTIONS").steps == ()
    assert head_of("2 * tanh(ACTIONS)").steps == (Tanh(), ScaleOffset(scale=2.0, offset=0.0))
    seen = input_of("(permute(OBSERVATIONS, (0, 3, 1, 2)) - 128) / 64.0")
    assert (seen.channels, seen.divisor, seen.shift) == ("last", 64.0, 128.0)
    refused = (
        "__import__('os').system('true')", "ACTIONS @ ACTIONS", "elu(2 * ACTIONS)", "f(ACTIONS)",
        "ACTIONS / 0", "ACTIONS.exp()", "(" * 400, "open", "lambda: 1",
    )  # fmt: skip
    for text in refused:
        with pytest.raises(ValueError, match=r".*"):
            head_of(text)


def test_an_expression_that_cannot_be_read_is_answered_with_the_words() -> None:
    recorded = recording(FILES / "skrl-1.4.3" / "ppo-expression")
    with pytest.raises(rw.UsageError, match="output is 'exec\\(ACTIONS\\)'"):
        rw.to_source(recorded.checkpoint, assume={**recorded.assume, "output": "exec(ACTIONS)"})
