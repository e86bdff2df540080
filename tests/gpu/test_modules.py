"""A module that was trained on a GPU goes in as it is, and comes back as it was, where it was."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import roadworthy as rw
from roadworthy.capture.versions import refuse_broken
from roadworthy.errors import ExportError
from tests.policies import CASES


def on_gpu(value: Any) -> Any:
    if isinstance(value, (torch.Tensor, nn.Module)):
        return value.cuda()
    if isinstance(value, Mapping):
        return {name: on_gpu(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return tuple(on_gpu(each) for each in value)
    return value


def moved(source: rw.Source) -> rw.Source:
    """The source with all that it holds on the GPU, plain tensor attributes included."""
    for module in source.module.modules():
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor):
                setattr(module, name, value.cuda())
    names = ("module", "example", "memory", "normalizer")
    return dataclasses.replace(source, **{name: on_gpu(getattr(source, name)) for name in names})


def state(module: nn.Module) -> dict[str, tuple[str, Any]]:
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: (str(each.device), each.detach().cpu().clone()) for name, each in tensors.items()}


def captured_here(name: str) -> bool:
    """Whether this PyTorch captures the policy at all: 2.11 has a mistake in LSTMs."""
    try:
        refuse_broken(CASES[name].make().module)
    except ExportError:
        return False
    return True


@pytest.mark.parametrize("name", [name for name in CASES if captured_here(name)])
def test_a_module_on_the_gpu_gives_the_bytes_of_its_copy_on_the_cpu(
    name: str, tmp_path: Path
) -> None:
    rw.export(CASES[name].make(), tmp_path / "cpu")
    source = moved(CASES[name].make())
    before = state(source.module)
    rw.export(source, tmp_path / "gpu")
    for file in ("policy.onnx", "trace.npz", "manifest.json"):
        one, other = ((tmp_path / side / file).read_bytes() for side in ("cpu", "gpu"))
        assert one == other, file
    after = state(source.module)
    assert list(before) == list(after)
    for path, (device, value) in before.items():
        assert after[path][0] == device, path
        assert torch.equal(after[path][1], value), path
    assert rw.verify(tmp_path / "gpu", against=source).passed


def test_other_targets_are_written_from_the_gpu_too(tmp_path: Path) -> None:
    bundle = rw.export(moved(CASES["gru"].make()), tmp_path / "b", targets=["torch_export"])
    assert rw.Certificate.from_bytes(bundle.files["certificate.json"]).passed


@pytest.mark.parametrize("name", ["mlp", "gru", "normalized_sb3", "keeps_hidden"])
def test_a_script_whose_default_device_is_the_gpu(name: str, tmp_path: Path) -> None:
    rw.export(CASES[name].make(), tmp_path / "cpu")
    source = moved(CASES[name].make())
    torch.set_default_device("cuda")
    try:
        rw.export(source, tmp_path / "gpu")
    finally:
        torch.set_default_device(None)
    for file in ("policy.onnx", "trace.npz", "manifest.json"):
        one, other = ((tmp_path / side / file).read_bytes() for side in ("cpu", "gpu"))
        assert one == other, file
