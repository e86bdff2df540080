"""Policies around policies, as users would write them. `make check` shows it to mypy."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from roadworthy.runtime.policy import Policy
from roadworthy.runtime.protocol import PolicyLike, PolicyWrapper, action
from roadworthy.runtime.state import PolicyState
from roadworthy.spec.port import Array
from roadworthy.spec.signature import Signature


class Recorder(PolicyWrapper):
    """Keeps what went in and what came out."""

    def __init__(self, policy: PolicyLike) -> None:
        super().__init__(policy)
        self.steps: list[tuple[dict[str, Any], dict[str, Array]]] = []

    def step(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        outputs = super().step(inputs)
        self.steps.append((dict(inputs), outputs))
        return outputs


class Clamp(PolicyWrapper):
    """No action beyond the limit."""

    def __init__(self, policy: PolicyLike, limit: float) -> None:
        super().__init__(policy)
        self.limit = limit

    def step(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        name = self.signature.action_output
        outputs = super().step(inputs)
        return outputs | {name: np.clip(outputs[name], -self.limit, self.limit)}


class Slew(PolicyWrapper):
    """No action further than `most` from the last: a wrapper with a memory of its own."""

    def __init__(self, policy: PolicyLike, most: float) -> None:
        super().__init__(policy)
        self.most = most
        self.last: Array | None = None

    def step(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        name = self.signature.action_output
        outputs = super().step(inputs)
        last = np.zeros_like(outputs[name]) if self.last is None else self.last
        self.last = last + np.clip(outputs[name] - last, -self.most, self.most)
        return outputs | {name: self.last.copy()}

    def reset(self, mask: Any = None, *, seed: int | None = None) -> None:
        super().reset(mask, seed=seed)
        if self.last is not None:
            self.last[... if mask is None else mask] = 0

    def state(self) -> PolicyState:
        inner = super().state()
        own = {} if self.last is None else {"slew.last": self.last.copy()}
        return dataclasses.replace(inner, extra={**inner.extra, **own})

    def restore(self, state: PolicyState) -> None:
        extra = dict(state.extra)
        last = extra.pop("slew.last", None)
        super().restore(dataclasses.replace(state, extra=extra))
        self.last = None if last is None else last.copy()


class Halved:
    """A policy that inherits nothing: the protocol alone says what it must have."""

    def __init__(self, policy: PolicyLike) -> None:
        self.inner = policy

    @property
    def signature(self) -> Signature:
        return self.inner.signature

    @property
    def rows(self) -> int:
        return self.inner.rows

    @property
    def memory(self) -> dict[str, Array]:
        return self.inner.memory

    def set_memory(self, values: Mapping[str, Any], mask: Any = None) -> None:
        self.inner.set_memory(values, mask)

    def step(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value / 2 for name, value in self.inner.step(inputs).items()}

    def act(self, obs: Any) -> Any:
        return action(self, obs)

    def reset(self, mask: Any = None, *, seed: int | None = None) -> None:
        self.inner.reset(mask, seed=seed)

    def state(self) -> PolicyState:
        return self.inner.state()

    def restore(self, state: PolicyState) -> None:
        self.inner.restore(state)


def around(policy: Policy) -> list[PolicyLike]:
    """Each of them around the policy: mypy refuses this list if one is no policy."""
    return [policy, Recorder(policy), Clamp(policy, 0.1), Slew(policy, 0.1), Halved(policy)]
