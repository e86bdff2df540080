"""Keys of a TensorDict and the names of ports: `("agents", "obs")` is the port `agents_obs`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensordict import unravel_key

from roadworthy.errors import Finding, UsageError, did_you_mean

# What tensordict calls a nested key: "obs", or ("agents", "obs").
NestedKey = str | tuple[str, ...]
NEXT = "next"


def key_path(key: NestedKey) -> tuple[str, ...]:
    """The names from the outermost TensorDict to the value."""
    return (key,) if isinstance(key, str) else tuple(key)


def is_within(key: NestedKey, parent: NestedKey) -> bool:
    """Whether `key` is `parent` itself, or lies in the TensorDict under it."""
    return key_path(key)[: len(key_path(parent))] == key_path(parent)


def next_key(key: NestedKey) -> NestedKey:
    """The key under which TorchRL keeps the value of `key` for the next step."""
    return (NEXT, *key_path(key))


def is_reset_flag(key: NestedKey) -> bool:
    """Whether the key says which rows begin an episode: the runtime resets them instead."""
    return key_path(key)[-1] == "is_init"


def port_name(key: NestedKey) -> str:
    """The port that a key becomes; TorchRL joins nested keys in the same way."""
    return "_".join(key_path(key))


def find_collisions(keys: Iterable[NestedKey]) -> list[Finding]:
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
                    what=f"the keys {other!r} and {key!r} become the same port",
                    hint=f"rename one of them in the policy, such as {_renamed(key)!r}",
                )
            )
    return findings


def keys_of_outputs(outputs: Sequence[object], known: Sequence[NestedKey]) -> list[NestedKey]:
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
    *parents, last = key_path(key)
    return (*parents, f"{last}_2") if parents else f"{last}_2"
