"""Which keys enter, which leave and which persist, read off the parts of a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from roadworthy.adapters.torchrl.heads import Head
from roadworthy.adapters.torchrl.keys import (
    NEXT,
    chosen,
    following,
    is_flag,
    parts_of,
    port_name,
    provides,
)
from roadworthy.adapters.torchrl.part import Part
from roadworthy.adapters.torchrl.parts import needed
from roadworthy.adapters.torchrl.stage import NestedKey
from roadworthy.adapters.torchrl.step import Wiring
from roadworthy.errors import Finding, did_you_mean


@dataclass(frozen=True, slots=True)
class Plan:
    """The ports of a policy; `findings` is what stands in the way."""

    parts: list[Part]
    inputs: list[NestedKey]
    outputs: list[NestedKey]
    memory: dict[str, tuple[NestedKey, NestedKey]]
    initial: dict[str, Tensor]
    flags: list[NestedKey]
    findings: list[Finding] = field(default_factory=list)

    def wiring(self, groups: Mapping[NestedKey, tuple[int, ...]]) -> Wiring:
        return Wiring(
            inputs={port_name(key): key for key in self.inputs},
            outputs={port_name(key): key for key in self.outputs},
            memory=self.memory,
            flags=tuple(self.flags),
            groups=groups,
        )


def planned(
    parts: list[Part],
    outputs: Sequence[Any] | None,
    env: Any,
    declared: Mapping[str, Any],
    *,
    whole: bool,
) -> Plan:
    """The plan for these parts, in order; unless `whole`, without those that nothing needs."""
    findings: list[Finding] = []
    results = _outputs(outputs, parts, env, findings)
    if not whole:
        kept = [*results, *(after for part in parts for _, after in part.memory.values())]
        parts = needed(parts, [*kept, *_following(parts, declared)])
    read, written = _keys(parts)
    memory = {name: pair for part in parts for name, pair in part.memory.items()}
    initial = {name: value for part in parts for name, value in part.initial.items()}
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
    asked = [key for key in read if key not in persisting and following(key) in written]
    findings += [_asked_memory(key) for key in asked]
    _score(parts, results)
    persisting |= set(asked)
    return Plan(
        parts=parts,
        inputs=[key for key in read if key not in persisting and not is_flag(key)],
        outputs=results,
        memory=memory,
        initial=initial,
        flags=[key for key in read if is_flag(key)],
        findings=findings,
    )


def read_keys(parts: Sequence[Part]) -> list[NestedKey]:
    """What an environment must give: neither flags nor what persists."""
    persisting = {before for part in parts for before, _ in part.memory.values()}
    return [key for key in _keys(parts)[0] if key not in persisting and not is_flag(key)]


def persisting_names(parts: Sequence[Part]) -> set[str]:
    """The names of what the parts hand to their own next step."""
    read, written = _keys(parts)
    own = {name for part in parts for name in part.memory}
    return own | {port_name(key) for key in read if following(key) in written}


def action_key(parts: Sequence[Part]) -> NestedKey:
    """The key that the policy acts with."""
    written = _keys(parts)[1]
    return next((key for key in reversed(written) if parts_of(key)[-1] == "action"), "action")


def _keys(parts: Sequence[Part]) -> tuple[list[NestedKey], list[NestedKey]]:
    """The keys that must be given, and those that the parts write."""
    read: list[NestedKey] = []
    written: list[NestedKey] = []
    for part in parts:
        read += [
            key
            for key in part.in_keys
            if key not in read and not any(provides(each, key) for each in written)
        ]
        written += [key for key in part.out_keys if key not in written and key != "_"]
    return read, written


def _following(parts: Sequence[Part], declared: Mapping[str, Any]) -> list[NestedKey]:
    """Where the parts write what persists: under the next step, or where the user says so."""
    written = _keys(parts)[1]
    return [key for key in written if parts_of(key)[0] == NEXT or port_name(key) in declared]


def _pair(key: NestedKey | None, written: Sequence[NestedKey]) -> Any:
    if key is None:
        return None
    return next(((key, after) for after in (following(key), key) if after in written), None)


def _outputs(
    outputs: Sequence[Any] | None, parts: Sequence[Part], env: Any, findings: list[Finding]
) -> list[NestedKey]:
    written = _keys(parts)[1]
    persisting = {after for part in parts for _, after in part.memory.values()}
    known = [key for key in written if key not in persisting and parts_of(key)[0] != NEXT]
    if outputs is not None:
        return chosen(outputs, known)
    named = [] if env is None else [key for key in env.action_keys if key in known]
    actions = named or [key for key in known if parts_of(key)[-1] == "action"] or known
    if named or len(actions) == 1 or (actions and parts_of(actions[0])[-1] == "action"):
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


def _score(parts: Sequence[Part], outputs: Sequence[NestedKey]) -> None:
    """Log-probabilities are computed only where they are asked for."""
    for part in parts:
        if isinstance(part, Head) and part.module.return_log_prob:
            part.scored = any(key in outputs for key in part.module.log_prob_keys)


def _asked_memory(key: NestedKey) -> Finding:
    name = port_name(key)
    return Finding(
        code="RW145",
        where=name,
        what=f"the policy reads {key!r} and writes {following(key)!r}: it persists, and nothing "
        "says where it starts",
        hint=f"memory={{{name!r}: torch.zeros(1, …)}}, the value of one row at a reset",
    )


def _unknown_memory(
    name: str, read: Mapping[str, NestedKey], written: Sequence[NestedKey]
) -> Finding:
    if name in read:
        what = (
            f"the policy reads {read[name]!r}, but writes neither it nor {following(read[name])!r}"
        )
        return Finding(code="RW145", where=name, what=what, hint="give it in the example instead")
    return Finding(
        code="RW145", where=name, what="the policy reads no such key", hint=did_you_mean(name, read)
    )
