"""What torch.onnx, onnx.checker and onnxruntime refuse, as findings that name the user's line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir
import torch

from roadworthy.errors import ExportError, Finding
from roadworthy.errors.lines import quoted_line, user_line
from roadworthy.operators.captured import line_of
from roadworthy.operators.table import known

_MISSING = re.compile(r"No ONNX function found for <OpOverload\(op='([\w.]+)', overload='(\w+)'\)>")
_NO_KERNEL = re.compile(
    r"implementation for (?P<op>\w+)\(\d+\) node with name '(?P<name>[^']*)'"
    r"|operator \((?P<typed>\w+)\) in node \((?P<node>[^)]*)\) is invalid"
    r"|op_type:(?P<kind>\w+), node name: (?P<label>[^)]*)\).*unsupported type"
)
_OTHER_OPSET = re.compile(
    r"inlining function '\w+::(\w+)'.* in the model but version (\d+) in the function"
)
_TORCHS_OWN = {"aten", "prim", "prims"}
_STACK = "pkg.torch.onnx.stack_trace"
_SCOPES, _CLASSES = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"
# Where the caller's module sits in what is captured.
_INSIDE = "composed.module."
_COMMON = {"float32", "int64", "int32", "bool"}
_DRAWS = {
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli",
    "Multinomial",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node of the ONNX graph comes from."""

    name: str
    operator: str
    dtype: str
    line: str


def places(model: ir.Model) -> list[Place]:
    """Where each node comes from; to be asked before the exporter's notes are stripped."""
    found = []
    for node in model.graph.all_nodes():
        notes = node.metadata_props
        scopes, classes = (ast.literal_eval(notes.get(key, "[]")) for key in (_SCOPES, _CLASSES))
        line = quoted_line(notes.get(_STACK, "")) or _layer(scopes[-2:-1], classes[-2:-1])
        found.append(Place(node.name or "", node.op_type, _dtype(node), line))
    return found


def refuse_draws(known: list[Place]) -> None:
    """An error for every random number that the written graph would draw: noise is an input."""
    drawing = dict.fromkeys((each.operator, each.line) for each in known if each.operator in _DRAWS)
    if drawing:
        raise ExportError(
            findings=[
                Finding(
                    code="RW111",
                    where=line,
                    what=f"random numbers are drawn inside the policy ({operator}); each runtime "
                    "would draw its own",
                    hint="return the mean or the mode of the distribution instead of a sample",
                )
                for operator, line in drawing
            ]
        )


def conversion_failure(error: BaseException) -> ExportError:
    """The finding for what torch.onnx raised."""
    node = _failing_node(error)
    where = _line(node)
    missing = _MISSING.search(str(error))
    if own := _translation_failure(_deepest(error)):
        return own
    if missing is None:
        return ExportError(
            f"torch.onnx cannot write the graph: {_first_line(_deepest(error))}",
            code="RW105",
            where=where,
            hint="write the line with simpler operators, or try another opset: "
            "options=rw.ExportOptions(opset=…)",
        )
    operator, overload = missing[1], missing[2]
    if operator.partition(".")[0] not in _TORCHS_OWN:
        return ExportError(findings=list(_untranslated(node, f"{operator}.{overload}")))
    name = operator.partition(".")[2]
    if _is_complex(node):
        return ExportError(
            f"ONNX has no complex numbers, and torch's {name} is given some",
            code="RW105",
            where=where,
            hint="compute with the real and the imaginary part: torch.view_as_real(x)",
        )
    plain = name.lstrip("_").removesuffix("_ex")
    advice = known(plain).instead or "write the line with other operators"
    return ExportError(
        f"ONNX has no operator for torch's {name}",
        code="RW105",
        where=where,
        hint=f"{advice}; or rw.export(…, translations={{torch.ops.{operator}.{overload}: …}})",
    )


def _is_complex(node: torch.fx.Node | None) -> bool:
    given = [each.meta.get("val") for each in node.all_input_nodes] if node is not None else []
    return any(isinstance(each, torch.Tensor) and each.is_complex() for each in given)


def _translation_failure(error: BaseException) -> ExportError | None:
    """The finding for a user's own translation that does not work."""
    if match := _OTHER_OPSET.search(str(error)):
        return ExportError(
            f"the translation {match[1]} is written in opset {match[2]}",
            code="RW193",
            hint="write it with onnxscript.opset18: torch.onnx writes opset 18, "
            "and converts the whole to the opset that was asked for",
        )
    if line := user_line(error):
        return ExportError(
            f"a translation raised {type(error).__name__}: {_first_line(error)}",
            code="RW193",
            where=line,
            hint="it gets the operator's arguments as onnxscript values: use onnxscript.opset18 "
            "on them",
        )
    return None


def runtime_failure(message: str, known: list[Place]) -> ExportError:
    """The finding for a model that onnx.checker or onnxruntime does not take."""
    # A node of a branch is named behind the If that holds it: the last one is the innermost.
    match = next(reversed(list(_NO_KERNEL.finditer(message))), None)
    if match is None:
        place = next((each for each in known if each.name and each.name in message), None)
        return ExportError(
            f"the ONNX file was written and does not load: {message}",
            code="RW106",
            where=place.line if place else "",
            hint="try another opset: options=rw.ExportOptions(opset=…); if that does not help, "
            "write the line with simpler operators",
        )
    operator = match["op"] or match["typed"] or match["kind"]
    name = match["name"] or match["node"] or match["label"]
    place = _place(known, operator, name)
    if place is None:
        dtype, where = "this dtype", ""
    else:
        dtype, where = place.dtype, place.line
    return ExportError(
        f"onnxruntime cannot run {operator} in {dtype}",
        code="RW106",
        where=where,
        hint="work in int64 at that line: x.long()"
        if "int" in dtype
        else "work in float32: module.float() and a float32 example, or x.float() at that line",
    )


# An operator that onnxruntime writes with others, by the one that it may lack.
_WRITTEN_WITH = {"Erf": "Gelu"}


def _place(known: list[Place], operator: str, name: str) -> Place | None:
    """The node; or one of its kind; or, inside a function, the first of an unusual dtype."""
    named = [each for each in known if each.name == name and each.operator == operator]
    alike = [each for each in known if each.operator in (operator, _WRITTEN_WITH.get(operator))]
    unusual = [each for each in known if each.dtype not in _COMMON]
    return next(iter([*named, *alike, *unusual]), None)


def _untranslated(node: torch.fx.Node | None, operator: str) -> Iterator[Finding]:
    """A finding for each custom operator of the graph and each line that uses it."""
    nodes = [] if node is None else [each for each in node.graph.nodes if _is_custom(each)]
    used = dict.fromkeys((str(each.target), _line(each)) for each in nodes)
    for name, where in used or {(operator, ""): None}:
        yield Finding(
            code="RW108",
            what=f"the custom operator {name} has no translation to ONNX",
            where=where,
            hint=f"rw.export(…, decompositions={{torch.ops.{name}: f}}) with f written in torch "
            f"operators, or translations={{torch.ops.{name}: f}} with f written in onnxscript",
        )


def _is_custom(node: torch.fx.Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target.namespace not in _TORCHS_OWN


def _failing_node(error: BaseException) -> torch.fx.Node | None:
    """The node that torch.onnx was at: its messages name it, its frames hold it."""
    found = None
    cause: BaseException | None = error
    while cause is not None:
        frame = cause.__traceback__
        while frame is not None:
            held = frame.tb_frame.f_locals.get("node")
            found = held if isinstance(held, torch.fx.Node) else found
            frame = frame.tb_next
        cause = cause.__cause__
    return found


def _line(node: torch.fx.Node | None) -> str:
    if node is None:
        return ""
    stack = [*(node.meta.get("nn_module_stack") or {}).values()][-1:]
    layer = _layer([path for path, _ in stack], [str(kind) for _, kind in stack])
    return line_of(node) or layer


def _layer(paths: list[str], classes: list[str]) -> str:
    """`layer 1.0 (ELU)`: for what is made of PyTorch's own modules, where no line is anybody's."""
    for path, kind in zip(paths, classes, strict=True):
        if path.startswith(_INSIDE):
            return f"layer {path.removeprefix(_INSIDE)} ({kind.rpartition('.')[2]})"
    return ""


def _deepest(error: BaseException) -> BaseException:
    """The first cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _first_line(error: BaseException) -> str:
    return next((each for each in str(error).splitlines() if each.strip()), type(error).__name__)


def _dtype(node: ir.Node) -> str:
    dtypes = [value.dtype for value in node.inputs if value is not None and value.dtype is not None]
    if not dtypes:
        return "this dtype"
    return {"DOUBLE": "float64", "FLOAT": "float32"}.get(dtypes[0].name, dtypes[0].name.lower())
