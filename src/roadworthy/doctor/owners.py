"""Who holds a module: an actor-critic around the actor that is exported without it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import torch

from roadworthy.lines import is_machinery


def owners(module: torch.nn.Module) -> tuple[object, ...]:
    """The objects that have the module in an attribute, as far as Python knows."""
    return tuple(each for each in _holders(module) if _is_owner(each))


def _holders(module: torch.nn.Module) -> Iterator[object]:
    dictionaries = [each for each in gc.get_referrers(module) if isinstance(each, dict)]
    for holder in dictionaries:
        for owner in gc.get_referrers(holder):
            if getattr(owner, "__dict__", None) is holder:
                yield owner
            # A module keeps its parts in a dictionary inside its dictionary.
            elif isinstance(owner, dict) and owner.get("_modules") is holder:
                above = gc.get_referrers(owner)
                yield from (each for each in above if getattr(each, "__dict__", None) is owner)


def _is_owner(owner: object) -> bool:
    return not isinstance(owner, type) and not is_machinery(type(owner))
