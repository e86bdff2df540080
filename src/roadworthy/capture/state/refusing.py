"""Refusing what a call leaves behind for a later call, and what it asks the world."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from roadworthy.capture.compose import ComposedPolicy
from roadworthy.capture.failures import explained
from roadworthy.capture.memory import Tensors
from roadworthy.capture.state.starts import Works, declaration_of, made_at_first, memory_name
from roadworthy.errors import ExportError, Finding
from roadworthy.inspection.asking import Question
from roadworthy.inspection.putting_back import covers
from roadworthy.inspection.reach import Slot, root
from roadworthy.inspection.watch import GENERATORS, State, watched

NORMALIZER = "normalizer="  # not to be mistaken for an attribute of that name
_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, torch.Generator)


def refuse_state(composed: ComposedPolicy, inputs: Tensors, memory: Tensors, works: Works) -> None:
    """An error for whatever a call leaves behind, a later call reads, and nobody declared."""
    examples = [_moved(inputs, shift) for shift in (0.0, 1.0, -0.5)]

    def call(index: int) -> Sequence[torch.Tensor]:
        given = {name: value.clone() for name, value in examples[index].items()}
        with explained(composed.source), torch.no_grad():
            outputs, after = composed(given, {name: each.clone() for name, each in memory.items()})
        return [*outputs.values(), *after.values()]

    ignored = composed.source.ignore
    declared = [each.path for each in composed.slots if each.path is not None]
    declared += _renormed(composed.module)
    roots = [root("", composed.module), root(NORMALIZER, composed.normalizers)]
    seen = watched(call, roots, lambda name: any(covers(each, name) for each in declared))
    states = [
        each for each in seen.states if not any(covers(name, each.slot.name) for name in ignored)
    ]
    inside = [s.slot.name for s in states if _is_inside_module(s.slot.name, composed.module)]
    declaration = declaration_of(inside, works)
    if inside and not declaration:
        # A flag that tells the first call from others goes with what that call makes.
        made = made_at_first(composed.module, lambda: call(0))
        flags = [each for each in made if not any(covers(path, each) for path in declared)]
        declaration = declaration_of(list(dict.fromkeys([*inside, *flags])), works)
    words = _Words(type(composed.module).__name__, roots, declaration)
    found = [words.state(each) for each in states]
    found += [words.question(each) for each in seen.questions if each.name not in ignored]
    if found:
        raise ExportError(findings=list(dict.fromkeys(found)))


def _renormed(module: torch.nn.Module) -> list[str]:
    """Weights that are cut to a norm where they are looked up: a second time changes nothing."""
    kinds = (torch.nn.Embedding, torch.nn.EmbeddingBag)
    return [
        f"{name}.weight" if name else "weight"
        for name, each in module.named_modules()
        if isinstance(each, kinds) and each.max_norm is not None
    ]


def _moved(inputs: Tensors, shift: float) -> Tensors:
    return {n: t + shift if t.is_floating_point() else t.clone() for n, t in inputs.items()}


@dataclass(frozen=True, slots=True)
class _Words:
    """How what was seen is told."""

    owner: str
    roots: Sequence[Slot]
    declaration: str

    def state(self, state: State) -> Finding:
        slot = state.slot
        if slot.name.startswith(f"{NORMALIZER}."):
            return Finding(
                code="RW112",
                where=f"normalizer.{slot.name.split('.', 2)[2]}",
                what="the normaliser goes on learning: its statistics change at every call",
                hint="freeze the statistics: update them in training mode only",
            )
        inside = _is_inside_module(slot.name, self.roots[0].value)
        place = slot.name.partition(".<")[0]  # what C code holds inside of it has no name
        where = f"{self.owner}.{place}" if inside else place
        if isinstance(slot.value, _GENERATORS):
            return Finding(
                code="RW111",
                where=where,
                what=f"random numbers are drawn at every call{_at(state.line)}",
                hint="return the mean or the mode instead of a sample; if what is drawn does not "
                f"matter: ignore=[{place!r}]",
            )
        return Finding(
            code="RW112",
            where=where,
            what=f"a call writes it, and a later call reads it{_at(state.line)}",
            hint=f"{self._declaration(place, inside and not self._on_weight(slot))}; "
            f"if it does not matter: ignore=[{place!r}]",
        )

    def _declaration(self, place: str, inside: bool) -> str:
        if self.declaration and inside:
            return f"declare what persists: {self.declaration}"
        path = place.partition("[")[0].removesuffix(".get()")
        name = memory_name(path)
        if not inside:
            return (
                f"keep it in a tensor attribute with a batch axis, then declare it: "
                f"memory={{{name!r}: {name!r}}}"
            )
        return (
            "keep it in a tensor with a batch axis, then declare what persists: "
            f"memory={{{name!r}: {path!r}}}"
        )

    def _on_weight(self, slot: Slot) -> bool:
        """Whether it hangs on a parameter, where nobody who resets a module looks for it."""
        weights = dict(self.roots[0].value.named_parameters())
        return slot.parent in weights

    def question(self, question: Question) -> Finding:
        if question.name in GENERATORS:
            return Finding(
                code="RW111",
                where=question.line or self.owner,
                what=f"random numbers are drawn at every call, from {question.name}",
                hint="return the mean or the mode of the distribution instead of a sample; if what "
                f"is drawn does not matter: ignore=[{question.name!r}]",
            )
        if question.name.startswith("torch.compiler."):
            return Finding(
                code="RW126",
                where=question.line,
                what=f"the policy asks whether it is captured ({question.name}), and can be "
                "another one then",
                hint="let the code do the same in both; if both are the same: "
                f"ignore=[{question.name!r}]",
            )
        return Finding(
            code="RW124",
            where=question.line,
            what=f"the call asks the world outside: {question.name}; a graph would freeze the "
            "answer of the moment",
            hint="make it an input, or ask once in __init__; if it does not matter: "
            f"ignore=[{question.name!r}]",
        )


def _at(line: str) -> str:
    return f": {line}" if line else ""


def _is_inside_module(name: str, module: torch.nn.Module) -> bool:
    """Whether a name begins with an attribute of the module."""
    first = name.replace("[", ".").partition(".")[0]
    held = vars(module)
    internals = ("_parameters", "_buffers", "_modules")
    return first in held or any(first in held[each] for each in internals)
