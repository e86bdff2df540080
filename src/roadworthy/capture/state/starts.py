"""How an episode starts: as the declared memory says, or as the module's first call does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch

from roadworthy.capture.compose import ComposedPolicy
from roadworthy.capture.failures import explained
from roadworthy.capture.forms import copied
from roadworthy.capture.memory import Slot, Tensors, alike, attribute, set_attribute
from roadworthy.capture.source import FIRST_INPUT, Attribute
from roadworthy.errors import ExportError
from roadworthy.inspection.moment import moment
from roadworthy.inspection.reach import root
from roadworthy.inspection.snapshot import preserved
from roadworthy.spec.tolerance import SAME_POLICY


class Analysed(Protocol):
    """What an analysis with more memory tells."""

    composed: ComposedPolicy
    memory_rows: Tensors


# The analysis of the policy with more memory declared; None where it cannot be.
Works = Callable[[Mapping[str, Attribute]], Analysed | None]


def memory_name(path: str) -> str:
    """What a memory at this path is called in a hint."""
    return path.rpartition(".")[2].strip("_") or "hidden"


def declaration_of(places: Sequence[str], works: Works) -> str:
    """`memory={…}` for attributes that persist, as it was tried; empty where none works."""
    paths = dict.fromkeys(place.partition("[")[0] for place in places)
    names = {memory_name(path): path for path in paths}
    if not places or len(names) < len(paths):
        return ""
    found = works({name: Attribute(path, initial="current") for name, path in names.items()})
    if found is not None and not starts_elsewhere(found.composed, found.memory_rows):
        return f"memory={{{', '.join(f'{name!r}: {path!r}' for name, path in names.items())}}}"
    if works({name: Attribute(path, FIRST_INPUT) for name, path in names.items()}) is None:
        return ""
    return f"memory={{{', '.join(_first(name, path) for name, path in names.items())}}}"


def _first(name: str, path: str) -> str:
    return f"{name!r}: rw.Attribute({path!r}, initial={FIRST_INPUT!r})"


def made_at_first(module: torch.nn.Module, call: Callable[[], object]) -> list[str]:
    """The places that a first call writes; the module comes back as it was."""
    roots = [root("", module)]
    with preserved(module):
        before = moment(lambda: roots, frozenset())
        call()
        after = moment(lambda: roots, frozenset())
        return [slot.name for slot in before.written_until(after)]


def starts_elsewhere(composed: ComposedPolicy, rows: Tensors) -> list[Slot]:
    """The attributes that a first call finds unmade, where it then gives something else."""
    slots = [each for each in composed.slots if each.start is None and _is_open(composed, each)]
    unmade = [each for each in slots if not _is_there(composed, each)]
    if not unmade:
        return []
    # An example of zeros would fill with zeros, as if nothing had been made of it.
    inputs = {
        name: value[:1] + 0.75 if value.is_floating_point() else value[:1]
        for name, value in composed.source.tensors.items()
    }
    native, declared = _both(composed, inputs, rows)
    if native is None or all(SAME_POLICY.close(native[n], declared[n]) for n in native):
        return []
    return unmade


def refuse_other_start(composed: ComposedPolicy, rows: Tensors, works: Works) -> None:
    """An error where the first call makes the state from its input, and zeros were declared."""
    unmade = starts_elsewhere(composed, rows)
    if not unmade:
        return
    paths = {slot.name: str(slot.path) for slot in unmade}
    more = {name: Attribute(path, initial=FIRST_INPUT) for name, path in paths.items()}
    said = ", ".join(_first(name, path) for name, path in paths.items())
    path = next(iter(paths.values()))
    raise ExportError(
        f"the first call of an episode makes {', '.join(paths)} from what it is given; the "
        "declared memory starts at zeros",
        code="RW114",
        where=f"{type(composed.module).__name__}.{path}",
        hint=f"memory={{{said}}}"
        if works(more) is not None
        else "reset the module before the export, so that the state is there, and say where it "
        f"starts: rw.Attribute({path!r}, initial='current')",
    )


def _is_open(composed: ComposedPolicy, slot: Slot) -> bool:
    """Whether it is an attribute, and nobody said at which values it starts."""
    declared = composed.source.memory[slot.name]
    return isinstance(declared, Attribute) and (
        declared.initial is None or isinstance(declared.initial, str)
    )


def _is_there(composed: ComposedPolicy, slot: Slot) -> bool:
    """Whether the attribute already has the form that calls find."""
    held = attribute(composed.module, str(slot.path))
    return held is not None and alike(held, slot.form.template)


def _both(
    composed: ComposedPolicy, inputs: Tensors, rows: Tensors
) -> tuple[Tensors | None, Tensors]:
    """The outputs of a first call from the module's own start, and from the declared one."""
    own = [port for slot in composed.slots if slot.path is None for port in slot.ports]
    starts = {s.path: copied(attribute(composed.module, s.path)) for s in composed.slots if s.path}
    found = []
    for memory in ({name: rows[name] for name in own}, rows):
        with preserved(composed.module), explained(composed.source), torch.no_grad():
            for path, start in starts.items():
                set_attribute(composed.module, path, copied(start))
            given = {name: value.clone() for name, value in memory.items()}
            try:
                outputs, after = composed({n: v.clone() for n, v in inputs.items()}, given)
            except Exception:  # a batch of another size than the example's: nothing to compare
                return None, {}
        kept = {f"memory {n}": v for n, v in after.items() if n not in own and v.ndim}
        found.append(outputs | kept)
    return found[0], found[1]
