"""Statistics and scales that lie in a module or beside it, and are not applied, or twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from roadworthy.capture.memory import Slot, Tensors
from roadworthy.capture.source import Source
from roadworthy.errors import Finding
from roadworthy.errors.lines import is_authors_class
from roadworthy.inspection.snapshot import preserved
from roadworthy.inspection.unread import held, read
from roadworthy.verification.originals.calling import caller
from roadworthy.verification.originals.owners import owners
from roadworthy.verification.originals.statistics import (
    below,
    passed,
    scales_among,
    statistics_among,
    twins_among,
)


def unapplied(source: Source, slots: Sequence[Slot], memory: Tensors) -> Iterator[Finding]:
    """Warnings for what is held and not applied; must be asked inside `export_mode`."""
    module = source.module
    places = held(module)
    statistics = {} if source.normalizer is not None else statistics_among(module, places)
    scales = {} if source.steps else scales_among(places)
    twins = twins_among(source, places)
    if not statistics and not scales and not twins:
        return
    call = caller(source, slots, memory)
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


def left_beside(source: Source) -> Iterator[Finding]:
    """A warning for each pair of statistics that a holder of the module has, and it has not.

    It lies in the runner that holds both of them.
    """
    if source.normalizer is not None:
        return
    inside: set[int] | None = None
    for owner in owners(source.module):
        if not is_authors_class(type(owner)):
            continue
        for pair in below(type(owner).__name__, owner, inside=False):
            shape = tuple(pair.mean.shape)
            fits = any(tuple(t.shape[-len(shape) :]) == shape for t in source.tensors.values())
            if pair.untouched or not shape or not fits:
                continue
            if inside is None:  # looked for where there is something to tell from it
                inside = {id(slot.value) for slot in held(source.module).values()}
            if id(pair.mean) not in inside:
                yield Finding(
                    code="RW162",
                    where=pair.where,
                    what="holds statistics of observations beside the policy, and the export has "
                    "no normaliser",
                    hint=f"pass normalizer={passed(pair)}, or normalizer=torch.nn.Identity() if "
                    "the policy was trained without it",
                    severity="warning",
                )
