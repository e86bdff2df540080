"""A program owns what it was captured with: the module may move on, or back to its GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import roadworthy as rw
from roadworthy.capture.capture import capture
from roadworthy.targets.backend import Settings
from roadworthy.targets.onnx.backend import OnnxBackend
from tests.policies import CASES


def lowered(source: rw.Source, folder: Path, *, spoil: bool) -> bytes:
    folder.mkdir()
    program = capture(source)
    if spoil:
        with torch.no_grad():
            for tensor in (*source.module.parameters(), *source.module.buffers()):
                tensor.data = torch.full_like(tensor, 7)
    (path,) = OnnxBackend.configured(Settings()).lower(program, folder)
    return path.read_bytes()


@pytest.mark.parametrize("name", ["mlp", "normalized_by_module", "keeps_buffer", "gru"])
def test_the_program_does_not_share_weights_with_the_module(name: str, tmp_path: Path) -> None:
    """What a move back to a GPU does to shared weights, seen without a GPU."""
    plain = lowered(CASES[name].make(), tmp_path / "a", spoil=False)
    spoilt = lowered(CASES[name].make(), tmp_path / "b", spoil=True)
    assert plain == spoilt


class HoldsConstant(nn.Module):
    """A tensor that is no buffer becomes a constant of the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = torch.tensor([1.0, 2.0])

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return obs + self.offset


def test_constants_are_owned_too(tmp_path: Path) -> None:
    source = rw.Source(HoldsConstant(), example={"obs": torch.zeros(1, 2)})
    program = capture(source)
    source.module.offset.fill_(9.0)
    held = [each for each in program.graph.constants.values() if isinstance(each, torch.Tensor)]
    assert [each.tolist() for each in held] == [[1.0, 2.0]]
