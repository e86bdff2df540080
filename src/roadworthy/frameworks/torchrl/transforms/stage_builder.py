"""From the policy to the sensors, and from the policy to the motors: which stages are needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tensordict import unravel_key
from torch import Tensor

from roadworthy.errors import ExportError, Finding
from roadworthy.frameworks.torchrl.keys import NestedKey
from roadworthy.frameworks.torchrl.stage import Stage, TransformStage
from roadworthy.frameworks.torchrl.transforms import discrete, memory, pixels, scaling, shapes
from roadworthy.frameworks.torchrl.transforms.catalogue import Entry
from roadworthy.frameworks.torchrl.transforms.chain import (
    LeftOut,
    TransformChain,
    copy_transforms,
    left_out,
)
from roadworthy.frameworks.torchrl.transforms.key_rule import KeyRule, PlacedTransform, RuleBuilder

OBSERVATION: Mapping[str, RuleBuilder] = {
    **memory.OBSERVATION, **pixels.OBSERVATION, **scaling.OBSERVATION, **shapes.OBSERVATION,
}  # fmt: skip
ACTION: Mapping[str, RuleBuilder] = {**discrete.ACTION, **scaling.ACTION, **shapes.ACTION}
# Done twice to an action, these do nothing more.
IDEMPOTENT = {"ClipTransform", "DTypeCastTransform", "DeviceCastTransform", "DoubleToFloat"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TransformStages:
    """What the transforms of an environment become.

    observation  in front of the policy, in order
    action       behind the policy, in order: each transform inverted, the last one first
    inputs       the keys that the bare environment gives, in the order in which they are needed
    outputs      the keys of the actions that the bare environment takes
    primed       keys that the policy reads and that start an episode with this value (one row);
                 the policy may write the next value under ("next", key)
    left_out     the other transforms, by name
    """

    observation: tuple[Stage, ...] = ()
    action: tuple[Stage, ...] = ()
    inputs: tuple[NestedKey, ...] = ()
    outputs: tuple[NestedKey, ...] = ()
    primed: Mapping[NestedKey, Tensor] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Built:
    """A stage, and which transform of the chain it comes from."""

    index: int
    stage: TransformStage


class StageBuilder:
    """Walks a chain twice: from the policy to the sensors, and from the policy to the motors."""

    def __init__(
        self,
        chain: TransformChain,
        entries: list[Entry],
        in_keys: list[NestedKey],
        action_key: NestedKey,
    ) -> None:
        self.chain = chain
        self.entries = entries
        self.in_keys = in_keys
        self.action_key = action_key
        self.copies = copy_transforms(chain)
        self.findings: list[Finding] = []
        # What fails unexpectedly may do so only because of a finding.
        self.consequences: list[Finding] = []
        self.primed: dict[NestedKey, Tensor] = {}

    def stages(self) -> TransformStages:
        """The stages of both walks; raises all findings at once."""
        observation, inputs = self._observation()
        action, outputs = self._action()
        self._refuse_double_steps(observation, action)
        if self.findings or self.consequences:
            raise ExportError(findings=self.findings or self.consequences)
        used = {built.index for built in (*observation, *action)}
        return TransformStages(
            observation=_with_unique_memory(observation),
            action=_with_unique_memory(action),
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            primed=self.primed,
            left_out=tuple(left_out(self.chain, self.entries, used, set(self.primed))),
        )

    def _observation(self) -> tuple[list[_Built], list[NestedKey]]:
        """The stages that the policy needs, found backwards, and the keys that remain open."""
        needed = list(dict.fromkeys(self.in_keys))
        built: list[_Built] = []
        for index in reversed(range(len(self.entries))):
            if self.entries[index].group == "left out":
                self._collect(index, partial(self._refuse_reading, index, needed))
                continue
            for rule in reversed(self._rules(OBSERVATION, index)):
                needed = self._needed_before(rule, index, needed, built)
        self._refuse_rewards(built, needed)
        return built[::-1], needed

    def _needed_before(
        self, rule: KeyRule, index: int, needed: list[NestedKey], built: list[_Built]
    ) -> list[NestedKey]:
        """What is needed before a rule, so that `needed` is there after it."""
        written = [key for key in rule.writes if key in needed]
        for key in needed:
            if key not in rule.writes and rule.removes(key):
                self._report_removed(index, key)
        if not written:
            return needed
        primed = rule.primed
        if primed is not None:
            self._collect(index, lambda: self.primed.update({written[0]: primed()}))
            return [key for key in needed if key not in written]
        self._build(rule, index, built)
        position = needed.index(written[0])
        rest = [key for key in needed if key not in written]
        return list(dict.fromkeys([*rest[:position], *rule.reads, *rest[position:]]))

    def _action(self) -> tuple[list[_Built], list[NestedKey]]:
        """The stages from the policy's action to those that the environment takes."""
        available, current = {self.action_key}, [self.action_key]
        reached: list[tuple[int, KeyRule]] = []
        for index in reversed(range(len(self.entries))):
            for rule in self._rules(ACTION, index):
                if set(rule.reads) <= available:
                    reached.append((index, rule))
                    available |= set(rule.writes)
                    current = [key for key in current if key not in rule.reads]
                    current += [key for key in rule.writes if key not in current]
        outputs = self._outputs(available, current)
        needed, built = set(outputs), list[_Built]()
        for index, rule in reversed(reached):
            if needed & set(rule.writes):
                needed = needed - set(rule.writes) | set(rule.reads)
                self._build(rule, index, built)
        return built[::-1], outputs

    def _outputs(self, available: set[NestedKey], current: list[NestedKey]) -> list[NestedKey]:
        """The keys that the environment takes; without one, what the action has become."""
        if self.chain.base is None:
            return current
        # The environment would remember its action_keys if it were asked for them.
        spec = self.chain.base.input_spec["full_action_spec"]
        taken = [unravel_key(key) for key in spec.keys(True, True)]
        outputs = [key for key in taken if key in available]
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

    def _rules(self, builders: Mapping[str, RuleBuilder], index: int) -> list[KeyRule]:
        """The rules of a transform in one direction, in the order in which TorchRL applies them."""
        base = self.chain.base
        placed = PlacedTransform(
            transform=self.copies.transforms[index],
            where=self.chain.where(index),
            batch_size=tuple(base.batch_size) if base is not None else (),
            in_environment=base is not None,
        )
        builder = builders.get(placed.name)
        found: list[KeyRule] = []
        if builder is not None:
            self._collect(index, lambda: found.extend(builder(placed)))
        return found

    def _build(self, rule: KeyRule, index: int, built: list[_Built]) -> None:
        """Appends the stage of a rule to `built`."""
        name = self.chain.name(index)
        self._collect(index, lambda: built.append(_Built(index, rule.stage(name))))

    def _collect(self, index: int, action: Callable[[], object]) -> None:
        """Runs what may be refused, and keeps the reasons for later."""
        try:
            action()
        except ExportError as error:
            self.findings.extend(f for f in error.findings if f not in self.findings)
        except Exception as error:  # of TorchRL, which finds keys and shapes when it is asked
            lines = str(error).splitlines() or [""]
            what = f"{self.chain.name(index)} cannot be read: {type(error).__name__}: {lines[0]}"
            hint = "check that env.rollout(2) runs"
            self.consequences.append(self.chain.finding(index, what, hint=hint, code="RW150"))

    def _report(self, index: int, what: str, *, hint: str, code: str) -> None:
        """Adds a finding about a transform, once."""
        finding = self.chain.finding(index, what, hint=hint, code=code)
        if finding not in self.findings:
            self.findings.append(finding)

    def _report_removed(self, index: int, key: NestedKey) -> None:
        self._report(
            index,
            f"{key!r} is needed, and {self.chain.name(index)} removes it",
            hint="keep the key, or check the in_keys of the policy",
            code="RW152",
        )

    def _refuse_reading(self, index: int, needed: list[NestedKey]) -> None:
        """A transform that is left out may write nothing that the policy reads."""
        read = [key for key in _keys_written(self.copies.transforms[index]) if key in needed]
        if read:
            self._report(
                index,
                f"the policy reads {read[0]!r}, which {self.chain.name(index)} writes in training "
                "only",
                hint=f"train a policy that does not read {read[0]!r}",
                code="RW152",
            )

    def _refuse_rewards(self, built: list[_Built], needed: list[NestedKey]) -> None:
        """A reward that a transform turns into an observation is missing at every reset."""
        base = self.chain.base
        spec = base.output_spec["full_reward_spec"].keys(True, True) if base is not None else []
        rewards = {unravel_key(key) for key in spec} or {"reward"}
        for each in built:
            stage = each.stage
            read = [key for key in stage.in_keys if key in rewards and key in needed]
            if read:
                self._report(
                    each.index,
                    f"{stage.name} makes {stage.out_keys[0]!r} from the reward {read[0]!r}, which "
                    "a deployed policy does not get",
                    hint=f"train a policy that does not read {stage.out_keys[0]!r}",
                    code="RW152",
                )

    def _refuse_double_steps(self, observation: list[_Built], action: list[_Built]) -> None:
        """TorchRL repeats a step through all transforms before the one that asks for it."""
        remembering = [each for each in observation if each.stage.memory]
        changing = [each for each in action if each.stage.name not in IDEMPOTENT]
        for index, transform in enumerate(self.chain.transforms):
            name = self.chain.name(index)
            if name == "FrameSkipTransform" and transform.frame_skip > 1:
                repeated = [each for each in (*remembering, *changing) if each.index < index]
            elif name == "NoopResetEnv":
                repeated = [each for each in remembering if each.index < index]
            else:
                continue
            if repeated:
                first = repeated[0].stage.name
                self._report(
                    index,
                    f"{name} stands behind {first}, so TorchRL runs {first} once more for every "
                    "step that it adds",
                    hint=f"put {name} first in the Compose, and train with that",
                    code="RW153",
                )


def _keys_written(transform: Any) -> list[NestedKey]:
    """The keys that a transform which is left out writes."""
    keys = list(transform.out_keys or [])
    keys += [
        getattr(transform, name) for name in ("eol_key", "lives_key") if hasattr(transform, name)
    ]
    primers = getattr(transform, "primers", None)
    return [unravel_key(key) for key in [*keys, *(primers.keys(True, True) if primers else [])]]


def _with_unique_memory(built: list[_Built]) -> tuple[Stage, ...]:
    """The stages, with no two memories of one name."""
    taken: set[str] = set()
    result = []
    for each in built:
        names = []
        for name in each.stage.memory:
            unique, count = name, 1
            while unique in taken:
                count += 1
                unique = f"{name}_{count}"
            taken.add(unique)
            names.append(unique)
        result.append(each.stage.with_memory_names(names))
    return tuple(result)
