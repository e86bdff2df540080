"""State that is handed around as plain values: an optional argument that comes back, two in the
wrong order."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from roadworthy.capture.memory import Slot
from roadworthy.capture.source import Source
from roadworthy.errors import ExportError, Finding, UsageError
from roadworthy.errors.lines import return_line

# `get_action(obs, action=None)` is given one to be told its probability, not to remember it.
_ANSWERS = ("action", "actions")
_NEXT = re.compile(r"^(?:new|next|out)_|_(?:new|next|out|n|t|1)$|[0-9']+$")


def unfed_arguments(source: Source) -> list[str]:
    """The optional arguments of `forward` that neither the example nor the memory gives."""
    given = {*source.example, *source.memory}
    return [
        each.name
        for each in source.arguments.values()
        if each.name not in given and each.default is None and each.kind is not each.VAR_KEYWORD
    ]


def refuse_returned_twin(source: Source, result: Any) -> None:
    """A question where an optional argument is not fed, and something else than outputs returns.

    `forward(obs, hidden=None) → (action, hidden)` keeps its state through its caller.
    """
    known = (*source.ignore, *_ANSWERS)
    unfed = [name for name in unfed_arguments(source) if name not in known]
    parts = list(result) if isinstance(result, (tuple, list)) else []
    if isinstance(result, Mapping):
        twins = [name for name in unfed if name in result]
        parts = [None, *(result[name] for name in twins)]
        unfed = twins
    beyond = parts[-len(unfed) :] if unfed and len(parts) > len(unfed) else []
    zeros = [_zeros(each) for each in beyond]
    if not beyond or not all(zeros) or not _is_likely(source, unfed):
        return
    declared = ", ".join(f"{n!r}: {z}" for n, z in zip(unfed, zeros, strict=True))
    raise UsageError(
        f"{source.called} takes {' and '.join(unfed)}, which is not fed, and returns "
        f"{'them' if len(unfed) > 1 else 'it'} too: is this what persists between steps?",
        code="RW107",
        where=return_line(source.code) or type(source.module).__name__,
        hint=f"memory={{{declared}}}; if it does not matter: ignore={unfed!r}",
    )


def _is_likely(source: Source, unfed: Sequence[str]) -> bool:
    """Whether the module has cells with a state, or returns what is called like the argument."""
    if any(_is_recurrent(each) for each in source.module.modules()):
        return True
    names = [_plain(each) for each in returned_names(source.code)]
    return any(_plain(each) in names for each in unfed)


def _is_recurrent(module: torch.nn.Module) -> bool:
    return isinstance(module, (torch.nn.RNNBase, torch.nn.RNNCellBase))


def _zeros(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        dtype = "" if value.dtype is torch.float32 else f", dtype={value.dtype}"
        return f"torch.zeros{tuple(value.shape)}".replace(",)", ")").replace(")", f"{dtype})")
    if isinstance(value, (tuple, list)) and value:
        inside = [_zeros(each) for each in value]
        return f"({', '.join(inside)})" if all(inside) else ""
    return ""


def refuse_plain_state(
    source: Source, inputs: Mapping[str, torch.Tensor], outputs: Mapping[str, torch.Tensor]
) -> None:
    """A question where a recurrent module returns a tensor shaped like another input."""
    if source.memory or not any(_is_recurrent(each) for each in source.module.modules()):
        return
    (_, *others), (_, *fed) = outputs.items(), inputs.items()
    findings = []
    for (name, tensor), (port, value) in itertools.product(others, fed):
        alike = value.shape == tensor.shape and value.dtype == tensor.dtype and value.ndim > 1
        if alike and port not in source.ignore:
            findings.append(
                Finding(
                    code="RW107",
                    where=f"{type(source.module).__name__}: {port} → {name}",
                    what=f"a recurrent module takes {port!r} and returns {name!r} of the same "
                    "shape: is this what persists between steps?",
                    hint=f"{_declared(source, port, value)}; if it does not matter: "
                    f"ignore=[{port!r}]",
                )
            )
    if findings:
        raise ExportError(findings=findings[:1])


def _declared(source: Source, port: str, value: torch.Tensor) -> str:
    """How an input is declared as memory: an argument by its name, a part of one taken apart."""
    zeros = _zeros(value[:1])
    if "." in port:
        nest = port.partition(".")[0]
        return (
            f"{nest} holds inputs and state: take them apart, as in method=lambda m, obs, h: "
            f"m((obs, h)), with example={{'obs': …}} and memory={{'h': {zeros}}}"
        )
    example = ", ".join(f"{n!r}: …" for n in source.example if n != port)
    return f"memory={{{port!r}: {zeros}}} beside example={{{example}}}"


def versions(fed: Mapping[str, Any]) -> dict[str, int]:
    """How often each tensor has been written into."""
    if torch.compiler.is_exporting():
        return {}
    tensors = {name: value for name, value in fed.items() if isinstance(value, torch.Tensor)}
    return {name: each._version for name, each in tensors.items() if not each.is_inference()}


def refuse_misplaced_memory(
    source: Source,
    result: Any,
    slots: Sequence[Slot],
    memory: Mapping[str, torch.Tensor],
    changed: Collection[str],
) -> None:
    """A question where the memory does not stand at the end of the results, but elsewhere.

    `changed` names the memory that the call wrote into.
    """
    alone = [slot for slot in slots if slot.returned is None and isinstance(slot.layout, str)]
    fields = getattr(result, "_fields", ())
    if not isinstance(result, (tuple, list)) or len(alone) != 1 or alone[0].name in fields:
        return
    if torch.compiler.is_exporting():  # told before, by an ordinary call
        return
    (slot,) = alone
    parts, last = list(result), len(result) - 1
    if len(slots) > 1 or last < 1 or slot.name not in memory:
        return
    fed = memory[slot.name]
    fitting = [place for place, part in enumerate(parts) if _is_alike(part, fed)]
    named = [_plain(each) for each in _last_return(source.code)]
    by_name = named.index(slot.name) if len(named) > last and slot.name in named else None
    if slot.name not in changed and not _is_changed(source.code, slot.name):
        by_name = None  # what came in, as it came: not what is remembered next
    if by_name is not None and named[last] == slot.name:
        return
    place = by_name if by_name in fitting else fitting[0] if fitting else by_name
    if place is None or place == last or (last in fitting and by_name is None):
        return
    raise UsageError(
        f"{source.called} returns the next {slot.name!r} as number {place} of {len(parts)} "
        "results, not as the last",
        code="RW107",
        where=return_line(source.code) or "memory",
        hint=f"say where it stands: memory={{{slot.name!r}: rw.Argument({_zeros(fed)}, "
        f"returned={(fields or range(len(parts)))[place]!r})}}",
    )


def _is_alike(part: Any, fed: torch.Tensor) -> bool:
    return isinstance(part, torch.Tensor) and part.shape == fed.shape and part.dtype == fed.dtype


def _is_changed(code: Callable[..., Any], name: str) -> bool:
    """Whether a function gives one of its arguments another value, or writes into it."""
    tree = _tree(code)
    return tree is None or any(_writes(node, name) for node in ast.walk(tree))


def _writes(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Name):
        return node.id == name and isinstance(node.ctx, ast.Store)
    if isinstance(node, (ast.Subscript, ast.Attribute)):
        own = any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node.value))
        in_place = isinstance(node, ast.Attribute) and node.attr.endswith("_")
        return own and (in_place or isinstance(node.ctx, ast.Store))
    return isinstance(node, ast.keyword) and node.arg == "out" and name in ast.dump(node.value)


@functools.cache
def _last_return(code: Callable[..., Any]) -> list[str]:
    """The names in the last `return` of a function."""
    tree = _tree(code)
    returned = [] if tree is None else _returned(tree)
    return _names(returned[-1]) if returned else []


def refuse_swapped_memory(source: Source, arguments: Sequence[str]) -> None:
    """An error where the returned names stand in another order than the declared ones."""
    for declared, found in _orders(source.code, arguments):
        returned = [_plain(each) for each in found]
        wanted = [_plain(each) for each in declared]
        if returned != wanted and sorted(returned) == sorted(wanted) and len(set(wanted)) > 1:
            order = ", ".join(f"{each!r}: …" for each in _sorted(declared, found))
            raise UsageError(
                f"{source.called} returns {', '.join(found)}; the memory is declared as "
                f"{', '.join(declared)}: each would be fed back as the other",
                code="RW107",
                where=return_line(source.code) or "memory",
                hint=f"return … {', '.join(declared)}, or declare them in the order in which they "
                f"return: memory={{{order}}}",
            )


def _sorted(declared: Sequence[str], found: Sequence[str]) -> list[str]:
    by_name = {_plain(each): each for each in declared}
    return [by_name[_plain(each)] for each in found]


def _orders(
    code: Callable[..., Any], arguments: Sequence[str]
) -> list[tuple[Sequence[str], Sequence[str]]]:
    """Pairs of names that should stand in the same order: declared and returned."""
    tree = _tree(code)
    if tree is None:
        return []
    pairs: list[tuple[Sequence[str], Sequence[str]]] = []
    unpacked = {
        node.value.id: _names(node.targets[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
    }
    for returned in _returned(tree):
        last = returned.elts[-1]
        if isinstance(last, ast.Tuple):
            packed = _names(last)
            pairs.append((arguments, packed) if len(arguments) > 1 else ((), ()))
            if len(arguments) == 1 and len(unpacked.get(arguments[0], [])) == len(packed):
                pairs.append((unpacked[arguments[0]], packed))
        elif len(arguments) > 1:
            names = [each.id if isinstance(each, ast.Name) else "" for each in returned.elts]
            pairs.append((arguments, names[-len(arguments) :]))
    return pairs


def returned_names(code: Callable[..., Any]) -> list[str]:
    """The local names that the returns of a function name."""
    tree = _tree(code)
    if tree is None:
        return []
    return [name for returned in _returned(tree) for name in _names(returned)]


def _tree(code: Callable[..., Any]) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, TypeError, SyntaxError):  # typed in, or built in
        return None


def _returned(tree: ast.AST) -> list[ast.Tuple]:
    found = [each.value for each in ast.walk(tree) if isinstance(each, ast.Return)]
    return [each for each in found if isinstance(each, ast.Tuple) and each.elts]


def _names(node: ast.AST) -> list[str]:
    parts = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
    return [each.id if isinstance(each, ast.Name) else "" for each in parts]


def _plain(name: str) -> str:
    """The name without what says that it is the next one: `new_h`, `h_n`, `h1`."""
    return _NEXT.sub("", name)
