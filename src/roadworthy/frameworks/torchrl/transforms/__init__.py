"""The transforms of an environment as stages before and behind a policy.

A transform becomes key rules (what is read, written, removed and primed), and those that the
policy needs become stages: Transform → KeyRule → TransformStage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensordict import unravel_key

from roadworthy.frameworks.torchrl.keys import NestedKey
from roadworthy.frameworks.torchrl.transforms.chain import LeftOut, chain_of, entries_of
from roadworthy.frameworks.torchrl.transforms.stage_builder import StageBuilder, TransformStages

__all__ = ["LeftOut", "TransformStages", "stages"]


def stages(
    transforms: Any, *, in_keys: Sequence[NestedKey], action_key: NestedKey
) -> TransformStages:
    """The stages that turn what an environment gives into what a policy reads, and back.

    `transforms` is a TransformedEnv, a Compose, a list, or one transform; `in_keys` is what the
    policy reads and `action_key` what it writes. Nothing of the caller's is changed.
    """
    chain = chain_of(transforms)
    entries = entries_of(chain)
    read = [unravel_key(key) for key in in_keys]
    return StageBuilder(chain, entries, read, unravel_key(action_key)).stages()
