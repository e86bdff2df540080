"""Whole environments and TorchRL policies that live on a GPU: exported there, and left there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import roadworthy as rw
from tests.environment.environments import ENVIRONMENTS


def tensors(held: Any) -> dict[str, torch.Tensor]:
    """The tensors among the attributes of an environment, and those of its modules."""
    found = {name: each for name, each in vars(held).items() if isinstance(each, torch.Tensor)}
    if isinstance(held, nn.Module):
        found |= held.state_dict()
    return found


# Where tensors are made at every step, on whatever device is the default.
MAKING = (
    "rebinding", "replaced", "pd", "pd_four_ticks", "four_robots", "noisy", "module", "lstm", "gru",
)  # fmt: skip


@pytest.fixture
def default_device(name: str) -> Iterator[None]:
    """That of a script that begins with `torch.set_default_device("cuda")`."""
    torch.set_default_device("cuda" if name in MAKING else None)
    yield
    torch.set_default_device(None)


@pytest.mark.usefixtures("default_device")
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_environment_on_the_gpu_is_certified_and_left_there(name: str, tmp_path: Path) -> None:
    with torch.device("cuda"):
        env, actor = ENVIRONMENTS[name]()
    before = {path: (str(t.device), t.clone()) for path, t in tensors(env).items()}
    assert any(device.startswith("cuda") for device, _ in before.values())
    rw.export_environment(env, actor, tmp_path / "b")
    after = tensors(env)
    assert list(before) == list(after)
    for path, (device, value) in before.items():
        assert str(after[path].device) == device, path
        assert torch.equal(after[path], value), path
    assert rw.load(tmp_path / "b").signature.inputs


def test_a_torchrl_policy_on_the_gpu_gives_the_bytes_of_its_copy(tmp_path: Path) -> None:
    tensordict = pytest.importorskip("tensordict.nn")
    modules = pytest.importorskip("torchrl.modules")

    def policy() -> Any:
        torch.manual_seed(3)
        net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4))
        net = nn.Sequential(net, modules.NormalParamExtractor())
        module = tensordict.TensorDictModule(net, ["observation"], ["loc", "scale"])
        return modules.ProbabilisticActor(
            module, in_keys=["loc", "scale"], distribution_class=modules.TanhNormal
        )

    for device in ("cpu", "cuda"):
        rw.export(
            policy().to(device), tmp_path / device, exploration="deterministic",
            example={"observation": torch.zeros(1, 6, device=device)},
        )  # fmt: skip
    for file in ("policy.onnx", "trace.npz", "manifest.json"):
        one, other = ((tmp_path / side / file).read_bytes() for side in ("cpu", "cuda"))
        assert one == other, file
