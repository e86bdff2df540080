"""What `torch.compile` made is exported as it was written; `torch.cond` is refused, at its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

import roadworthy as rw
from tests.environment.robot import feedforward
from tests.environment.writing import InPlace

# The usual backend of torch.compile still scripts a class of its own when it is first asked for.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
OBS = {"obs": torch.zeros(1, 4)}


@torch.compile(backend="eager")
def squashed(values: Tensor) -> Tensor:
    return torch.tanh(values) * 2


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, obs: Tensor) -> Tensor:
        return self.act(obs)

    def act(self, obs: Tensor) -> Tensor:
        out: Tensor = self.head(torch.tanh(self.body(obs)) * 2)
        return out


class CompiledHelper(Plain):
    def act(self, obs: Tensor) -> Tensor:
        out: Tensor = self.head(squashed(self.body(obs)))
        return out


class CompiledMethod(Plain):
    act = torch.compile(Plain.act, backend="eager")


class CompiledForward(Plain):
    @torch.compile(fullgraph=True, backend="eager")
    def forward(self, obs: Tensor) -> Tensor:
        return self.act(obs)


def compiled_submodule() -> nn.Module:
    module = Plain()
    module.body = torch.compile(module.body)  # type: ignore[assignment]
    return module


def compiled_in_place() -> nn.Module:
    module = Plain()
    module.body.compile()
    return module


def compiled_whole() -> nn.Module:
    module: nn.Module = torch.compile(Plain())  # type: ignore[assignment]
    return module


MADE: dict[str, Callable[[], nn.Module]] = {
    "helper": CompiledHelper,
    "method": CompiledMethod,
    "forward": CompiledForward,
    "submodule": compiled_submodule,
    "in_place": compiled_in_place,
    "whole": compiled_whole,
}


@pytest.mark.parametrize("name", MADE)
def test_what_was_compiled_is_exported_as_it_was_written(name: str, tmp_path: Path) -> None:
    compiled = counters["frames"]["total"]
    rw.export(MADE[name]().eval(), tmp_path / "b", example=OBS)
    assert counters["frames"]["total"] == compiled  # a minute and a half, where it is compiled
    obs = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    action = rw.load(tmp_path / "b").act(obs)
    assert np.allclose(action, Plain()(torch.from_numpy(obs)).detach().numpy(), atol=1e-6)


def test_the_user_s_own_stance_comes_back(tmp_path: Path) -> None:
    calls: list[int] = []

    def counting(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Tensor]:
        calls.append(1)
        forward: Callable[..., Tensor] = graph.forward
        return forward

    helper = torch.compile(lambda x: x + 1, backend=counting)
    rw.export(Plain().eval(), tmp_path / "b", example=OBS)
    helper(torch.zeros(2))
    assert calls == [1]


class CompiledWorld(InPlace):
    def process_actions(self, actions: Tensor) -> None:
        super().process_actions(squashed(actions))


def test_an_environment_with_a_compiled_helper_is_exported(tmp_path: Path) -> None:
    compiled = counters["frames"]["total"]
    env = CompiledWorld()
    rw.export_environment(env, feedforward(env), tmp_path / "b")
    assert counters["frames"]["total"] == compiled


class Branches(Plain):
    def forward(self, obs: Tensor) -> Tensor:
        hidden = self.body(obs)
        return torch.cond(obs.sum() > 0, lambda x: self.head(x), lambda x: -self.head(x), (hidden,))


def test_cond_is_refused_with_its_line_and_works_afterwards(tmp_path: Path) -> None:
    with pytest.raises(rw.ExportError) as caught:
        rw.export(Branches().eval(), tmp_path / "b", example=OBS)
    finding = caught.value.findings[0]
    assert finding.code == "RW103"
    assert "return torch.cond(" in finding.where
    assert "runs one of two functions, for all rows at once" in finding.what
    assert "torch.where(condition, a, b)" in finding.hint
    given = (torch.zeros(2),)
    chosen = torch.cond(torch.tensor(True), lambda x: x + 1, lambda x: x - 1, given)
    assert torch.equal(chosen, torch.ones(2))
