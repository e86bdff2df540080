"""Statistics and scales that a module holds and does not apply, or applies a second time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.distributions import Distribution

from roadworthy.capture.call_style import call_style
from roadworthy.capture.compose import ComposedPolicy
from roadworthy.capture.memory import Slot as MemorySlot
from roadworthy.capture.memory import Tensors
from roadworthy.capture.snapshot import preserved
from roadworthy.capture.state.reach import Slot
from roadworthy.capture.state.unread import held, read
from roadworthy.errors import Finding
from roadworthy.source import Source
from roadworthy.spec.transforms import EpsInsideRoot

# Statistics of something else than observations, or of observations that only training has.
OTHER = re.compile(
    r"(?:^|[._])(?:ret|rew|reward|return|value|critic|priv|privileged|target|adv|advantage|"
    r"action|act)s?(?:[._]|$)"
)
_CENTRE = re.compile(r"(.*?)(mean|means|loc|centre|center|mu)")
_SPREADS = ("var", "vars", "variance", "std", "stds", "stddev", "scale", "sigma")
_STACKED = re.compile(r"(?:obs|observation|state|input)s?_?(?:stats?|statistics|norm|rms|mean_std)")
_ACTION = re.compile(r"(?:action|act)s?_(?:scale|bias|offset|low|high|range)")


def unapplied(source: Source, slots: Sequence[MemorySlot], memory: Tensors) -> Iterator[Finding]:
    """Warnings for what is held and not applied; must be asked inside `export_mode`."""
    module = source.module
    places = held(module)
    statistics = {} if source.normalizer is not None else _statistics(module, places)
    scales = {} if source.steps else _scales(places)
    twins = _twins(source, places)
    if not statistics and not scales and not twins:
        return
    arguments = [each.name for each in slots if each.path is None]
    composed = ComposedPolicy(source, call_style(source, arguments), tuple(slots))

    def call(index: int) -> list[torch.Tensor]:
        with torch.no_grad():
            outputs, after = composed(
                {name: value.clone() for name, value in source.tensors.items()},
                {name: value.clone() for name, value in memory.items()},
            )
        return [*outputs.values(), *after.values()]

    try:
        with preserved(module):
            call(0)
    except Exception:  # an example that the action steps want more of says nothing here
        return
    owner = type(module).__name__
    for name, group in statistics.items():
        if name not in source.ignore and not any(read(call, module, group)):
            yield Finding(
                code="RW162",
                where=f"{owner}.{name}",
                what="looks like statistics of observations, and no output depends on it",
                hint="is a normaliser missing? normalizer=rw.EpsInsideRoot(mean=…, var=…, eps=…); "
                f"if not: ignore=[{name!r}]",
                severity="warning",
            )
    for name, group in scales.items():
        if name not in source.ignore and not any(read(call, module, group)):
            yield Finding(
                code="RW109",
                where=f"{owner}.{name}",
                what="is held, and no output depends on it: are the actions scaled?",
                hint="action=rw.ScaleOffset(scale=…, offset=…), after rw.Tanh() where the training "
                f"squashed; if not: ignore=[{name!r}]",
                severity="warning",
            )
    for name, group in twins.items():
        if name not in source.ignore and any(read(call, module, group)):
            yield Finding(
                code="RW109",
                where=f"{owner}.{name}",
                what="the module applies the statistics that normalizer= applies too: twice?",
                hint=f"leave normalizer= out; if it is meant: ignore=[{name!r}]",
                severity="warning",
            )


def _statistics(module: nn.Module, places: Mapping[str, Slot]) -> dict[str, list[Slot]]:
    """Name → the slots that make up what looks like statistics."""
    found: dict[str, list[Slot]] = {}
    for name, slot in places.items():
        last, above = name.rpartition(".")[2], places.get(slot.parent)
        if OTHER.search(name) or (above is not None and isinstance(above.value, Distribution)):
            continue
        match = _CENTRE.fullmatch(last)
        if match and _is_numbers(slot.value):
            beside = [f"{name.removesuffix(last)}{match[1]}{spread}" for spread in _SPREADS]
            pair = next((places[each] for each in beside if each in places), None)
            if pair is not None and _is_numbers(pair.value) and _is_trained(slot, pair):
                found[name] = [slot, pair]
        elif _STACKED.fullmatch(last) and _is_numbers(slot.value):
            found[name] = [slot]
    for path, part in module.named_modules():
        norm = isinstance(part, nn.modules.batchnorm._BatchNorm)
        if norm and part.running_mean is not None and not OTHER.search(path):
            found[path] = [places[f"{path}.running_mean"]]
    return found


def _scales(places: Mapping[str, Slot]) -> dict[str, list[Slot]]:
    return {
        name: [slot]
        for name, slot in places.items()
        if _ACTION.fullmatch(name.rpartition(".")[2])
        and (isinstance(slot.value, float) or _is_numbers(slot.value))
    }


def _twins(source: Source, places: Mapping[str, Slot]) -> dict[str, list[Slot]]:
    """Slots of the module that hold the very statistics of the normaliser."""
    wanted = []
    for each in source.normalizers().values():
        if isinstance(each, nn.Module):
            wanted += [_array(value) for value in each.buffers() if value.ndim]
        else:
            spread = each.var if isinstance(each, EpsInsideRoot) else each.std
            wanted += [np.asarray(each.mean), np.asarray(spread)]
    # Buffers of nothing but zeros or ones are everywhere.
    wanted = [each for each in wanted if each.size > 1 and not {*each.flat} <= {0.0, 1.0}]
    return {
        name: [slot]
        for name, slot in places.items()
        if wanted and _is_numbers(slot.value) and any(_equal(slot.value, each) for each in wanted)
    }


def _is_numbers(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.is_floating_point() and not value.requires_grad and value.numel() > 0
    if isinstance(value, np.ndarray):
        return value.dtype.kind == "f" and value.size > 0
    return (
        isinstance(value, (list, tuple))
        and len(value) > 1
        and all(isinstance(each, float) for each in value)
    )


def _is_trained(mean: Slot, spread: Slot) -> bool:
    """Whether statistics are not where they start: of these nothing can be missing."""
    return bool(np.any(_array(mean.value))) or not bool(np.all(_array(spread.value) == 1))


def _array(value: Any) -> np.ndarray[Any, Any]:
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)


def _equal(value: Any, wanted: np.ndarray[Any, Any]) -> bool:
    own = _array(value)
    return own.size == wanted.size and bool(np.allclose(own.reshape(-1), wanted.reshape(-1)))
