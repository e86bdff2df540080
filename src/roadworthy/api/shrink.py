"""`shrink`: a policy as C with smaller weights, for as long as it plays as well with them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from roadworthy.api.write_c import opened
from roadworthy.errors import CertificateFailed, UsageError
from roadworthy.errors.unforeseen import answers
from roadworthy.runtime.c_engine import CEngine
from roadworthy.runtime.engine import Artifact
from roadworthy.runtime.gym.play import MAX_STEPS, Episodes, play
from roadworthy.runtime.policy import Policy
from roadworthy.runtime.trust import written_here
from roadworthy.spec.port import BATCH
from roadworthy.spec.run import outputs_of
from roadworthy.targets.c.folder.files import written
from roadworthy.targets.c.folder.interface import Interface, interface
from roadworthy.targets.c.folder.placing import place_files
from roadworthy.targets.c.folder.selftest import selftest
from roadworthy.targets.c.kernels.panels import Storage
from roadworthy.targets.c.lowering import Unsupported

STORAGES: tuple[Storage, ...] = get_args(Storage)
# Of its mean return, what a policy may lose where nobody said how much.
LOSS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Variant:
    """A policy as C with its weights in one storage, and what it earned in closed loop.

    constant_bytes  weights and every other constant of the file
    played          None where the weights do not fit into the storage, as `refused` says
    allowed         how much mean return it may lose against float32
    """

    weights: Storage
    constant_bytes: int
    played: Episodes | None
    lost: float
    allowed: float
    texts: Mapping[str, str] = field(repr=False)
    refused: str = ""

    @property
    def passed(self) -> bool:
        """Whether it plays as well as with weights of 32 bits; NaN does not."""
        return self.lost <= self.allowed

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Writes the C, or raises where the closed loop says that it must not be used."""
        if self.played is None:
            raise CertificateFailed(
                self.refused, where=self.weights, hint="take another storage: float32 always fits"
            )
        if not self.passed:
            raise CertificateFailed(
                f"with weights of {self.weights} the mean return is {self.played.mean_return:.4g}, "
                f"{self.lost:.4g} less than with float32; {self.allowed:.4g} may be lost",
                where=self.weights,
                hint="take a larger storage, or say how much may be lost: margin=…",
            )
        place_files(self.texts, Path(folder))


@answers
def shrink(
    path: str | os.PathLike[str],
    *,
    env: str | Callable[[], Any],
    episodes: int = 20,
    margin: float | None = None,
    seed: int = 0,
    canary: bool = True,
    progress: Callable[[str], None] | None = None,
) -> tuple[Variant, ...]:
    """The policy of a bundle with weights of float32, float16 and int8, each played in `env`.

    What is played is the C that `Variant.write` writes, from the same seeds. `margin` is the mean
    return that may be lost; left out: 5 % of that with float32.
    """
    bundle, model, trace = opened(path, canary=canary)
    if any(name != BATCH for name in bundle.signature.symbols):
        raise UsageError(
            "an axis is of open size, and what is played and written is of one size",
            where=str(path),
            hint="export the policy for the sizes of the environment: without dynamic=",
        )
    found: list[Variant] = []
    for weights in STORAGES:
        try:
            own = interface(model, bundle.signature, weights=weights)
        except Unsupported as error:
            if not found:
                raise
            found.append(_misfit(weights, found[0], error))
            continue
        texts = written(own)
        policy = _compiled(own, texts)
        played = play(policy, env, episodes, seed=seed, max_steps=MAX_STEPS, progress=progress)
        first = found[0].played if found else played
        usual = played.mean_return if first is None else first.mean_return
        policy.reset(seed=0)
        # What the original did is further away than this storage can follow: the self-test shows
        # that a board computes what this machine does.
        recorded = replace(trace, outputs=outputs_of(policy, trace))
        found.append(
            Variant(
                weights=weights,
                constant_bytes=sum(each.nbytes for each in own.code.constants.values()),
                played=played,
                lost=usual - played.mean_return,
                allowed=abs(usual) * LOSS if margin is None else margin,
                texts={**texts, "selftest.c": selftest(own, recorded)},
            )
        )
    return tuple(found)


def _misfit(weights: Storage, usual: Variant, error: Unsupported) -> Variant:
    return Variant(
        weights=weights, constant_bytes=0, played=None, lost=math.inf, allowed=usual.allowed,
        texts={}, refused=error.findings[0].what,
    )  # fmt: skip


def _compiled(own: Interface, texts: Mapping[str, str]) -> Policy:
    artifact = Artifact(files=written_here(texts), signature=own.signature, where=own.weights)
    return Policy(own.signature, CEngine(artifact), seed=0)
