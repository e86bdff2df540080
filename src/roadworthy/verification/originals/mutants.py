"""The likely mistakes, made on purpose: around the module first, then those inside it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from roadworthy.capture.source import Source
from roadworthy.capture.transforms import normalizer as normalizer_module
from roadworthy.errors import UsageError
from roadworthy.spec.transforms import (
    ActionStep,
    Argmax,
    EpsInsideRoot,
    EpsOutsideRoot,
    MultiDiscrete,
    Normalizer,
    tagged,
)
from roadworthy.verification.originals.module_mutants import module_mutants

NORMALISER_HINT = "export with the normaliser of the training: normalizer=…"
ACTION_HINT = "apply each action step once: in action=…, or in the code that calls the policy"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mistake:
    """A source with one mistake in it, and the words for that mistake.

    `applied` makes it inside the module, whose tensors are put back when export mode ends.
    """

    what: str
    hint: str
    where: str
    source: Source
    applied: Callable[[], AbstractContextManager[None]] = nullcontext


def mistakes(source: Source, recipe: Mapping[str, Any]) -> Iterator[Mistake]:
    """Mistakes around the module first, then those inside it."""
    yield from _normalisers(source, recipe.get("normalizers") or {})
    yield from _actions(source)
    for each in module_mutants(source.module):
        yield Mistake(
            what=each.what, hint=each.hint, where=each.where, source=source, applied=each.applied
        )


def _normalisers(source: Source, made_with: Mapping[str, Any]) -> Iterator[Mistake]:
    normalizers = source.normalizers()
    for port, own in normalizers.items():

        def other(what: str, changed: Any, port: str = port) -> Mistake:
            rest = {name: each for name, each in normalizers.items() if name != port}
            changed = rest if changed is None else rest | {port: changed}
            altered = dataclasses.replace(source, normalizer=changed or None)
            return Mistake(what=what, hint=NORMALISER_HINT, where=port, source=altered)

        yield other(f"the normaliser of {port!r} is missing in the artifact", None)
        twice = torch.nn.Sequential(normalizer_module(own), normalizer_module(own))
        yield other(f"{port!r} is normalised twice in the artifact", twice)
        if not isinstance(own, torch.nn.Module):
            for formula in _formulas(own, made_with.get(port)):
                yield other(
                    f"{port!r} is normalised by {_said(formula)} in the artifact and by "
                    f"{_said(own)} in the original",
                    formula,
                )


def _formulas(own: Normalizer, made_with: Any) -> Iterator[Normalizer]:
    """The same statistics as other libraries use them, and those that the bundle names."""
    if isinstance(made_with, Mapping):
        yield tagged(made_with)
    mean = np.asarray(own.mean, dtype=np.float64)
    spread = own.var if isinstance(own, EpsInsideRoot) else np.square(own.std)
    var = np.asarray(spread, dtype=np.float64)
    clips = dict.fromkeys((own.clip, None, 5.0, 10.0))
    for eps, clip in itertools.product(dict.fromkeys((own.eps, 1e-8, 1e-5, 1e-2)), clips):
        yield EpsInsideRoot(mean=mean, var=var, eps=eps, clip=clip)
        yield EpsOutsideRoot(mean=mean, std=np.sqrt(var), eps=eps, clip=clip)


def _said(formula: Normalizer) -> str:
    return f"{type(formula).__name__}(eps={formula.eps:g}, clip={formula.clip})"


def _actions(source: Source) -> Iterator[Mistake]:
    for what, steps in _pipelines(source.steps):
        try:
            altered = dataclasses.replace(source, action=steps)
        except UsageError:
            continue
        yield Mistake(what=what, hint=ACTION_HINT, where="action", source=altered)


def _pipelines(steps: Sequence[ActionStep]) -> Iterator[tuple[str, tuple[ActionStep, ...]]]:
    for index, step in enumerate(steps):
        before, after, name = tuple(steps[:index]), tuple(steps[index + 1 :]), type(step).__name__
        yield f"the artifact lacks the action step {name}", (*before, *after)
        yield f"the artifact applies the action step {name} twice", (*before, step, step, *after)
        if after:
            swapped = (*before, after[0], step, *after[1:])
            yield f"the artifact applies {type(after[0]).__name__} before {name}", swapped
        if isinstance(step, (Argmax, MultiDiscrete)) and step.mask:
            unmasked = dataclasses.replace(step, mask=None)
            yield (
                f"the artifact ignores the mask {step.mask!r}: it chooses masked actions",
                (*before, unmasked, *after),
            )
        if isinstance(step, MultiDiscrete):
            for sizes in sorted(set(itertools.permutations(step.sizes)) - {step.sizes}):
                split = dataclasses.replace(step, sizes=sizes)
                yield (
                    f"the artifact splits the logits into groups of {sizes}, "
                    f"the original into {step.sizes}",
                    (*before, split, *after),
                )
