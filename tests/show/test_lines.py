"""Every node of the drawing leads to the line that computes it, and to nothing else."""

from __future__ import annotations

import inspect
from pathlib import Path

import torch

import roadworthy as rw
from roadworthy.show.graph import source_lines
from roadworthy.spec.bundle import POLICY
from roadworthy.spec.onnx_file import outline


class Walker(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        doubled = obs * 2.0
        return self.layer(doubled).sigmoid()  # secret


def test_nodes_know_the_line_of_their_author(tmp_path: Path) -> None:
    bundle = rw.export(Walker(), tmp_path / "walker", example={"obs": torch.zeros(1, 4)})
    lines = source_lines(bundle.files[POLICY])
    multiplied = next(n for n in outline(bundle.files[POLICY]).nodes if n.operator == "Mul")
    source, first = inspect.getsourcelines(Walker.forward)
    line = first + next(i for i, text in enumerate(source) if "obs * 2.0" in text)
    assert lines[multiplied.outputs[0]] == f"{Path(__file__).name}:{line}"
    # The file says which line, and neither what stands there nor where the file lies.
    assert b"obs * 2.0" not in bundle.files[POLICY]
    assert not any("/" in each or "secret" in each for each in lines.values())
    text = rw.report(bundle, tmp_path / "report.html").read_text()
    assert f"<code>{Path(__file__).name}:{line}</code>" in text
