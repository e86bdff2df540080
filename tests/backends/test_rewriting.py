"""The optimiser that asks fewer questions makes what onnxscript's own makes."""

from __future__ import annotations

import onnx_ir as ir
import torch
from onnxscript import rewriter
from torch import Tensor, nn

from roadworthy.errors.quiet import quiet
from roadworthy.targets.onnx import rewriting, torchlib
from roadworthy.targets.onnx.translations import own_translations


class Halves(nn.Module):
    """Two slices, limits that a rule joins into a Clip, and steps that do nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(4, 8, 3, padding=1), nn.BatchNorm1d(8)
        self.net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, obs: Tensor) -> Tensor:
        x = self.norm(self.conv(obs)).mean(-1)
        one, other = x[:, :4], x[:, 4:]
        gate = torch.minimum(torch.maximum(one * 1.0 + 0.0, torch.tensor(-1.0)), torch.tensor(1.0))
        out: Tensor = self.net(torch.cat([gate, other], -1).reshape(-1, 8))
        return out.transpose(0, 1).transpose(0, 1)


def _converted(module: nn.Module, example: Tensor) -> torch.onnx.ONNXProgram:
    batch = torch.export.Dim("batch", min=1)
    graph = torch.export.export(
        module.eval(), (example,), dynamic_shapes=({0: batch},), strict=False
    )
    with quiet():
        return torchlib._with_kept_table(20, own_translations())(
            graph, opset_version=20, verbose=False, optimize=False
        )


def test_same_bytes_as_the_optimizer_of_onnxscript() -> None:
    program = _converted(Halves(), torch.zeros(2, 4, 6))
    model = program.model
    made = []
    for optimize in (rewriting.optimize, type(program).optimize):
        program.model = model.clone()
        optimize(program)
        made.append(ir.to_proto(program.model).SerializeToString(deterministic=True))
    assert made[0] == made[1]
    counted = {node.op_type for node in program.model.graph}
    assert "Clip" in counted
    assert not counted & {"BatchNormalization", "Min", "Max", "Transpose", "Mul", "Add"}


def test_rules_are_asked_about_their_own_operators_only() -> None:
    roots = [rewriting._root(rule) for rule in rewriter._DEFAULT_REWRITE_RULES]
    assert sum(root is not None for root in roots) >= 0.9 * len(roots)
    asked: list[str] = []

    class Rule:
        _target_pattern = rewriter._DEFAULT_REWRITE_RULES[0]._target_pattern

        def try_rewrite(self, model: ir.Model, graph: ir.Graph, node: ir.Node) -> None:
            asked.append(node.op_type)

    program = _converted(Halves(), torch.zeros(2, 4, 6))
    rule = rewriting._Rooted(Rule())
    for node in program.model.graph:
        rule.try_rewrite(program.model, program.model.graph, node)
    assert set(asked) == {roots[0]}
