"""Which keys enter, which leave and which persist, read off the stages of a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from roadworthy.errors import Finding, did_you_mean
from roadworthy.frameworks.torchrl.distributions import DistributionHead
from roadworthy.frameworks.torchrl.keys import (
    NEXT,
    NestedKey,
    is_reset_flag,
    is_within,
    key_path,
    keys_of_outputs,
    next_key,
    port_name,
)
from roadworthy.frameworks.torchrl.stage import Stage, needed_stages
from roadworthy.frameworks.torchrl.step import Wiring


@dataclass(frozen=True, slots=True)
class PortPlan:
    """The ports of a policy; `findings` is what stands in the way."""

    stages: list[Stage]
    inputs: list[NestedKey]
    outputs: list[NestedKey]
    memory: dict[str, tuple[NestedKey, NestedKey]]
    initial: dict[str, Tensor]
    flags: list[NestedKey]
    begins: dict[str, NestedKey] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def wiring(self, groups: Mapping[NestedKey, int]) -> Wiring:
        """Which key is which port, with these nested TensorDicts."""
        return Wiring(
            inputs={port_name(key): key for key in self.inputs},
            outputs={port_name(key): key for key in self.outputs},
            memory=self.memory,
            flags=tuple(self.flags),
            begins=self.begins,
            groups=groups,
        )


def plan_ports(
    stages: list[Stage],
    outputs: Sequence[Any] | None,
    env: Any,
    declared: Mapping[str, Any],
    *,
    whole: bool,
) -> PortPlan:
    """The plan for these stages, in order; unless `whole`, without those that nothing needs."""
    findings: list[Finding] = []
    results = _outputs(outputs, stages, env, findings)
    if not whole:
        kept = [*results, *(after for stage in stages for _, after in stage.memory.values())]
        stages = needed_stages(stages, [*kept, *_keys_after(stages, declared)])
    read, written = _keys_read_and_written(stages)
    memory = {name: pair for stage in stages for name, pair in stage.memory.items()}
    initial = {name: value for stage in stages for name, value in stage.initial.items()}
    by_name = {port_name(key): key for key in read}
    for name, value in declared.items():
        initial[name] = value
        if name not in memory:
            pair = _pair(by_name.get(name), written)
            if pair is None:
                findings.append(_unknown_memory(name, by_name, written))
            else:
                memory[name] = pair
    persisting = {before for before, _ in memory.values()}
    undeclared = [key for key in read if key not in persisting and next_key(key) in written]
    findings += [_undeclared_memory(key) for key in undeclared]
    _request_log_probs(stages, results)
    persisting |= set(undeclared)
    flags = [key for key in read if is_reset_flag(key)]
    # A module that keeps its state in memory is reset with it; any other is told where it begins.
    told = [k for k in flags if any(k in s.in_keys for s in stages if not s.memory)]
    begins = {port_name(key): key for key in told}
    initial |= {name: torch.ones(1, 1, dtype=torch.bool) for name in begins}
    return PortPlan(
        stages=stages,
        inputs=[key for key in read if key not in persisting and not is_reset_flag(key)],
        outputs=results,
        memory=memory,
        initial=initial,
        flags=[key for key in flags if key not in told],
        begins=begins,
        findings=findings,
    )


def read_keys(stages: Sequence[Stage]) -> list[NestedKey]:
    """What an environment must give: neither flags nor what persists."""
    persisting = {before for stage in stages for before, _ in stage.memory.values()}
    return [
        key
        for key in _keys_read_and_written(stages)[0]
        if key not in persisting and not is_reset_flag(key)
    ]


def persisting_names(stages: Sequence[Stage]) -> set[str]:
    """The names of what the stages hand to their own next step."""
    read, written = _keys_read_and_written(stages)
    own = {name for stage in stages for name in stage.memory}
    return own | {port_name(key) for key in read if next_key(key) in written}


def action_key(stages: Sequence[Stage]) -> NestedKey:
    """The key that the policy acts with."""
    written = _keys_read_and_written(stages)[1]
    return next((key for key in reversed(written) if key_path(key)[-1] == "action"), "action")


def _keys_read_and_written(stages: Sequence[Stage]) -> tuple[list[NestedKey], list[NestedKey]]:
    """The keys that must be given, and those that the stages write."""
    read: list[NestedKey] = []
    written: list[NestedKey] = []
    for stage in stages:
        read += [
            key
            for key in stage.in_keys
            if key not in read and not any(is_within(each, key) for each in written)
        ]
        written += [key for key in stage.out_keys if key not in written and key != "_"]
    return read, written


def _keys_after(stages: Sequence[Stage], declared: Mapping[str, Any]) -> list[NestedKey]:
    """Where the stages write what persists: under the next step, or where the user says so."""
    written = _keys_read_and_written(stages)[1]
    return [key for key in written if key_path(key)[0] == NEXT or port_name(key) in declared]


def _pair(key: NestedKey | None, written: Sequence[NestedKey]) -> Any:
    if key is None:
        return None
    return next(((key, after) for after in (next_key(key), key) if after in written), None)


def _outputs(
    outputs: Sequence[Any] | None, stages: Sequence[Stage], env: Any, findings: list[Finding]
) -> list[NestedKey]:
    written = _keys_read_and_written(stages)[1]
    persisting = {after for stage in stages for _, after in stage.memory.values()}
    known = [key for key in written if key not in persisting and key_path(key)[0] != NEXT]
    if outputs is not None:
        return keys_of_outputs(outputs, known)
    named = [] if env is None else [key for key in env.action_keys if key in known]
    actions = named or [key for key in known if key_path(key)[-1] == "action"] or known
    if named or len(actions) == 1 or (actions and key_path(actions[0])[-1] == "action"):
        return actions
    findings.append(
        Finding(
            code="RW146",
            where="outputs",
            what=f"which of {', '.join(map(repr, known)) or 'no keys'} is the action?",
            hint=f"outputs=[{(known or ['action'])[-1]!r}]",
        )
    )
    return actions[:1] or ["action"]


def _request_log_probs(stages: Sequence[Stage], outputs: Sequence[NestedKey]) -> None:
    """Sets which heads compute log-probabilities: those whose key is an output."""
    for stage in stages:
        if isinstance(stage, DistributionHead) and stage.module.return_log_prob:
            stage.wants_log_prob = any(key in outputs for key in stage.module.log_prob_keys)


def _undeclared_memory(key: NestedKey) -> Finding:
    name = port_name(key)
    return Finding(
        code="RW145",
        where=name,
        what=f"the policy reads {key!r} and writes {next_key(key)!r}: it persists, and nothing "
        "says where it starts",
        hint=f"memory={{{name!r}: torch.zeros(1, …)}}, the value of one row at a reset",
    )


def _unknown_memory(
    name: str, read: Mapping[str, NestedKey], written: Sequence[NestedKey]
) -> Finding:
    if name in read:
        what = (
            f"the policy reads {read[name]!r}, but writes neither it nor {next_key(read[name])!r}"
        )
        return Finding(code="RW145", where=name, what=what, hint="give it in the example instead")
    return Finding(
        code="RW145", where=name, what="the policy reads no such key", hint=did_you_mean(name, read)
    )
