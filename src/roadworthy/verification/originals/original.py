"""The contract: what verification may ask of an original. Knows no PyTorch."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from roadworthy.errors import Finding
from roadworthy.runtime.policy import Policy
from roadworthy.spec.certificate import Check
from roadworthy.spec.port import Array
from roadworthy.spec.run import (
    Arrays,
    Choosing,
    Key,
    Run,
    Steppable,
    Values,
    draw_resets,
    outputs_of,
)
from roadworthy.spec.sampling import Sampling
from roadworthy.spec.signature import Signature
from roadworthy.spec.trace import Trace

TRACE_STEPS = 256
TRACE_ROWS = 2


class NoYardstick(Exception):
    """The graph cannot be run at these states: it is not the original that it should be."""


class TurningErrors:
    """How far rounding is from the exact value where something may turn, at some states.

    Only the yardstick that measured it looks inside."""


class Yardstick(Protocol):
    """The original as two pure functions of one step: PyTorch's float32, and the exact one.

    Both take the inputs and the memory before the step, for any rows that the signature allows,
    and give the outputs by port, the next memory and the logits behind each choice by keys of
    their own. All raise `NoYardstick` where the graph cannot be run.
    """

    def rounded(self, inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> Values:
        """One step in the policy's own precision, by PyTorch's own kernels."""

    def shaken(
        self, inputs: Mapping[str, Array], memory: Mapping[str, Array], *, ulps: int, seed: int
    ) -> Values:
        """As `rounded`, with every result that rounds moved by up to some units in the last
        place: where inputs that are moved are lost in a saturated layer, this is not."""

    def turned(
        self,
        inputs: Mapping[str, Array],
        memory: Mapping[str, Array],
        *,
        ulps: int,
        seed: int,
        errors: TurningErrors | None = None,
    ) -> Values:
        """As `rounded`, with what enters a choice, a sort or a rounding moved by some units in
        the last place: equal values come in another order. `errors` were measured at states close
        to these, each of which may come several times, one round behind the other."""

    def turning_errors(
        self, inputs: Mapping[str, Array], memory: Mapping[str, Array]
    ) -> TurningErrors | None:
        """The errors at these states, for `turned`; None where each call measures its own."""

    def exact(self, inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> Values | None:
        """The same step in float64; None where the graph cannot be run in it."""

    def work(self, inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> int:
        """The multiplications and additions of such a step, counted once; those of matrices and
        convolutions, which are nearly all."""

    @property
    def turning(self) -> bool:
        """Whether the policy chooses, sorts or rounds anywhere: else `turned` is `rounded`."""

    @property
    def smooth(self) -> bool:
        """Whether no little step of any value can make a large one of the results."""

    @property
    def quantities(self) -> frozenset[Key]:
        """The outputs that are whole numbers cut from floats, such as ticks of a motor: next to
        the right one there is a nearly right one, as with no choice."""

    @property
    def inexact(self) -> str:
        """Why there is no float64; empty where there is, or where nobody has asked yet."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mutant:
    """The original with one mistake made on purpose: one that equals an artifact names its
    mistake."""

    what: str
    hint: str
    where: str
    open: Callable[[Signature, int], AbstractContextManager[Steppable]]


@dataclass(frozen=True, slots=True, eq=False)
class TorchValue:
    """One value inside the original's graph, and the line of the user's code that it comes from."""

    value: Array
    where: str


class Original(abc.ABC):
    """What an artifact is made from and compared with: a module, a TorchRL policy, an environment.

    Three methods say how it is stepped. The others have an answer that is always right, and an
    original that knows more says more.
    """

    @property
    @abc.abstractmethod
    def rows(self) -> int | None:
        """The one number of rows it can be stepped with; None where any will do."""

    @abc.abstractmethod
    def draw(
        self,
        signature: Signature,
        rng: np.random.Generator,
        *,
        steps: int,
        rows: int,
        sampling: Sampling,
    ) -> Arrays:
        """Input values worth trying: port name → (steps, *shape)."""

    @abc.abstractmethod
    def open(self, signature: Signature, *, rows: int) -> AbstractContextManager[Steppable]:
        """The live thing, ready to step; it comes back as it was when the block ends."""

    def tried(self, signature: Signature, sampling: Sampling) -> Sampling:
        """The sampling without the corners on which this original has no answer."""
        return sampling

    def fresh_steps(
        self,
        signature: Signature,
        rng: np.random.Generator,
        *,
        steps: int,
        rows: int,
        sampling: Sampling,
    ) -> Run:
        """Steps that no trace has seen, with resets at which each row begins anew."""
        inputs = self.draw(signature, rng, steps=steps, rows=rows, sampling=sampling)
        life = sampling.life if steps > sampling.life else 0
        resets = draw_resets(signature, rng, steps=steps, rows=rows, life=life)
        return Run(inputs=inputs, resets=resets)

    def record(self, signature: Signature, *, seed: int, sampling: Sampling) -> Trace:
        """Golden steps: several episodes, resets in the middle, extreme values."""
        rows = self.rows or TRACE_ROWS
        rng = np.random.default_rng(seed)
        steps = sampling.steps(TRACE_STEPS, rows=rows)
        script = self.fresh_steps(signature, rng, steps=steps, rows=rows, sampling=sampling)
        with self.open(signature, rows=rows) as live:
            outputs = outputs_of(live, script)
        named = {port.name: outputs[port.name] for port in signature.outputs}
        return Trace(inputs=script.inputs, outputs=named, resets=script.resets)

    def open_choosing(self, signature: Signature, *, rows: int) -> AbstractContextManager[Choosing]:
        """As `open`, with the logits behind each choice, wherever in the original it is made."""
        from roadworthy.verification.originals.choosing import (
            watched,  # needs PyTorch, as the original does
        )

        return watched(self.open(signature, rows=rows))

    def yardstick(self, signature: Signature) -> Yardstick | None:
        """What an artifact's rounding is measured with; None where it cannot be had, and fixed
        tolerances must do."""
        return None

    def advisories(self, signature: Signature) -> Sequence[Finding]:
        """What is exported right, and may still not be meant."""
        return ()

    def mutants(self, recipe: Mapping[str, Any]) -> Iterator[Mutant]:
        """The likely mistakes, one after another; `recipe` is that of the bundle that failed."""
        return iter(())

    def weights(self, signature: Signature) -> Mapping[str, Array]:
        """Name → values of the matrices that an artifact must hold in some form."""
        return {}

    def graph_values(
        self, signature: Signature, inputs: Mapping[str, Array], memory: Mapping[str, Array]
    ) -> Mapping[str, TorchValue]:
        """One step node by node, under the names that an ONNX file of it uses; empty where the
        graphs cannot be laid beside each other."""
        return {}

    def extra_checks(self, policy: Policy) -> Sequence[Check]:
        """What only this kind of original can be asked: an environment lives on by itself."""
        return ()

    def caveats(self) -> Sequence[Finding]:
        """What to know if the artifact and this original do not agree."""
        return ()
