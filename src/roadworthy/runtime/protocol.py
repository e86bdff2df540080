"""What a policy is to those who hold one: `Policy` itself, or anything that stands around it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from roadworthy.errors import UsageError
from roadworthy.runtime.state import PolicyState
from roadworthy.spec.port import Array
from roadworthy.spec.signature import Signature

if TYPE_CHECKING:
    from typing_extensions import Self


@runtime_checkable
class PolicyLike(Protocol):
    """Named values in, named values out, memory inside: what loops, servers and tests need.

    Each method does what `Policy` says of it.
    """

    @property
    def signature(self) -> Signature: ...

    @property
    def rows(self) -> int: ...

    @property
    def memory(self) -> dict[str, Array]: ...

    def set_memory(self, values: Mapping[str, Any], mask: Any = None) -> None: ...

    def step(self, inputs: Mapping[str, Any]) -> dict[str, Any]: ...

    def act(self, obs: Any) -> Any: ...

    def reset(self, mask: Any = None, *, seed: int | None = None) -> None: ...

    def state(self) -> PolicyState: ...

    def restore(self, state: PolicyState) -> None: ...


class PolicyWrapper:
    """A policy around another one that passes everything on; a subclass changes what it must.

    `act` goes through `step`, so that changing `step` is enough. What a subclass remembers
    itself belongs into `reset`, and into the `extra` of `state` and `restore`.
    """

    def __init__(self, policy: PolicyLike) -> None:
        self.policy = policy

    @property
    def signature(self) -> Signature:
        return self.policy.signature

    @property
    def rows(self) -> int:
        return self.policy.rows

    @property
    def memory(self) -> dict[str, Array]:
        return self.policy.memory

    def set_memory(self, values: Mapping[str, Any], mask: Any = None) -> None:
        self.policy.set_memory(values, mask)

    def step(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return self.policy.step(inputs)

    def act(self, obs: Any) -> Any:
        return action(self, obs)

    def __call__(self, obs: Any) -> Any:
        return self.act(obs)

    def predict(
        self,
        observation: Any,
        state: PolicyState | None = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[Any, PolicyState | None]:
        return predicted(self, observation, state, episode_start, deterministic)

    def reset(self, mask: Any = None, *, seed: int | None = None) -> None:
        self.policy.reset(mask, seed=seed)

    def state(self) -> PolicyState:
        return self.policy.state()

    def restore(self, state: PolicyState) -> None:
        self.policy.restore(state)

    def __copy__(self) -> Self:
        """A wrapper around a copy of the policy; what a subclass keeps itself it copies itself."""
        copied = self.__class__.__new__(self.__class__)
        copied.__dict__.update(self.__dict__)
        copied.policy = copy.copy(self.policy)
        return copied


def action(policy: PolicyLike, obs: Any) -> Any:
    """The action of one step: for one array where the policy observes one, else for a mapping."""
    signature = policy.signature
    if not isinstance(obs, Mapping):
        ports = signature.observed
        if len(ports) > 1:
            names = ", ".join(repr(port.name) for port in ports)
            raise UsageError(
                f"the policy has {len(ports)} inputs, got one {type(obs).__name__}",
                hint=f"pass a dict with {names}",
            )
        obs = {ports[0].name: obs}
    found = policy.step(obs)[signature.action_output]
    return found if found.ndim else found[()]


def predicted(
    policy: PolicyLike,
    observation: Any,
    state: PolicyState | None,
    episode_start: Any,
    deterministic: bool,
) -> tuple[Any, PolicyState | None]:
    """The action and the next state; no state where the policy has no memory."""
    draws = any(port.about.noise for port in policy.signature.inputs)
    if draws == deterministic:
        exported, wanted = ("random", "deterministic") if draws else ("deterministic", "random")
        raise UsageError(
            f"the policy was exported as {exported}, got deterministic={deterministic}",
            where="predict",
            hint=f"pass deterministic={not deterministic}, or export it as {wanted}",
        )
    if state is not None and not isinstance(state, PolicyState):
        raise UsageError(
            f"expected the state that predict returned, got {type(state).__name__}",
            where="predict",
            hint="action, state = policy.predict(obs, state=state); None starts anew",
        )
    if state is None:
        policy.reset()
    else:
        policy.restore(state)
    if episode_start is not None:
        policy.reset(np.atleast_1d(np.asarray(episode_start, dtype=bool)))
    found = policy.act(observation)
    remembers = bool(policy.signature.memory or policy.signature.clock)
    return found, policy.state() if remembers else None
