"""From the policy to the sensors, and from the policy to the motors: which pieces are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from torch import Tensor

from roadworthy.adapters.torchrl import discrete, memory_stages, pixels, scaling, shapes
from roadworthy.adapters.torchrl.catalogue import Entry
from roadworthy.adapters.torchrl.piece import Builder, Piece, Place, plain
from roadworthy.adapters.torchrl.stage import NestedKey, Stage
from roadworthy.adapters.torchrl.twin import Chain, twin_of
from roadworthy.errors import ExportError, Finding

OBSERVATION: Mapping[str, Builder] = {
    **memory_stages.OBSERVATION, **pixels.OBSERVATION, **scaling.OBSERVATION, **shapes.OBSERVATION,
}  # fmt: skip
ACTION: Mapping[str, Builder] = {**discrete.ACTION, **scaling.ACTION, **shapes.ACTION}
# Done twice to an action, these do nothing more.
SAME_TWICE = {"ClipTransform", "DTypeCastTransform", "DeviceCastTransform", "DoubleToFloat"}


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A transform that is no part of the policy, and what the loop around it must do."""

    name: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stages:
    """What the transforms of an environment become.

    observation  in front of the policy, in order
    action       behind the policy, in order: each transform inverted, the last one first
    inputs       the keys that the bare environment gives, in the order in which they are needed
    outputs      the keys of the actions that the bare environment takes
    primed       keys that the policy reads and that start an episode with this value (one row);
                 the policy may write the next value under ("next", key)
    left_out     the other transforms, by name
    """

    observation: tuple[Stage, ...]
    action: tuple[Stage, ...]
    inputs: tuple[NestedKey, ...]
    outputs: tuple[NestedKey, ...]
    primed: Mapping[NestedKey, Tensor] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    index: int
    stage: Stage


class Composer:
    """Walks a chain twice: from the policy to the sensors, and from the policy to the motors."""

    def __init__(
        self, chain: Chain, entries: list[Entry], in_keys: list[NestedKey], action_key: NestedKey
    ) -> None:
        self.chain = chain
        self.entries = entries
        self.in_keys = in_keys
        self.action_key = action_key
        self.twin = twin_of(chain)
        self.findings: list[Finding] = []
        # What fails unexpectedly may do so only because of a finding.
        self.consequences: list[Finding] = []
        self.primed: dict[NestedKey, Tensor] = {}

    def stages(self) -> Stages:
        observation, inputs = self._observation()
        action, outputs = self._action()
        self._refuse_double_steps(observation, action)
        if self.findings or self.consequences:
            raise ExportError(findings=self.findings or self.consequences)
        used = {kept.index for kept in (*observation, *action)}
        return Stages(
            observation=_named_apart(observation),
            action=_named_apart(action),
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            primed=self.primed,
            left_out=tuple(self._left_out(used)),
        )

    def _observation(self) -> tuple[list[_Kept], list[NestedKey]]:
        """The stages that the policy needs, found backwards, and the keys that remain open."""
        needed = list(dict.fromkeys(self.in_keys))
        kept: list[_Kept] = []
        for index in reversed(range(len(self.entries))):
            if self.entries[index].group == "left out":
                self._collect(index, partial(self._refuse_reading, index, needed))
                continue
            for piece in reversed(self._pieces(OBSERVATION, index)):
                needed = self._before(piece, index, needed, kept)
        self._refuse_rewards(kept, needed)
        return kept[::-1], needed

    def _before(
        self, piece: Piece, index: int, needed: list[NestedKey], kept: list[_Kept]
    ) -> list[NestedKey]:
        """What is needed before a piece, so that `needed` is there after it."""
        written = [key for key in piece.writes if key in needed]
        for key in needed:
            if key not in piece.writes and piece.removes(key):
                self._report_removed(index, key)
        if not written:
            return needed
        primed = piece.primed
        if primed is not None:
            self._collect(index, lambda: self.primed.update({written[0]: primed()}))
            return [key for key in needed if key not in written]
        self._keep(piece, index, kept)
        position = needed.index(written[0])
        rest = [key for key in needed if key not in written]
        return list(dict.fromkeys([*rest[:position], *piece.reads, *rest[position:]]))

    def _action(self) -> tuple[list[_Kept], list[NestedKey]]:
        """The stages from the policy's action to those that the environment takes."""
        live, current = {self.action_key}, [self.action_key]
        reached: list[tuple[int, Piece]] = []
        for index in reversed(range(len(self.entries))):
            for piece in self._pieces(ACTION, index):
                if set(piece.reads) <= live:
                    reached.append((index, piece))
                    live |= set(piece.writes)
                    current = [key for key in current if key not in piece.reads]
                    current += [key for key in piece.writes if key not in current]
        outputs = self._outputs(live, current)
        needed, kept = set(outputs), list[_Kept]()
        for index, piece in reversed(reached):
            if needed & set(piece.writes):
                needed = needed - set(piece.writes) | set(piece.reads)
                self._keep(piece, index, kept)
        return kept[::-1], outputs

    def _outputs(self, live: set[NestedKey], current: list[NestedKey]) -> list[NestedKey]:
        if self.chain.base is None:
            return current
        # The environment would remember its action_keys if it were asked for them.
        spec = self.chain.base.input_spec["full_action_spec"]
        taken = [plain(key) for key in spec.keys(True, True)]
        outputs = [key for key in taken if key in live]
        if not outputs:
            self.findings.append(
                Finding(
                    code="RW152",
                    what=f"the action {self.action_key!r} of the policy does not become "
                    f"{' or '.join(map(repr, taken))}, which the environment takes",
                    where="action_key",
                    hint="name the key that the policy writes, or add a RenameTransform",
                )
            )
        return outputs

    def _pieces(self, builders: Mapping[str, Builder], index: int) -> list[Piece]:
        place = self._place(index)
        builder = builders.get(place.name)
        found: list[Piece] = []
        if builder is not None:
            self._collect(index, lambda: found.extend(builder(place)))
        return found

    def _place(self, index: int) -> Place:
        base = self.chain.base
        return Place(
            transform=self.twin.transforms[index],
            where=self.chain.where(index),
            batch_size=tuple(base.batch_size) if base is not None else (),
            in_environment=base is not None,
        )

    def _keep(self, piece: Piece, index: int, kept: list[_Kept]) -> None:
        def make() -> None:
            assert piece.make is not None
            module, memory = piece.make()
            name = type(self.chain.transforms[index]).__name__
            kept.append(
                _Kept(
                    index,
                    Stage(
                        name=name, in_keys=piece.reads, out_keys=piece.writes,
                        module=module.eval(), memory=memory,
                    ),
                )
            )  # fmt: skip

        self._collect(index, make)

    def _collect(self, index: int, action: Callable[[], object]) -> None:
        """Runs what may be refused, and keeps the reasons for later."""
        try:
            action()
        except ExportError as error:
            self.findings.extend(f for f in error.findings if f not in self.findings)
        except Exception as error:  # of TorchRL, which finds keys and shapes when it is asked
            name = type(self.chain.transforms[index]).__name__
            lines = str(error).splitlines() or [""]
            self.consequences.append(
                Finding(
                    code="RW150",
                    what=f"{name} cannot be read: {type(error).__name__}: {lines[0]}",
                    where=self.chain.where(index),
                    hint="check that env.rollout(2) runs",
                )
            )

    def _refuse_reading(self, index: int, needed: list[NestedKey]) -> None:
        """A transform that is left out may write nothing that the policy reads."""
        read = [key for key in _written(self.twin.transforms[index]) if key in needed]
        if read:
            name = type(self.chain.transforms[index]).__name__
            self.findings.append(
                Finding(
                    code="RW152",
                    what=f"the policy reads {read[0]!r}, which {name} writes in training only",
                    where=self.chain.where(index),
                    hint=f"train a policy that does not read {read[0]!r}",
                )
            )

    def _refuse_rewards(self, kept: list[_Kept], needed: list[NestedKey]) -> None:
        """A reward that a transform turns into an observation is missing at every reset."""
        base = self.chain.base
        spec = base.output_spec["full_reward_spec"].keys(True, True) if base is not None else []
        rewards = {plain(key) for key in spec} or {"reward"}
        for each in kept:
            read = [key for key in each.stage.in_keys if key in rewards and key in needed]
            if read:
                self.findings.append(
                    Finding(
                        code="RW152",
                        what=f"{each.stage.name} makes {each.stage.out_keys[0]!r} from the reward "
                        f"{read[0]!r}, which a deployed policy does not get",
                        where=self.chain.where(each.index),
                        hint=f"train a policy that does not read {each.stage.out_keys[0]!r}",
                    )
                )

    def _report_removed(self, index: int, key: NestedKey) -> None:
        name = type(self.chain.transforms[index]).__name__
        finding = Finding(
            code="RW152",
            what=f"{key!r} is needed, and {name} removes it",
            where=self.chain.where(index),
            hint="keep the key, or check the in_keys of the policy",
        )
        if finding not in self.findings:
            self.findings.append(finding)

    def _refuse_double_steps(self, observation: list[_Kept], action: list[_Kept]) -> None:
        """TorchRL repeats a step through all transforms before the one that asks for it."""
        remembering = [each for each in observation if each.stage.memory]
        changing = [each for each in action if each.stage.name not in SAME_TWICE]
        for index, transform in enumerate(self.chain.transforms):
            name = type(transform).__name__
            if name == "FrameSkipTransform" and transform.frame_skip > 1:
                again = [each for each in (*remembering, *changing) if each.index < index]
            elif name == "NoopResetEnv":
                again = [each for each in remembering if each.index < index]
            else:
                continue
            if again:
                self._report_double_step(index, again[0].stage.name)

    def _report_double_step(self, index: int, repeated: str) -> None:
        name = type(self.chain.transforms[index]).__name__
        self.findings.append(
            Finding(
                code="RW153",
                what=f"{name} stands behind {repeated}, so TorchRL runs {repeated} once more "
                "for every step that it adds",
                where=self.chain.where(index),
                hint=f"put {name} first in the Compose, and train with that",
            )
        )

    def _left_out(self, used: set[int]) -> Iterator[LeftOut]:
        for index, (transform, entry) in enumerate(
            zip(self.chain.transforms, self.entries, strict=True)
        ):
            name = type(transform).__name__
            if entry.group == "left out":
                yield LeftOut(name, entry.advice(transform))
            elif index not in used and not self._primes(transform):
                yield LeftOut(name, "the policy reads nothing that it writes")
            if name == "StepCounter" and transform.max_steps is not None:
                yield LeftOut(name, f"apply in your loop: max_steps={transform.max_steps}")

    def _primes(self, transform: Any) -> bool:
        primers = getattr(transform, "primers", None)
        return primers is not None and any(key in self.primed for key in primers.keys(True, True))


def _written(transform: Any) -> list[NestedKey]:
    """The keys that a transform which is left out writes."""
    keys = list(transform.out_keys or [])
    keys += [
        getattr(transform, name) for name in ("eol_key", "lives_key") if hasattr(transform, name)
    ]
    primers = getattr(transform, "primers", None)
    return [plain(key) for key in [*keys, *(primers.keys(True, True) if primers else [])]]


def _named_apart(kept: list[_Kept]) -> tuple[Stage, ...]:
    """The stages, with no two memories of one name."""
    taken: set[str] = set()
    result = []
    for each in kept:
        memory = {}
        for name, value in each.stage.memory.items():
            unique, count = name, 1
            while unique in taken:
                count += 1
                unique = f"{name}_{count}"
            taken.add(unique)
            memory[unique] = value
        result.append(replace(each.stage, memory=memory))
    return tuple(result)
