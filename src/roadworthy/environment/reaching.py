"""What of a captured graph reaches what it gives: whatever does not, cannot matter."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.export.graph_signature import InputKind, OutputKind

from roadworthy.errors.quiet import quiet
from roadworthy.operators.captured import reached, row_of


@dataclass(frozen=True, slots=True)
class Reach:
    """The inputs and the constants that an output depends on, by the graph and not by trial.

    inputs     whether each input does, in the order of the arguments
    constants  address of a constant's memory → whether it does
    """

    inputs: tuple[bool, ...]
    constants: dict[int, bool]

    def of(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor that was read may matter; what the graph does not hold, may."""
        return self.constants.get(_address(tensor), True)


def reach(program: torch.export.ExportedProgram) -> Reach:
    """The reach of one half of the step. Writes are made explicit first: what is overwritten before
    it is read does not reach anything."""
    with quiet():
        functional = program.run_decompositions({})
    signature = functional.graph_signature
    (output,) = functional.graph.find_nodes(op="output")
    given = [
        node
        for node, spec in zip(output.args[0], signature.output_specs, strict=True)
        if spec.kind is OutputKind.USER_OUTPUT and isinstance(node, torch.fx.Node)
    ]
    needed = reached(given, _read)
    inputs, constants = [], {_address(each): False for each in _held(program).values()}
    held = _held(functional)
    for node, spec in zip(
        functional.graph.find_nodes(op="placeholder"), signature.input_specs, strict=True
    ):
        if spec.kind is InputKind.USER_INPUT:
            inputs.append(node in needed)
        elif spec.target in held:
            address = _address(held[spec.target])
            constants[address] = constants.get(address, False) or node in needed
    return Reach(tuple(inputs), constants)


def _read(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The nodes whose values another one reads."""
    shape_only = node.args[0] if row_of(node.target).overwrites else None
    return [
        each for each in node.all_input_nodes if each is not shape_only or each in node.args[1:]
    ]


def _held(program: torch.export.ExportedProgram) -> dict[str, torch.Tensor]:
    return {
        name: value
        for name, value in (*program.state_dict.items(), *program.constants.items())
        if isinstance(value, torch.Tensor)
    }


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
