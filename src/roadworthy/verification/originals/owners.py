"""Who holds a module: an actor-critic around the actor that is exported without it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import torch

from roadworthy.errors.lines import is_machinery


def owners(module: torch.nn.Module) -> tuple[object, ...]:
    """The objects that have the module in an attribute, as far as Python knows."""
    return tuple(each for each in _holders(module) if _is_owner(each))


def _holders(module: torch.nn.Module) -> Iterator[object]:
    held = gc.get_referrers(module)
    # An object whose dictionary nobody asked for has none yet, and holds the module itself.
    yield from (each for each in held if not isinstance(each, dict) and _has(each, module))
    dictionaries = [each for each in held if isinstance(each, dict)]
    above = gc.get_referrers(*dictionaries) if dictionaries else []
    ids = {id(each) for each in dictionaries}
    yield from (each for each in above if id(getattr(each, "__dict__", None)) in ids)
    # A module keeps its parts in a dictionary inside its dictionary.
    inner = [each for each in above if isinstance(each, dict) and id(each.get("_modules")) in ids]
    ids = {id(each) for each in inner}
    for each in gc.get_referrers(*inner) if inner else []:
        if id(getattr(each, "__dict__", None)) in ids:
            yield each


def _has(owner: object, module: torch.nn.Module) -> bool:
    held = getattr(owner, "__dict__", None)
    return isinstance(held, dict) and any(each is module for each in held.values())


def _is_owner(owner: object) -> bool:
    return not isinstance(owner, type) and not is_machinery(type(owner))
