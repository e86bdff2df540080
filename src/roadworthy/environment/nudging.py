"""Trials: whether the results of a step depend on a tensor, asked by giving it other values.

A trial proves influence; the absence of one is believed after many values in many circumstances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import torch

from roadworthy.environment.circumstances import CIRCUMSTANCES, Circumstance, put
from roadworthy.environment.components import GetTensor
from roadworthy.environment.source import EnvironmentSource, results
from roadworthy.inspection.snapshot import Snapshot
from roadworthy.spec.port import Array
from roadworthy.spec.tolerance import INFLUENCE

# No fraction of a period: a sine of the nudged value must not come out the same.
NUDGE = 0.6180339887
# Beyond the limits that code compares with, in both directions.
FAR = 1e6

Results = list[torch.Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Suspect:
    """A tensor that moves and was read, at a line; `rest` marks the elements in question."""

    tensor: torch.Tensor
    where: str = ""
    rest: Array | None = None


class Trials:
    """Trials from one moment of an environment, which is put back after each of them.

    `also` are further tensors that count as results.
    """

    def __init__(
        self,
        source: EnvironmentSource,
        moment: Snapshot,
        constants: Sequence[float] = (),
        also: Sequence[GetTensor] = (),
    ) -> None:
        self._source = source
        self._constants = constants
        self._also = also
        # Once for all trials: each begins where the last one was put back to.
        self._snapshot = moment
        # Whether large arrays, the meshes of a simulator, are put back after each trial too.
        self._thorough = False

    def culprits(self, half: str, suspects: Sequence[Suspect]) -> list[Suspect]:
        """Those that matter. All are tried at once; only where that shows something, by halves."""
        if not suspects or not self.matter(half, suspects, wide=True):
            return []
        if len(suspects) == 1:
            return list(suspects)
        middle = len(suspects) // 2
        return [*self.culprits(half, suspects[:middle]), *self.culprits(half, suspects[middle:])]

    def matter(self, half: str, suspects: Sequence[Suspect], *, wide: bool = False) -> bool:
        """Whether other values of the suspects give other results.

        `wide` asks in other circumstances too: what stands in for a ray that missed matters only
        where one does.
        """
        if self._differ(half, suspects, None, self._constants):
            return True
        return any(
            self._differ(half, suspects, each, ()) for each in (CIRCUMSTANCES if wide else ())
        )

    def _differ(
        self,
        half: str,
        suspects: Sequence[Suspect],
        circumstance: Circumstance | None,
        constants: Sequence[float],
    ) -> bool:
        """Whether other values give other results in one circumstance.

        To look at ten megabytes of meshes takes longer than a trial, and a half of a step does not
        write there. That it did not is looked at once, after the trials; if it did, what they said
        does not count, and from then on everything is put back after each.
        """
        found = self._tried(half, suspects, circumstance, constants)
        if self._thorough or not self._snapshot.is_large_changed():
            return found
        self._thorough = True
        self._snapshot.restore()
        return self._tried(half, suspects, circumstance, constants)

    def _tried(
        self,
        half: str,
        suspects: Sequence[Suspect],
        circumstance: Circumstance | None,
        constants: Sequence[float],
    ) -> bool:
        def arranged() -> bool:
            return circumstance is None or put(
                self._source, circumstance, [each.tensor for each in suspects]
            )

        try:
            plain = self._outcome(half, arranged)
        except Exception:
            return False  # these circumstances break the environment, whatever the suspects are
        if plain is None or not same(plain, plain):
            return False
        for values in zip_longest(*(_others(each.tensor, constants) for each in suspects)):

            def nudged(values: tuple[torch.Tensor | None, ...] = values) -> bool:
                possible = arranged()
                for suspect, other in zip(suspects, values, strict=True):
                    if other is not None:
                        _write(suspect, other)
                return possible

            try:
                got = self._outcome(half, nudged)
            except Exception:  # another value breaks the environment: it certainly matters
                return True
            if got is not None and not same(plain, got):
                return True
        return False

    def _outcome(self, half: str, arrange: Callable[[], bool]) -> Results | None:
        """The results of one half of the step after `arrange`; None where that was not possible."""
        source = self._source
        try:
            with torch.inference_mode():
                if not arrange():
                    return None
                _seed()
                outputs, memory = results(source, getattr(source, half), torch.Tensor.clone)
                more = (read().clone() for read in self._also)
                return [*outputs.values(), *memory.values(), *more]
        finally:
            self._snapshot.restore(large=self._thorough)


def _seed() -> None:
    """What torch.manual_seed does, which asks every kind of device whether it is there."""
    torch.default_generator.manual_seed(0)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(0)


def tensor_matters(
    source: EnvironmentSource,
    half: str,
    tensor: torch.Tensor,
    rest: Array | None,
    also: Sequence[GetTensor] = (),
) -> bool:
    """Whether the results depend on one tensor, or on those of its elements that `rest` marks."""
    trials = Trials(source, Snapshot(*source.roots.values(), [tensor]), also=also)
    return trials.matter(half, [Suspect(tensor, rest=rest)])


def _write(suspect: Suspect, other: torch.Tensor) -> None:
    """Writes in place, so that every view of the tensor sees the other values too."""
    tensor, rest = suspect.tensor, suspect.rest
    if rest is not None and rest.shape == tuple(tensor.shape):
        other = torch.where(torch.from_numpy(rest).to(tensor.device), other, tensor)
    tensor.copy_(other)


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(INFLUENCE.close(a, b) for a, b in zip(one, other, strict=True))


def _others(tensor: torch.Tensor, constants: Sequence[float]) -> Iterator[torch.Tensor]:
    """Other values: a little further, very far, and on both sides of the graph's constants."""
    if tensor.dtype == torch.bool:
        yield ~tensor
        yield torch.zeros_like(tensor)
        yield torch.ones_like(tensor)
        return
    if not tensor.is_floating_point():
        yield torch.where(tensor > 0, tensor - 1, tensor + 1).to(tensor.dtype)
    else:
        yield tensor + NUDGE
        yield -tensor
    yield torch.zeros_like(tensor)
    wild = [FAR, -FAR, *(each + shift for each in constants for shift in (0.0, 1.0, -1.0))]
    limit = 2.0**62 if tensor.is_floating_point() else float(torch.iinfo(tensor.dtype).max)
    for each in wild:
        if abs(each) <= limit and (each >= 0 or tensor.dtype != torch.uint8):
            yield torch.full_like(tensor, each)
