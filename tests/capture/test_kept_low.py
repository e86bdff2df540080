"""A state in bfloat16 inside a module: the hint leads on, with and without `fix`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw

HINT = "module.float(); module.h = module.h.float()"


class Kept(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(6, 8, dtype=torch.bfloat16)
        self.head = nn.Linear(8, 2, dtype=torch.bfloat16)
        self.h = torch.zeros(1, 8, dtype=torch.bfloat16)

    def forward(self, obs: Tensor) -> Tensor:
        self.h = self.cell(obs.to(self.head.weight.dtype), self.h)
        out: Tensor = self.head(self.h)
        return out


@pytest.mark.parametrize("fix", [False, True])
def test_hint_for_a_kept_state_in_bfloat16_leads_on(tmp_path: Path, fix: bool) -> None:
    example, module = {"obs": torch.zeros(1, 6)}, Kept()
    with pytest.raises(rw.RoadworthyError) as caught:
        rw.export(
            module, tmp_path / "b", example=example, memory={"h": "h"}, fix=fix, progress=False
        )
    assert {finding.code for finding in caught.value.findings} == {"RW022"}
    assert all((finding.hint or "").startswith(HINT) for finding in caught.value.findings)
    if not fix:
        exec(HINT, {"module": module})
        bundle = rw.export(
            module, tmp_path / "b", example=example, memory={"h": "h"}, progress=False
        )
        assert bundle.signature.memory[0].dtype == "float32"


def test_undeclared_state_in_bfloat16_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(rw.BatchSpecialised) as caught:
        rw.export(Kept(), tmp_path / "b", example={"obs": torch.zeros(1, 6)}, progress=False)
    (finding,) = caught.value.findings
    assert "has the rows of the example" in finding.what
    assert "memory={'h': 'h'}" in (finding.hint or "")
