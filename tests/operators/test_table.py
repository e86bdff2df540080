"""The table of operators names what there is; PyTorch is asked about the rest."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from roadworthy.operators import asking
from roadworthy.operators.captured import lifted, name_of, reached, row_of, varying
from roadworthy.operators.table import OPERATORS, known
from roadworthy.targets.onnx.translations import own_translations


def test_every_row_is_of_an_operator_that_torch_has() -> None:
    names = [row.name for row in OPERATORS]
    assert len(set(names)) == len(names)
    assert [name for name in names if not hasattr(torch.ops.aten, name)] == []


def test_every_overload_of_a_row_is_one_that_torch_has() -> None:
    said = [(row.name, each) for row in OPERATORS for each in (*row.turns, *row.chooses)]
    assert [one for one in said if one[1] not in getattr(torch.ops.aten, one[0]).overloads()] == []


def test_every_file_that_a_row_names_writes_it() -> None:
    written = {name_of(operator) for operator in own_translations()}
    assert written == {row.name for row in OPERATORS if row.onnx}
    doubles = {name_of(operator) for operator in own_translations(doubles=True)}
    assert doubles == {row.name for row in OPERATORS if row.onnx or row.doubles}


def test_what_has_no_row_is_an_operator_of_which_nothing_is_known() -> None:
    assert known("erfinv") == type(OPERATORS[0])("erfinv")


@pytest.mark.parametrize(
    ("ask", "yes", "no"),
    [
        (asking.draws, ["rand", "normal_", "binomial", "_standard_gamma"], ["dropout", "lstm"]),
        (asking.counts_values, ["nonzero", "unique", "masked_select"], ["one_hot", "topk"]),
        (asking.gives_no_values, ["size", "numel", "nelement"], ["item", "sum", "get"]),
        (asking.takes_device, ["to", "new_zeros", "new_tensor"], ["sum", "zeros", "get"]),
    ],
)  # fmt: skip
def test_pytorch_is_asked(ask: object, yes: list[str], no: list[str]) -> None:
    assert callable(ask)
    assert [name for name in yes if not ask(name)] == []
    assert [name for name in [*no, "no_such_operator", "__class__"] if ask(name)] == []


class Adds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return obs.add_(1) * (self.weight.exp() + self.mean)


def test_walks_of_a_captured_graph() -> None:
    program = torch.export.export(Adds(), (torch.zeros(2, 3),), strict=False)
    named = {name_of(node.target): node for node in program.graph.nodes if node.op[:4] == "call"}
    assert set(named) == {"add_", "exp", "add", "mul"}
    assert row_of(named["add_"].target) is row_of(named["add"].target) is known("add")
    assert {name for name, node in named.items() if node in varying(program)} == {"add_", "mul"}
    before = reached([named["add"]], lambda node: node.all_input_nodes)
    assert named["exp"] in before
    assert named["mul"] not in before
    assert [value.tolist() for value in lifted(program).values()] == [[1.0] * 3, [0.0] * 3]


def test_the_table_alone_imports_no_torch() -> None:
    script = "import sys, roadworthy.operators.table; print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ran.stdout == "False\n", ran.stderr
