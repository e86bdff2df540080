"""Dtypes that do not go together: the module in the precision of the example, indices in int64."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from roadworthy.capture.source import Attribute, Source
from roadworthy.errors import Finding, RoadworthyError
from roadworthy.rules.fixes.copies import ModuleCopies

_SHORT = (torch.int8, torch.int16, torch.int32)


_LOW = (torch.float16, torch.bfloat16)


def is_low(source: Source) -> bool:
    """Whether the module computes in a low precision that its ports do not, or cannot, have."""
    own, given = _precisions(source)
    return len(own) == 1 and own <= set(_LOW) and (own != given or own == {torch.bfloat16})


def as_its_ports_are(source: Source) -> Source:
    """The source, around a copy that takes and gives the precision of the ports, where it is low.

    What it computes in between is what the module computes.
    """
    own, given = _precisions(source)
    kept = [each for each in source.memory.values() if isinstance(each, Attribute)]
    if not is_low(source) or len(given) != 1 or own == given or kept:
        return source
    (inside,), (outside,) = own, given
    copied = copy.deepcopy(source.module)
    _cast_around(copied, {outside: inside}, {inside: outside})
    return replace(source, module=copied)


def _precisions(source: Source) -> tuple[set[torch.dtype], set[torch.dtype]]:
    """Those of the weights, and those of the example."""
    module = source.module
    own = {p.dtype for p in (*module.parameters(), *module.buffers()) if p.is_floating_point()}
    return own, {t.dtype for t in source.tensors.values() if t.is_floating_point()}


def one_precision(copies: ModuleCopies, finding: Finding) -> bool:
    """The module cast to the precision of the example; the original is fed in its own."""
    if finding.code != "RW116" or "precision" not in finding.what:
        return False
    module = copies.repaired.module
    own, given = _precisions(copies.repaired)
    kept = [m for m in copies.repaired.memory.values() if isinstance(m, Attribute)]
    # Memory inside the module would have two precisions, one in each copy.
    if len(own) != 1 or len(given) != 1 or own == given or kept:
        return False
    (inside,), (outside,) = own, given
    module.to(outside)
    _cast_around(copies.original.module, {outside: inside}, {inside: outside})
    names = [str(dtype).removeprefix("torch.") for dtype in (inside, outside)]
    copies.note(finding.where, f"the module was cast from {names[0]} to {names[1]}")
    return True


def float_ports(copies: ModuleCopies, finding: Finding) -> bool:
    """Ports and module in float32 where they are bfloat16; the original computes as it did."""
    if finding.code != "RW022" or "bfloat16" not in finding.what:
        return False
    kept = [m for m in copies.repaired.memory.values() if isinstance(m, Attribute)]
    given = {t.dtype for t in copies.repaired.tensors.values() if t.is_floating_point()}
    if torch.bfloat16 not in given or kept:
        return False
    wide = _cast({torch.bfloat16: torch.float32})
    for field in ("repaired", "original"):
        source = getattr(copies, field)
        example, memory = pytree.tree_map(wide, (dict(source.example), dict(source.memory)))
        setattr(copies, field, replace(source, example=example, memory=memory))
    copies.repaired.module.float()
    _cast_around(
        copies.original.module, {torch.float32: torch.bfloat16}, {torch.bfloat16: torch.float32}
    )
    copies.note(finding.where, "the module and its ports were cast from bfloat16 to float32")
    return True


def with_kept_state(source: Source, error: RoadworthyError) -> RoadworthyError:
    """The error, with the way on for a module that keeps its state in bfloat16 in attributes.

    Such a state would have two precisions, one in the module and one in its copy.
    """
    kept = [each.path for each in source.memory.values() if isinstance(each, Attribute)]
    low = [f for f in error.findings if f.code == "RW022" and "bfloat16" in f.what]
    if kept and low:
        casts = "; ".join(f"module.{path} = module.{path}.float()" for path in kept)
        hint = f"module.float(); {casts}; and cast to float32 wherever forward names bfloat16"
        found = [replace(f, hint=hint) if f in low else f for f in error.findings]
        error.replace_findings(found)
    return error


def long_indices(copies: ModuleCopies, finding: Finding) -> bool:
    """Small integers passed on as int64; the ports stay as they are."""
    if finding.code != "RW116" or "index" not in finding.what:
        return False
    given = {n: t.dtype for n, t in copies.repaired.tensors.items() if t.dtype in _SHORT}
    if not given or any(note.what.startswith("the inputs") for note in copies.notes):
        return False
    for source in (copies.repaired, copies.original):
        _cast_around(source.module, dict.fromkeys(_SHORT, torch.int64), {})
    copies.note(finding.where, f"the inputs {', '.join(given)} are passed on as int64")
    return True


def _cast_around(
    module: torch.nn.Module,
    inwards: dict[torch.dtype, torch.dtype],
    outwards: dict[torch.dtype, torch.dtype],
) -> None:
    """Casts what goes into the module, and what comes out of it."""

    def before(_: Any, args: Any, kwargs: Any) -> Any:
        return pytree.tree_map(_cast(inwards), (args, kwargs))

    def after(_: Any, __: Any, result: Any) -> Any:
        return pytree.tree_map(_cast(outwards), result)

    module.register_forward_pre_hook(before, with_kwargs=True)
    module.register_forward_hook(after)


def _cast(dtypes: dict[torch.dtype, torch.dtype]) -> Callable[[Any], Any]:
    def cast(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype in dtypes:
            return value.to(dtypes[value.dtype])
        return value

    return cast
