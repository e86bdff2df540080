"""What TorchRL's specs say: example values, limits, and what an action means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from tensordict import TensorDictBase, unravel_key
from torch import Tensor, nn
from torchrl.data import Binary, Bounded, Categorical, Composite, MultiCategorical, OneHot

from roadworthy.errors import Finding, UsageError
from roadworthy.frameworks.torchrl.keys import NestedKey, key_path, port_name
from roadworthy.spec.port import About, compact, freeze
from roadworthy.spec.signature import Action

# Limits of single elements are worth their space in a manifest; those of pixels are not.
MOST_LIMITS = 256


def examples(
    keys: Sequence[NestedKey], example: Any, env: Any
) -> tuple[dict[NestedKey, Tensor], list[Finding]]:
    """A value with a batch axis for each key, from the example or from the environment's spec."""
    given = {} if example is None else _given(example)
    found: dict[NestedKey, Tensor] = {}
    findings = []
    for key in keys:
        value = given.get(key, given.get(port_name(key)))
        spec = None if env is None else _leaf(env.observation_spec, key)
        if value is not None:
            found[key] = torch.as_tensor(value)
        elif spec is not None:
            row = spec.shape[len(env.batch_size) :]
            found[key] = torch.zeros((1, *row), dtype=spec.dtype)
        else:
            findings.append(
                Finding(
                    code="RW144",
                    where=port_name(key),
                    what=f"the policy reads {key!r}, and nothing says what it looks like",
                    hint=f"example={{{port_name(key)!r}: torch.zeros(1, …)}}, or env=your_env",
                )
            )
    return found, findings


def groups(keys: Sequence[NestedKey], example: Any, env: Any) -> dict[NestedKey, int]:
    """Nested TensorDicts that have batch axes of their own, and how many."""
    found: dict[NestedKey, int] = {}
    for key in keys:
        parents = key_path(key)[:-1]
        for depth in range(1, len(parents) + 1):
            owner = unravel_key(parents[:depth])
            axes = _own_axes(owner, example, env)
            if axes:
                found[owner] = axes
    return found


def _own_axes(owner: NestedKey, example: Any, env: Any) -> int:
    if isinstance(example, TensorDictBase):
        inner = example.get(owner, None)
        return 0 if inner is None else int(inner.batch_dims - example.batch_dims)
    spec = None if env is None else _leaf(env.observation_spec, owner)
    return 0 if spec is None else len(spec.shape) - len(env.batch_size)


def about(spec: Any) -> About:
    """The limits that a spec states for one row."""
    if isinstance(spec, Bounded):
        low, high = spec.space.low, spec.space.high
        if bool((low >= high).any()):
            return About()
        sides = _limit(low), _limit(high)
        return About() if None in sides else About(low=sides[0], high=sides[1])
    if isinstance(spec, (MultiCategorical, Binary, OneHot)) or not isinstance(spec, Categorical):
        return About()
    return About(low=0, high=int(spec.space.n) - 1) if int(spec.space.n) > 1 else About()


def merged(stated: Mapping[str, About], given: Mapping[str, About]) -> dict[str, About]:
    """What the specs state about each port, and over it, field by field, what the user says."""
    found = dict(stated)
    for name, each in given.items():
        over = found.get(name, About())
        if over.noise and each.noise and each.noise != over.noise:
            raise UsageError(
                f"the policy draws {over.noise} noise, got About(noise={each.noise!r})",
                where=f"about {name!r}",
                hint="leave `noise` out: the policy says which it needs",
            )
        said = {field: getattr(each, field) for field in About.__slots__}
        found[name] = replace(over, **{k: v for k, v in said.items() if v not in ("", (), None)})
    return found


def meaning(
    output: str, spec: Any, table: Sequence[str | int], given: Mapping[str, About]
) -> Action | None:
    """What the numbers on the action port mean, where the spec says so, `given` limits first."""
    if isinstance(spec, OneHot):
        return None
    if isinstance(spec, MultiCategorical):
        sizes = tuple(int(each) for each in spec.nvec.reshape(-1))
        return Action(output=output, kind="multi_discrete", sizes=sizes)
    if isinstance(spec, Binary):
        return None
    if isinstance(spec, Categorical):
        sizes = (int(spec.space.n),)
        return Action(output=output, kind="discrete", sizes=sizes, table=tuple(table))
    if isinstance(spec, Bounded):
        limits = merged({output: about(spec)}, given)[output]
        return Action(output=output, kind="continuous", low=limits.low, high=limits.high)
    return None


def one_hot_note(spec: Any) -> str:
    """A description for a port that carries a one-hot vector."""
    if not isinstance(spec, OneHot):
        return ""
    return f"one-hot over {int(spec.shape[-1])} actions; action=rw.Argmax() exports the index"


def abouts(keys: Sequence[NestedKey], env: Any) -> dict[str, About]:
    """The limits of the inputs, where an environment states them."""
    if env is None:
        return {}
    found = {key: _unbatched(_leaf(env.observation_spec, key), env) for key in keys}
    return {port_name(key): about(spec) for key, spec in found.items() if spec is not None}


def about_action(port: str, spec: Any, steps: Any) -> dict[str, About]:
    """What to say about the action port; action steps say themselves what they do."""
    if spec is None or steps:
        return {}
    return {port: About(description=one_hot_note(spec)) if one_hot_note(spec) else about(spec)}


def action_spec(policy: nn.Module, key: NestedKey, raw: Any, env: Any) -> Any:
    """The spec of the action: that of the raw environment where transforms lead to it, else the
    policy's own, else the environment's; None where nobody states one."""
    if raw is not None:
        return _unbatched(_leaf(raw.full_action_spec, key), raw)
    own = _own_spec(policy, key)
    if own is None and env is not None:
        return _unbatched(_leaf(env.full_action_spec, key), env)
    return own


def _own_spec(policy: nn.Module, key: NestedKey) -> Any:
    found = None
    for module in policy.modules():
        spec: Any = vars(module).get("_spec")
        inner = _leaf(spec, key) if isinstance(spec, Composite) else None
        found = found if inner is None else _without(inner, len(spec.shape))
    return found


def _unbatched(spec: Any, env: Any) -> Any:
    return None if spec is None else _without(spec, len(env.batch_size))


def _without(spec: Any, axes: int) -> Any:
    """The spec of one row."""
    for _ in range(axes):
        spec = spec[0]
    return spec


def _leaf(spec: Any, key: NestedKey) -> Any:
    if not isinstance(spec, Composite):
        return None
    return spec.get(key, None) if key in _all_keys(spec) else None


def _all_keys(spec: Composite) -> list[NestedKey]:
    return [unravel_key(key) for key in spec.keys(include_nested=True, leaves_only=False)]


def _limit(limit: Tensor) -> Any:
    """The limit of one row, one number where all are equal; None where it says nothing."""
    numbers = limit.double()
    if bool((numbers.abs() >= torch.finfo(torch.float32).max).all()):
        return None
    if limit.numel() > MOST_LIMITS and not bool((limit == limit.reshape(-1)[0]).all()):
        return None
    return compact(freeze(limit.tolist()))


def _given(example: Any) -> dict[NestedKey, Any]:
    if isinstance(example, TensorDictBase):
        rows = example if example.batch_dims == 1 else example.reshape(-1)
        return {unravel_key(key): value for key, value in rows.items(True, True)}
    if isinstance(example, Mapping):
        return dict(_flat((), example))
    raise UsageError(
        f"the example is a {type(example).__name__}, expected a TensorDict or a dict",
        hint="example=env.reset(), or example={'observation': torch.zeros(1, 4)}",
    )


def _flat(parents: tuple[str, ...], value: Mapping[Any, Any]) -> Iterator[tuple[NestedKey, Any]]:
    for key, each in value.items():
        path = (*parents, *key_path(key))
        if isinstance(each, Mapping):
            yield from _flat(path, each)
        else:
            yield unravel_key(path), each
