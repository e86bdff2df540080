"""What looks like running statistics of observations: a mean and a spread that belong together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.distributions import Distribution

from roadworthy.capture.source import Source
from roadworthy.errors.lines import is_authors_class
from roadworthy.inspection.reach import Slot
from roadworthy.spec.port import Array
from roadworthy.spec.transforms import EpsInsideRoot
from roadworthy.verification.originals.advisories import never_updated

# Statistics of something else than observations, or of observations that only training has.
_OTHER = re.compile(
    r"(?:^|[._])(?:ret|rew|reward|return|value|critic|priv|privileged|target|adv|advantage|"
    r"action|act)s?(?:[._]|$)"
)
_CENTRE = re.compile(r"(.*?)(mean|means|loc|centre|center|mu)")
_ANY_SPREADS = ("var", "vars", "variance", "std", "stds", "stddev", "scale", "sigma")
_STACKED = re.compile(r"(?:obs|observation|state|input)s?_?(?:stats?|statistics|norm|rms|mean_std)")
_ACTION = re.compile(r"(?:action|act)s?_(?:scale|bias|offset|low|high|range)")
_NAMED = re.compile(r"obs_rms|running_mean_std|normali[sz]er|obs_norm|state_norm|rms$")
_MEAN = re.compile(r"(.*?)mean")
_SPREADS = ("var", "std", "variance", "stddev")

Numbers = torch.Tensor | Array


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """A mean and a spread that belong together, and the path at which they were found."""

    where: str
    holder: object
    mean: Numbers
    spread: Numbers
    mean_name: str
    spread_name: str
    inside: bool

    @property
    def untouched(self) -> bool:
        """Whether no observation was ever counted."""
        return never_updated(_array(self.mean), _array(self.spread))


def below(where: str, root: object, *, inside: bool) -> Iterator[Statistics]:
    """Every pair in an object and its attributes that looks like statistics of observations."""
    if isinstance(root, torch.nn.Module):
        for path, module in root.named_modules():
            place = f"{where}.{path}" if path else where
            yield from _pairs(place, module, inside)
            for name, value in vars(module).items():
                if _is_plain_object(value):
                    yield from _pairs(f"{place}.{name}", value, inside)
    elif _is_plain_object(root):
        yield from _pairs(where, root, inside)
        for name, value in _attributes(root).items():
            if isinstance(value, torch.nn.Module) or _is_plain_object(value):
                yield from _pairs(f"{where}.{name}", value, inside)


def _pairs(where: str, holder: object, inside: bool) -> Iterator[Statistics]:
    named = _NAMED.search(where.rpartition(".")[2])
    if _OTHER.search(where) or not (named or is_authors_class(type(holder))):
        return
    held = _attributes(holder)
    for name, mean in held.items():
        match = _MEAN.fullmatch(name)
        if match is None or not _is_numbers(mean) or _OTHER.search(name):
            continue
        for kind in _SPREADS:
            spread: Any = held.get(match[1] + kind)
            if _is_numbers(spread) and tuple(spread.shape) == tuple(mean.shape):
                yield Statistics(where, holder, mean, spread, name, match[1] + kind, inside)
                break


def _attributes(holder: object) -> dict[str, Any]:
    own = dict(getattr(holder, "__dict__", {}))
    if isinstance(holder, torch.nn.Module):
        own |= holder._buffers
        own |= holder._modules
    return own


def _is_plain_object(value: object) -> bool:
    return (
        hasattr(value, "__dict__")
        and not isinstance(value, (type, torch.nn.Module))
        and not callable(value)
        and (is_authors_class(type(value)) or _is_environments(value))
    )


def _is_environments(value: object) -> bool:
    """Whether it belongs to Gymnasium: its wrappers hold the running statistics of training."""
    return type(value).__module__.partition(".")[0] == "gymnasium"


def _is_numbers(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return value.is_floating_point() and not value.requires_grad and value.numel() > 0
    return isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size > 0


def _array(numbers: Any) -> Array:
    if isinstance(numbers, torch.Tensor):
        numbers = numbers.detach().cpu().numpy()
    return np.asarray(numbers)


def passed(each: Statistics) -> str:
    """What a caller writes to apply the statistics: the value of `normalizer=`."""
    owner, _, rest = each.where.partition(".")
    access = f"{owner.lower()}.{rest}" if rest else owner.lower()
    if isinstance(each.holder, torch.nn.Module) and rest:
        return access
    mean, spread = (f"{access}.{name}" for name in (each.mean_name, each.spread_name))
    if "var" in each.spread_name:
        return f"rw.EpsInsideRoot(mean={mean}, var={spread}, eps=…)"
    return f"rw.EpsOutsideRoot(mean={mean}, std={spread}, eps=…)"


def statistics_among(module: nn.Module, places: Mapping[str, Slot]) -> dict[str, list[Slot]]:
    """Name → the slots that make up what looks like statistics, however they are held."""
    found: dict[str, list[Slot]] = {}
    for name, slot in places.items():
        last, above = name.rpartition(".")[2], places.get(slot.parent)
        if _OTHER.search(name) or (above is not None and isinstance(above.value, Distribution)):
            continue
        match = _CENTRE.fullmatch(last)
        if match and _is_held_numbers(slot.value):
            beside = [f"{name.removesuffix(last)}{match[1]}{spread}" for spread in _ANY_SPREADS]
            pair = next((places[each] for each in beside if each in places), None)
            if pair is not None and _is_held_numbers(pair.value) and _is_trained(slot, pair):
                found[name] = [slot, pair]
        elif _STACKED.fullmatch(last) and _is_held_numbers(slot.value):
            found[name] = [slot]
    for path, part in module.named_modules():
        norm = isinstance(part, nn.modules.batchnorm._BatchNorm)
        if norm and part.running_mean is not None and not _OTHER.search(path):
            found[path] = [places[f"{path}.running_mean"]]
    return found


def scales_among(places: Mapping[str, Slot]) -> dict[str, list[Slot]]:
    """Name → the slot of what looks like a scale or an offset of actions."""
    return {
        name: [slot]
        for name, slot in places.items()
        if _ACTION.fullmatch(name.rpartition(".")[2])
        and (isinstance(slot.value, float) or _is_held_numbers(slot.value))
    }


def twins_among(source: Source, places: Mapping[str, Slot]) -> dict[str, list[Slot]]:
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
        if wanted
        and _is_held_numbers(slot.value)
        and any(_equal(slot.value, each) for each in wanted)
    }


def _is_held_numbers(value: Any) -> bool:
    return _is_numbers(value) or (
        isinstance(value, (list, tuple))
        and len(value) > 1
        and all(isinstance(each, float) for each in value)
    )


def _is_trained(mean: Slot, spread: Slot) -> bool:
    """Whether statistics are not where they start: of these nothing can be missing."""
    return bool(np.any(_array(mean.value))) or not bool(np.all(_array(spread.value) == 1))


def _equal(value: Any, wanted: Array) -> bool:
    own = _array(value)
    return own.size == wanted.size and bool(np.allclose(own.reshape(-1), wanted.reshape(-1)))
