"""Keys of a TensorDict and the names of ports: `("agents", "obs")` is the port `agents_obs`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensordict import unravel_key

from roadworthy.adapters.torchrl.stage import NestedKey
from roadworthy.errors import Finding, UsageError, did_you_mean

NEXT = "next"


def port_name(key: NestedKey) -> str:
    """The port that a key becomes; TorchRL joins nested keys in the same way."""
    return key if isinstance(key, str) else "_".join(key)


def key_text(key: NestedKey) -> str:
    return repr(key)


def parts_of(key: NestedKey) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)


def provides(written: NestedKey, read: NestedKey) -> bool:
    """Whether what is written under one key is read under the other, or inside of it."""
    return parts_of(written)[: len(parts_of(read))] == parts_of(read)


def is_flag(key: NestedKey) -> bool:
    """Whether the key says which rows begin an episode: the runtime resets them instead."""
    return parts_of(key)[-1] == "is_init"


def following(key: NestedKey) -> NestedKey:
    """Where TorchRL keeps the value of `key` for the next step."""
    return (NEXT, *parts_of(key))


def colliding(keys: Iterable[NestedKey]) -> list[Finding]:
    """A finding for every two keys that become the same port."""
    seen: dict[str, NestedKey] = {}
    findings = []
    for key in dict.fromkeys(keys):
        other = seen.setdefault(port_name(key), key)
        if other != key:
            findings.append(
                Finding(
                    code="RW140",
                    where=port_name(key),
                    what=f"the keys {key_text(other)} and {key_text(key)} become the same port",
                    hint=f"rename one of them in the policy, such as {key_text(_renamed(key))}",
                )
            )
    return findings


def chosen(outputs: Sequence[object], known: Sequence[NestedKey]) -> list[NestedKey]:
    """The keys that `outputs=` names, each as a key or as the name of its port."""
    by_name = {port_name(key): key for key in known}
    found, findings = [], []
    for each in outputs:
        key = by_name.get(each) if isinstance(each, str) else None
        if key is None and isinstance(each, tuple) and unravel_key(each) in known:
            key = unravel_key(each)
        if key is None:
            hint = did_you_mean(str(each), by_name)
            findings.append(
                Finding(code="RW146", where="outputs", what=f"no output {each!r}", hint=hint)
            )
        else:
            found.append(key)
    if findings:
        raise UsageError(findings=findings)
    return found


def _renamed(key: NestedKey) -> NestedKey:
    *parents, last = parts_of(key)
    return (*parents, f"{last}_2") if parents else f"{last}_2"
