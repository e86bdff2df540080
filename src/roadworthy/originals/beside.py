"""A normaliser that lies beside the policy: in the runner that holds both of them."""

from __future__ import annotations

from collections.abc import Iterator

from roadworthy.capture.state.unread import held
from roadworthy.errors import Finding
from roadworthy.errors.lines import is_authors_class
from roadworthy.originals.owners import owners
from roadworthy.originals.statistics import below, passed
from roadworthy.source import Source


def left_beside(source: Source) -> Iterator[Finding]:
    """A warning for each pair of statistics that a holder of the module has, and it has not."""
    if source.normalizer is not None:
        return
    inside = {id(slot.value) for slot in held(source.module).values()}
    for owner in owners(source.module):
        if not is_authors_class(type(owner)):
            continue
        for each in below(type(owner).__name__, owner, inside=False):
            shape = tuple(each.mean.shape)
            fits = any(tuple(t.shape[-len(shape) :]) == shape for t in source.tensors.values())
            if not each.untouched and id(each.mean) not in inside and shape and fits:
                yield Finding(
                    code="RW162",
                    where=each.where,
                    what="holds statistics of observations beside the policy, and the export has "
                    "no normaliser",
                    hint=f"pass normalizer={passed(each)}, or normalizer=torch.nn.Identity() if "
                    "the policy was trained without it",
                    severity="warning",
                )
