"""The transforms of an environment as stages before and behind a policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roadworthy.adapters.torchrl.catalogue import Entry, entry_of
from roadworthy.adapters.torchrl.composing import Composer, LeftOut, Stages
from roadworthy.adapters.torchrl.piece import plain
from roadworthy.adapters.torchrl.stage import NestedKey
from roadworthy.adapters.torchrl.twin import Chain, chain_of
from roadworthy.errors import ExportError, Finding

__all__ = ["LeftOut", "Stages", "stages"]


def stages(transforms: Any, *, in_keys: Sequence[NestedKey], action_key: NestedKey) -> Stages:
    """The stages that turn what an environment gives into what a policy reads, and back.

    `transforms` is a TransformedEnv, a Compose, a list, or one transform; `in_keys` is what the
    policy reads and `action_key` what it writes. Nothing of the caller's is changed.
    """
    chain = chain_of(transforms)
    entries = _known(chain)
    return Composer(chain, entries, [plain(key) for key in in_keys], plain(action_key)).stages()


def _known(chain: Chain) -> list[Entry]:
    """What becomes of each transform; all that are refused by their class, at once."""
    findings, entries = [], []
    for index, transform in enumerate(chain.transforms):
        entry = entry_of(transform)
        if entry is None or entry.group == "refused":
            findings.append(_refusal(chain, index, entry))
        else:
            entries.append(entry)
    if findings:
        raise ExportError(findings=findings)
    return entries


def _refusal(chain: Chain, index: int, entry: Entry | None) -> Finding:
    name = type(chain.transforms[index]).__name__
    if entry is None:
        what = f"{name} is not one of TorchRL's transforms; does the policy need what it computes?"
        hint = (
            "if so, move it into the policy as a TensorDictModule; if not, pass a list without it"
        )
    else:
        what, hint = f"{name} cannot be exported", entry.note
    return Finding(code="RW150", what=what, where=chain.where(index), hint=hint)
