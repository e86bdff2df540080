"""What the targets that stay with PyTorch share: graphs that fit, and files that tell no tales."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from roadworthy.capture.program import Program
from roadworthy.errors import BatchSpecialised, ExportError, Finding
from roadworthy.errors.quiet import quiet
from roadworthy.runtime.archive import METADATA_KEY, STEP, SUBSTEP
from roadworthy.spec.bundle import SIGNATURE_KEY
from roadworthy.spec.port import Dim, Memory, Port
from roadworthy.spec.signature import Signature

# Where an operator came from: paths of this machine, names that change from run to run.
_NOTES = ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "custom", "from_node")


def fitting(program: Program) -> dict[str, torch.export.ExportedProgram]:
    """Name in the archive → graph, once each was found to fulfil the signature.

    In-place writes become values on the way, as they do in ONNX: only then does a graph say
    which of its constants it would change.
    """
    captured = {STEP: program.graph}
    if program.substep is not None:
        captured[SUBSTEP] = program.substep
    with quiet():
        graphs = {name: graph.run_decompositions({}) for name, graph in captured.items()}
    findings = [each for graph in graphs.values() for each in _misfits(graph, program)]
    if findings:
        raise BatchSpecialised(findings=findings)
    return graphs


def extra_files(program: Program) -> dict[str, str]:
    """What travels in the archive beside the graphs, so that the lone file runs too."""
    files = {SIGNATURE_KEY: json.dumps(program.signature.to_json(), allow_nan=False)}
    return files | ({METADATA_KEY: json.dumps(program.metadata)} if program.metadata else {})


@contextmanager
def without_notes(graphs: Iterable[torch.export.ExportedProgram]) -> Iterator[None]:
    """The graphs without a word on where their operators came from, until the block ends."""
    taken: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for graph in graphs:
        for module in graph.graph_module.modules():
            for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
                notes = {key: node.meta.pop(key) for key in _NOTES if key in node.meta}
                taken.append((node.meta, notes))
    try:
        yield
    finally:
        for meta, notes in taken:
            meta.update(notes)


def _misfits(graph: torch.export.ExportedProgram, program: Program) -> Iterator[Finding]:
    signature, own = program.signature, graph.graph_signature
    if own.buffers_to_mutate or own.user_inputs_to_mutate:
        changed = [*own.buffers_to_mutate.values(), *own.user_inputs_to_mutate.values()]
        raise ExportError(
            f"forward writes to {', '.join(changed)}, and the next step would not see it",
            hint="declare it as memory: memory={'hidden': 'attribute'} (roadworthy explain RW112)",
        )
    nodes = {node.name: node for node in graph.graph.nodes}
    ins, outs = ends(signature, len(own.user_inputs), len(own.user_outputs))
    for names, ports in ((own.user_inputs, ins), (own.user_outputs, outs)):
        for name, port in zip(names, ports, strict=True):
            yield from _specialised(nodes, str(name), port.name, port.shape)


def _specialised(
    nodes: Mapping[str, torch.fx.Node], name: str, port: str, shape: tuple[Dim, ...]
) -> Iterator[Finding]:
    got = tuple(nodes[name].meta["val"].shape)
    fits = len(got) == len(shape) and all(
        not isinstance(size, int) if isinstance(dim, str) else size == dim
        for dim, size in zip(shape, got, strict=True)
    )
    if not fits:
        yield of_one_size(port, shape, tuple(map(str, got)))


def ends(
    signature: Signature, inputs: int, outputs: int
) -> tuple[list[Port | Memory], list[Port | Memory]]:
    """What goes into a graph and what comes out of it; an error where it has other numbers of
    them."""
    ins: list[Port | Memory] = [*signature.inputs, *signature.memory]
    outs: list[Port | Memory] = [*signature.outputs, *signature.memory]
    if (inputs, outputs) != (len(ins), len(outs)):
        raise ExportError(
            f"the graph has {inputs} inputs and {outputs} outputs, "
            f"the signature {len(ins)} and {len(outs)}",
            hint="this is a mistake of Roadworthy's: please report it with the module",
        )
    return ins, outs


def of_one_size(port: str, expected: tuple[Dim, ...], got: tuple[object, ...]) -> Finding:
    """What is said of a port whose written shape is not the declared one."""
    return Finding(
        code=BatchSpecialised.code,
        where=port,
        what=f"the graph works for one size only: expected {expected}, got {got}",
        hint="read sizes from the input in forward, such as obs.shape[0], in place of constants",
    )
