"""The caller's module, example and random generators come back exactly as they were."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import roadworthy as rw
from tests.policies import CASES, Case

_TENSORS = ("_parameters", "_buffers", "_modules")


def attributes(module: torch.nn.Module) -> dict[str, Any]:
    """Every attribute of every submodule, as the very object it is bound to."""
    return {
        f"{path}.{key}": value
        for path, each in module.named_modules()
        for key, value in vars(each).items()
        if key not in _TENSORS
    }


def tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    held = {key: v for key, v in attributes(module).items() if isinstance(v, torch.Tensor)}
    return held | dict(module.named_parameters()) | dict(module.named_buffers())


def facts(source: rw.Source) -> dict[str, Any]:
    """All that must not change, in comparable form."""
    module = source.module
    own = tensors(module)
    return {
        "attributes": {key: id(value) for key, value in attributes(module).items()},
        "training": {path: each.training for path, each in module.named_modules()},
        "objects": {key: (id(v), v.data_ptr(), v.requires_grad) for key, v in own.items()},
        "values": {key: v.detach().numpy().tobytes() for key, v in own.items()},
        "gradients": {key: None if v.grad is None else v.grad.tolist() for key, v in own.items()},
        "example": {key: value.tolist() for key, value in source.tensors.items()},
        "process": process(),
    }


def process() -> dict[str, Any]:
    return {
        "torch": torch.get_rng_state().tolist(),
        "numpy": np.random.get_state()[1].tolist(),
        "python": random.getstate(),
        "threads": torch.get_num_threads(),
        "attention": torch.backends.mha.get_fastpath_enabled(),
        "gradients": torch.is_grad_enabled(),
    }


def give_gradients(module: torch.nn.Module) -> None:
    for index, parameter in enumerate(module.parameters()):
        parameter.grad = torch.full_like(parameter, 0.5)
        parameter.requires_grad_(index % 2 == 0)


def differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [key for key in before if before[key] != after[key]]


@pytest.mark.parametrize("case", CASES.values(), ids=str)
def test_export_and_verify_leave_everything_as_it_was(case: Case, tmp_path: Path) -> None:
    source = case.make()
    give_gradients(source.module)
    before = facts(source)
    rw.export(source, tmp_path / "bundle")
    assert differing(before, facts(source)) == []
    rw.verify(tmp_path / "bundle", against=source).raise_if_failed()
    assert differing(before, facts(source)) == []


def test_module_that_was_used_keeps_its_hidden_state(tmp_path: Path) -> None:
    source = CASES["keeps_hidden"].make()
    source.module(torch.randn(1, 6))
    hidden = source.module.hidden
    before = hidden.tolist()
    again = rw.Source(
        source.module,
        example=source.example,
        memory={"h": rw.Attribute("hidden", initial=0.0)},
    )
    rw.export(again, tmp_path / "bundle")
    assert source.module.hidden is hidden
    assert hidden.tolist() == before


def test_refused_export_leaves_everything_as_it_was(tmp_path: Path) -> None:
    source = rw.Source(CASES["keeps_hidden"].make().module, example={"obs": torch.randn(1, 6)})
    before = facts(source)
    with pytest.raises(rw.RoadworthyError, match="hidden"):
        rw.export(source, tmp_path / "bundle")
    assert differing(before, facts(source)) == []
    assert list(tmp_path.iterdir()) == []
