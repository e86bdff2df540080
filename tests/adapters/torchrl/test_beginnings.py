"""Examples of any batch, and modules that ask where an episode begins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import Tensor, nn
from torchrl.modules import GRUModule, LSTMModule

import roadworthy as rw


class Starts(nn.Module):
    """Acts otherwise at the first step of an episode."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 2)

    def forward(self, observation: Tensor, is_init: Tensor) -> Tensor:
        action: Tensor = self.net(observation)
        return torch.where(is_init, action * 0, action)


@pytest.mark.parametrize("kind", [LSTMModule, GRUModule])
def test_an_example_may_have_any_number_of_rows(kind: type[nn.Module], tmp_path: Path) -> None:
    core = kind(input_size=4, hidden_size=8, in_key="observation", out_key="features")
    head = TensorDictModule(nn.Linear(8, 2), in_keys=["features"], out_keys=["action"])
    policy = TensorDictSequential(core, head)
    example = TensorDict({"observation": torch.zeros(5, 4)}, [5])
    bundle = rw.export(policy, tmp_path / "b", example=example, exploration="deterministic")
    assert bundle.signature.inputs[0].shape == ("batch", 4)


def test_a_module_that_reads_is_init_is_told(tmp_path: Path) -> None:
    module = Starts()
    policy = TensorDictModule(module, in_keys=["observation", "is_init"], out_keys=["action"])
    example = TensorDict({"observation": torch.zeros(2, 4)}, [2])
    rw.export(policy, tmp_path / "b", example=example, exploration="deterministic")
    loaded = rw.load(tmp_path / "b")
    obs = np.ones((3, 4), np.float32)
    first = loaded.step({"observation": obs})["action"]
    later = loaded.step({"observation": obs})["action"]
    loaded.reset(np.array([False, True, False]))
    mixed = loaded.step({"observation": obs})["action"]
    assert not first.any()
    assert np.allclose(later, module.net(torch.from_numpy(obs)).detach().numpy(), atol=1e-5)
    assert [bool(row.any()) for row in mixed] == [True, False, True]
