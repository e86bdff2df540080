"""The recipe: how a policy was composed around a module, so that it can be composed again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from roadworthy.capture.memory import Slot
from roadworthy.capture.source import FIRST_INPUT, FORWARD, Argument, Attribute, Place, Source
from roadworthy.errors import UsageError
from roadworthy.spec.layout import pack
from roadworthy.spec.port import BATCH
from roadworthy.spec.signature import Signature
from roadworthy.spec.transforms import tagged

MODULE = "module"
FUNCTION = "function"


def recipe(source: Source, slots: tuple[Slot, ...]) -> dict[str, Any]:
    """The composition as JSON; a normaliser that is a module is only named."""
    normalizers = source.normalizers()
    return {
        "inputs": source.inputs,
        "outputs": None if source.outputs is None else list(source.outputs),
        "memory": {slot.name: slot.layout for slot in slots},
        "attributes": {slot.name: slot.path for slot in slots if slot.path is not None},
        **_noted("first_input", [slot.name for slot in slots if slot.start is not None]),
        **_noted("grouped", [leaf.port for s in slots for leaf in s.form.leaves if leaf.each]),
        **_noted("returned", {s.name: s.returned for s in slots if s.returned is not None}),
        "normalizers": {
            port: MODULE if isinstance(each, torch.nn.Module) else each.to_json()
            for port, each in normalizers.items()
        },
        "action": [step.to_json() for step in source.steps],
        "batch": source.batch,
        **({} if source.method == FORWARD else {"method": _method(source)}),
        **({"constants": dict(source.constants)} if source.constants else {}),
        **({"ignore": list(source.ignore)} if source.ignore else {}),
        **_noted("checkpoint", source.origin),
        **({} if source.rewritten is None else {"rewritten": source.rewritten.keywords}),
    }


def source_from(
    module: torch.nn.Module,
    recipe: Mapping[str, Any],
    signature: Signature,
    *,
    normalizer: Any = None,
    method: Any = None,
    constants: Mapping[str, Any] | None = None,
) -> Source:
    """The source that `recipe` describes, around another instance of its module."""
    ports = {port.name: port for port in signature.inputs}
    dims = dict.fromkeys(signature.symbols, 2) | {BATCH: 1}
    examples = {
        name: torch.zeros(port.sizes(dims), dtype=getattr(torch, port.dtype))
        for name, port in ports.items()
    }
    initial = {m.name: torch.from_numpy(m.fresh(1)) for m in signature.memory}
    for port in initial.keys() & set(
        recipe.get("grouped", ())
    ):  # several rows for each row, one behind the other
        initial[port] = initial[port].flatten(0, 1)
    paths, first = recipe["attributes"], recipe.get("first_input", ())
    return Source(
        module,
        example={name: pack(layout, examples) for name, layout in recipe["inputs"].items()},
        memory={
            name: Attribute(paths[name], FIRST_INPUT if name in first else None)
            if name in paths
            else Argument(pack(layout, initial), _place(recipe.get("returned", {}).get(name)))
            for name, layout in recipe["memory"].items()
        },
        normalizer=normalizer or _normalizers(recipe) or None,
        outputs=recipe["outputs"],
        action=tuple(tagged(step) for step in recipe["action"]),
        dynamic=_dynamic(signature),
        batch=recipe["batch"],
        ignore=recipe.get("ignore", ()),
        method=method or _same_method(recipe),
        constants=recipe.get("constants", {}) if constants is None else constants,
    )


def _noted(key: str, value: Any) -> dict[str, Any]:
    """The entry of a recipe, where there is something to say."""
    return {key: value} if value else {}


def _place(told: Any) -> Place | None:
    return tuple(told) if isinstance(told, list) else told


def _method(source: Source) -> str | dict[str, str]:
    """The name of the method; of a function, which has no form in JSON, only its own."""
    if isinstance(source.method, str):
        return source.method
    return {FUNCTION: getattr(source.method, "__qualname__", type(source.method).__name__)}


def _same_method(recipe: Mapping[str, Any]) -> str:
    method = recipe.get("method", FORWARD)
    if not isinstance(method, str):
        raise UsageError(
            f"the bundle was exported with a function, method={method[FUNCTION]}",
            hint="pass it again to rw.verify: method=lambda m, obs: …",
        )
    return method


def _normalizers(recipe: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for port, data in recipe["normalizers"].items():
        if data == MODULE:
            raise UsageError(
                f"the bundle was exported with a normaliser module for {port!r}",
                hint=f"pass it again: rw.verify(…, normalizer={{{port!r}: module}})",
            )
        found[port] = tagged(data)
    return found


def _dynamic(signature: Signature) -> dict[str, dict[int, str]]:
    found = {
        port.name: {
            axis: dim
            for axis, dim in enumerate(port.shape)
            if isinstance(dim, str) and dim != BATCH
        }
        for port in signature.inputs
    }
    return {name: axes for name, axes in found.items() if axes}
