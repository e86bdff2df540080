"""What people write at first is certified as it is, and computes the same at any batch."""

from __future__ import annotations

import copy
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import roadworthy as rw
from tests.capture.idioms import (
    NATURAL,
    OBS,
    AnsweringDataclass,
    CriticNeverLoaded,
    Grouped,
    LastActions,
    Normalised,
    Scripted,
)

# rl_games scripts its statistics all the same.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")


def made(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return kind().eval()


def exported(kind: type[nn.Module], folder: Path) -> tuple[nn.Module, rw.Bundle]:
    module = made(kind)
    return module, rw.export(module, folder, **({"example": OBS} | NATURAL[kind]))


def answered(module: nn.Module, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """What the module itself gives, as a list."""
    arguments: Any = (inputs,) if isinstance(module, Grouped) else tuple(inputs.values())
    with torch.no_grad():
        result = module(*arguments)
    if isinstance(result, torch.Tensor):
        return [result]
    return list(result) if isinstance(result, tuple) else [result.action, result.value]


@pytest.mark.parametrize("kind", NATURAL, ids=lambda kind: kind.__name__)
def test_natural_policies_are_certified_and_equal_at_any_batch(
    kind: type[nn.Module], tmp_path: Path
) -> None:
    module, bundle = exported(kind, tmp_path / "bundle")
    assert rw.Certificate.from_bytes(bundle.files["certificate.json"]).passed
    policy = rw.load(bundle.folder)
    for rows in (1, 3):
        inputs = {
            name: torch.cat([value] * 2)[:rows]
            for name, value in ({"example": OBS} | NATURAL[kind])["example"].items()
        }
        got = policy.step({name: value.numpy() for name, value in inputs.items()})
        expected = answered(module, inputs)
        for one, other in zip(got.values(), expected, strict=True):
            np.testing.assert_allclose(one, other.numpy(), rtol=1e-4, atol=1e-5)


def test_scripted_submodules_come_back_as_they_were(tmp_path: Path) -> None:
    module, _ = exported(Scripted, tmp_path / "bundle")
    assert isinstance(module.norm, torch.jit.ScriptModule)
    assert isinstance(module.trunk, torch.jit.ScriptModule)
    before = copy.deepcopy(module.state_dict())
    assert list(before) == [
        "norm.mean", "norm.var", "trunk.layers.0.weight", "trunk.layers.0.bias",
        "trunk.layers.1.weight", "head.weight", "head.bias",
    ]  # fmt: skip
    fresh = made(Scripted).state_dict()
    assert all(torch.equal(fresh[name], value) for name, value in before.items())


def test_a_scripted_file_without_its_class_is_refused_with_a_way_on(tmp_path: Path) -> None:
    module = made(Scripted)
    buffer = io.BytesIO()
    torch.jit.save(module.norm, buffer)
    buffer.seek(0)
    module.norm = torch.jit.load(buffer)
    with pytest.raises(rw.UsageError) as caught:
        rw.export(module, tmp_path / "bundle", example=OBS)
    (finding,) = caught.value.findings
    assert finding.where == "Scripted.norm"
    assert "without its Python class" in finding.what
    scripted, module.norm = module.norm, Normalised(6)
    module.norm.load_state_dict(scripted.state_dict())  # as the hint says
    rw.export(module, tmp_path / "bundle", example=OBS)


def test_weights_without_values_stay_so_where_nobody_uses_them(tmp_path: Path) -> None:
    module, _ = exported(CriticNeverLoaded, tmp_path / "bundle")
    assert module.critic.weight.is_meta


def test_weights_without_values_are_named_where_forward_uses_them(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(6, 2, device="meta"))
    with pytest.raises(rw.ExportError) as caught:
        rw.export(module, tmp_path / "bundle", example=OBS)
    (finding,) = caught.value.findings
    assert finding.code == "RW119"
    assert finding.what == "a weight that forward uses is on the meta device: it has no values"
    module = module.to_empty(device="cpu")  # as the hint says
    module.load_state_dict(nn.Sequential(nn.Linear(6, 2)).state_dict())
    rw.export(module, tmp_path / "bundle", example=OBS)


def test_outputs_are_named_by_the_fields_of_a_dataclass(tmp_path: Path) -> None:
    _, bundle = exported(AnsweringDataclass, tmp_path / "bundle")
    assert [port.name for port in bundle.signature.outputs] == ["action", "value"]


def test_an_input_called_actions_keeps_its_name(tmp_path: Path) -> None:
    _, bundle = exported(LastActions, tmp_path / "bundle")
    assert [port.name for port in bundle.signature.inputs] == ["obs", "actions"]
    assert [port.name for port in bundle.signature.outputs] == ["next_actions"]


@pytest.mark.parametrize(
    ("inside", "outside", "port"),
    [
        (torch.bfloat16, torch.bfloat16, "float32"),
        (torch.bfloat16, torch.float32, "float32"),
        (torch.float16, torch.float32, "float32"),
        (torch.bfloat16, torch.float16, "float16"),
    ],
)
def test_low_precision_becomes_that_of_the_ports(
    inside: torch.dtype, outside: torch.dtype, port: str, tmp_path: Path
) -> None:
    """The cast is listed, and the artifact compared with the module as it is."""
    module = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2)).to(inside)
    example, limits = {"obs": OBS["obs"].to(outside)}, {"obs": rw.About(low=-2, high=2)}
    bundle = rw.export(module, tmp_path / "bundle", example=example, about=limits)
    assert [each.dtype for each in bundle.signature.inputs] == [port]
    assert [each.dtype for each in bundle.signature.outputs] == [port]
    (note,) = bundle.manifest["fixes"]
    assert f"cast from {str(inside).removeprefix('torch.')} to {port}" in note["what"]
    assert {p.dtype for p in module.parameters()} == {inside}
    rw.verify(tmp_path / "bundle", against=module).raise_if_failed()
