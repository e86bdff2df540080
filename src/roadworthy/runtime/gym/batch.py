"""Environments side by side, stepped with rows of port values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from roadworthy.runtime.gym.frame_skip import refuse_other_frame_skip
from roadworthy.runtime.gym.spaces import refuse_misfit
from roadworthy.spec.port import Array
from roadworthy.spec.signature import Signature


@dataclass(frozen=True, slots=True, eq=False)
class EnvStep:
    """What one step brought: the next inputs, the rewards, and which rows ended or begin anew."""

    inputs: dict[str, Array]
    rewards: Array
    ended: Array
    begins: Array


class EnvBatch(Protocol):
    """Environments that play at once, one for each row of a policy."""

    rows: int
    action: str

    def reset(self, seed: int) -> dict[str, Array]:
        """The inputs with which every row begins; the rows have seeds of their own."""

    def step(self, action: Array) -> EnvStep:
        """One step of every row with its action."""

    def close(self) -> None: ...


def env_batch(envs: Sequence[Any], signature: Signature) -> EnvBatch:
    """One vectorised environment, or several plain ones, as rows of the policy."""
    first = envs[0]
    refuse_other_frame_skip(signature.frame_skip, first)
    if hasattr(first, "single_observation_space"):
        refuse_misfit(signature, first.single_observation_space, first.single_action_space)
        return _VectorEnv(first, signature)
    refuse_misfit(signature, first.observation_space, first.action_space)
    return _PlainEnvs(envs, signature)


class _PlainEnvs:
    """Plain environments, each with an episode of its own; one that has ended stands still."""

    def __init__(self, envs: Sequence[Any], signature: Signature) -> None:
        self.rows = len(envs)
        self.action = signature.action_output
        self._envs = envs
        self._table = _codes(signature)
        self._named = hasattr(envs[0].observation_space, "spaces")
        dims = dict.fromkeys(signature.symbols, self.rows)
        self._inputs = {
            port.name: np.zeros(port.sizes(dims), port.dtype) for port in signature.observed
        }
        self._playing = np.zeros(self.rows, dtype=bool)

    def reset(self, seed: int) -> dict[str, Array]:
        for row, env in enumerate(self._envs):
            self._see(row, env.reset(seed=seed + row)[0])
        self._playing[:] = True
        return self._seen()

    def step(self, action: Array) -> EnvStep:
        rewards, ended = np.zeros(self.rows), ~self._playing
        for row in np.flatnonzero(self._playing).tolist():
            observation, rewards[row], terminated, truncated, _ = self._envs[row].step(
                self._meant(action[row])
            )
            ended[row] = terminated or truncated
            self._see(row, observation)
        self._playing = ~ended
        return EnvStep(self._seen(), rewards, ended, np.zeros(self.rows, dtype=bool))

    def close(self) -> None:
        for env in self._envs:
            env.close()

    def _see(self, row: int, observation: Any) -> None:
        for name, buffer in self._inputs.items():
            buffer[row] = observation[name] if self._named else observation

    def _seen(self) -> dict[str, Array]:
        return {name: buffer.copy() for name, buffer in self._inputs.items()}

    def _meant(self, action: Any) -> Any:
        """The action as the environment takes it: a code of the table, a plain int, an array."""
        if np.ndim(action) or action.dtype.kind not in "iu":
            return action
        return self._table[int(action)] if self._table else int(action)


class _VectorEnv:
    """A vectorised environment, which resets its rows by itself."""

    def __init__(self, env: Any, signature: Signature) -> None:
        self.rows = int(env.num_envs)
        self.action = signature.action_output
        self._env = env
        self._ports = tuple((port.name, port.dtype) for port in signature.observed)
        self._table = np.asarray(_codes(signature))
        mode = getattr(env, "metadata", {}).get("autoreset_mode")
        self._same_step = "same" in str(mode).lower()
        self._ended = np.zeros(self.rows, dtype=bool)

    def reset(self, seed: int) -> dict[str, Array]:
        self._ended[:] = False
        return self._seen(self._env.reset(seed=seed)[0])

    def step(self, action: Array) -> EnvStep:
        meant = self._table[action] if self._table.size else action
        observation, rewards, terminated, truncated, _ = self._env.step(meant)
        ended = np.asarray(terminated) | np.asarray(truncated)
        # A vector that resets at the next step ignores the action of a row that has ended.
        begins = ended if self._same_step else self._ended
        self._ended = ended
        return EnvStep(self._seen(observation), np.asarray(rewards, np.float64), ended, begins)

    def close(self) -> None:
        self._env.close()

    def _seen(self, observation: Any) -> dict[str, Array]:
        if not isinstance(observation, Mapping):
            observation = {self._ports[0][0]: observation}
        return {name: np.array(observation[name], dtype) for name, dtype in self._ports}


def _codes(signature: Signature) -> tuple[Any, ...]:
    """The action table, where it holds codes and not words."""
    table = signature.action.table if signature.action else ()
    return table if all(isinstance(each, int) for each in table) else ()
