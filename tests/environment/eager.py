"""An independent eager loop, and everything about an environment that must not change."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from roadworthy.environment import ExportableActor, ExportableEnvironment, Memory

Arrays = dict[str, np.ndarray[Any, Any]]


class Eager:
    """The environment and its actor, driven by writing inputs in place, tick by tick."""

    def __init__(self, env: ExportableEnvironment, actor: ExportableActor) -> None:
        self.env, self.actor = env, actor
        for module in (actor, *env.context_manager().modules):
            module.eval()
        context = env.context_manager()
        self.inputs = {
            each.input_name: each.get_from_env_cb
            for each in context.get_input_components()
            if not isinstance(each, Memory)
        }
        self.tick = 0

    def reset(self) -> None:
        self.tick = 0
        with torch.no_grad():
            self.env.observations_reset()
            self.actor.reset(torch.ones(self.env.empty_actions().shape[0], dtype=torch.bool))

    def step(self, values: Arrays) -> Arrays:
        """The outputs of one tick; actions and observations at the ticks that decide."""
        found: Arrays = {}
        with torch.no_grad():
            for name, value in values.items():
                self.inputs[name]().copy_(torch.from_numpy(value))
            self.env.context_manager().write_connections()
            if self.tick % self.env.decimation == 0:
                for update in self.env.command_updates:
                    update()
                observations = self.env.compute_observations()
                found["obs"] = observations.numpy().copy()
                actions = self.actor(observations)
                found["actions"] = actions.numpy().copy()
                self.env.process_actions(actions)
            self.env.apply_actions()
            for each in self.env.context_manager().get_output_components():
                if not isinstance(each, Memory):
                    found[each.output_name] = each.value_numpy.copy()
        self.tick += 1
        return found

    @property
    def memory(self) -> Arrays:
        found = self.env.context_manager().get_memory_components()
        return {each.name: each.value_numpy.copy() for each in found}

    def draw(self, rng: np.random.Generator) -> Arrays:
        """Values for every input; integers stay small enough to be an index."""
        found = {}
        for name, read in self.inputs.items():
            like = read().numpy()
            if like.dtype.kind == "f":
                value = rng.standard_normal(like.shape)
            else:
                value = rng.integers(0, 2 if like.dtype.kind == "b" else 3, like.shape)
            found[name] = np.asarray(value).astype(like.dtype)
        return found


def facts(*roots: object) -> dict[str, Any]:
    """Identity and value of all that is reachable, and the random generators."""
    found: dict[str, Any] = {}
    todo = deque((str(index), root) for index, root in enumerate(roots))
    seen: set[int] = set()
    while todo:
        path, value = todo.popleft()
        found[path] = (type(value), id(value), described(value))
        if id(value) in seen or isinstance(value, torch.Tensor):
            continue
        seen.add(id(value))
        if isinstance(value, Mapping):
            todo.extend((f"{path}[{key!r}]", each) for key, each in value.items())
        elif isinstance(value, (list, tuple)):
            todo.extend((f"{path}[{index}]", each) for index, each in enumerate(value))
        elif (hasattr(value, "__dict__") and not callable(value)) or isinstance(
            value, torch.nn.Module
        ):
            todo.extend((f"{path}.{key}", each) for key, each in own(value).items())
    return found | {
        "torch": torch.get_rng_state().tolist(),
        "numpy": np.random.get_state()[1].tolist(),
        "python": random.getstate(),
        "threads": torch.get_num_threads(),
    }


def own(value: object) -> dict[str, Any]:
    return getattr(value, "__dict__", {})


def described(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        stored = value.detach()
        place = (value.data_ptr(), value.stride(), value.requires_grad, value.is_inference())
        return (*place, stored.contiguous().numpy().tobytes())
    return value if isinstance(value, (bool, int, float, str)) else None


def differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [key for key in {**before, **after} if before.get(key) != after.get(key)]
