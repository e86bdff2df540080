"""Running statistics of observations: a mean and a spread that belong together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from roadworthy.errors.lines import is_authors_class
from roadworthy.originals.advisories import never_updated
from roadworthy.originals.unapplied import OTHER
from roadworthy.spec.port import Array

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
    if OTHER.search(where) or not (named or is_authors_class(type(holder))):
        return
    held = _attributes(holder)
    for name, mean in held.items():
        match = _MEAN.fullmatch(name)
        if match is None or not _is_numbers(mean) or OTHER.search(name):
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


def _array(numbers: Numbers) -> Array:
    return numbers.detach().cpu().numpy() if isinstance(numbers, torch.Tensor) else numbers


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
