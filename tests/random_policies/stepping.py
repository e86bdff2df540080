"""A generated policy stepped in PyTorch, by a loop that shares nothing with Roadworthy's own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from tests.random_policies import build, text
from tests.random_policies.policy import Policy

Tensors = dict[str, torch.Tensor]


class Jitter(TorchDispatchMode):
    """Every float that an operator gives moves by a few units in its last place, at random."""

    def __init__(self, units: float, seed: int) -> None:
        super().__init__()
        self._units = units
        self._draws = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func._schema.is_mutable or any(r.alias_info is not None for r in func._schema.returns):
            return result
        return tree_map(self.moved, result)

    def moved(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        size = self._units * torch.finfo(value.dtype).eps
        draws = torch.rand(value.shape, generator=self._draws, dtype=torch.float64)
        return (value.double() * (1 + size * (2 * draws - 1))).to(value.dtype)


@dataclass(frozen=True)
class Stepped:
    """What a policy is, and a module of it in some precision."""

    policy: Policy
    module: torch.nn.Module

    @classmethod
    def of(cls, policy: Policy) -> Stepped:
        return cls(policy, build.module(policy))

    @classmethod
    def exact(cls, policy: Policy) -> Stepped:
        """The same weights, computed in float64 throughout."""
        wider = replace(
            policy,
            precision="float64",
            inputs=tuple(
                replace(each, dtype="float64") if each.dtype == policy.precision else each
                for each in policy.inputs
            ),
        )
        weights = build.module(policy).state_dict()
        made = build.module(wider)
        made.load_state_dict(weights)
        return cls(wider, made)

    @property
    def dtype(self) -> torch.dtype:
        found: torch.dtype = getattr(torch, self.policy.precision)
        return found

    def start(self, rows: int) -> Tensors:
        """The memory of an episode's first step."""
        axes = build.batch_axes(self.policy)
        return {
            name: start.repeat_interleave(rows, dim=axes[name])
            for name, (_, start) in build.memory(self.policy).items()
        }

    def __call__(self, inputs: Tensors, memory: Tensors) -> tuple[Tensors, Tensors]:
        """Outputs and the next memory; nothing is kept here between two calls."""
        styles = {name: style for name, (style, _) in build.memory(self.policy).items()}
        now = {name: self._as_computed(value) for name, value in memory.items()}
        arguments = [self._normalized(each.name, inputs) for each in self.policy.inputs]
        arguments += [now[name].clone() for name, style in styles.items() if style == "argument"]
        for name, style in styles.items():
            if style != "argument":
                setattr(self.module, name, now[name].clone())
        with torch.no_grad():
            found = self.module(*arguments)
            names = text.output_names(self.policy)
            returned = [name for name, style in styles.items() if style == "argument"]
            if not isinstance(found, dict):
                values = found if isinstance(found, tuple) else (found,)
                found = dict(zip([*names, *returned], values, strict=True))
            after = {
                name: found[name] if style == "argument" else getattr(self.module, name).clone()
                for name, style in styles.items()
            }
            outputs = {name: found[name] for name in names}
            outputs["actions"] = self._acted(outputs["actions"], inputs)
        return outputs, after

    def _as_computed(self, value: torch.Tensor) -> torch.Tensor:
        return value.to(self.dtype) if value.is_floating_point() else value

    def _normalized(self, name: str, inputs: Tensors) -> torch.Tensor:
        port = next(each for each in self.policy.inputs if each.name == name)
        value = inputs[name].to(getattr(torch, port.dtype))
        for step in self.policy.normalizers:
            if step.name == name:
                mean, spread = (
                    torch.as_tensor(each).to(value.dtype)
                    for each in build.statistics(self.policy, step)
                )
                scale = (spread**2 + 1e-8).sqrt() if step.kind == "inside" else spread + 1e-2
                value = (value - mean) / scale
                if step.values[1]:
                    value = value.clamp(-step.values[1], step.values[1])
        return value

    def _acted(self, value: torch.Tensor, inputs: Tensors) -> torch.Tensor:
        for step in self.policy.action:
            if step.kind == "argmax":
                allowed = inputs.get(step.name)
                if allowed is not None:
                    value = value.masked_fill(~allowed, -torch.inf)
                value = value.argmax(-1)
            elif step.kind == "multi":
                groups = value.split([int(size) for size in step.values], -1)
                value = torch.stack([group.argmax(-1) for group in groups], -1)
            elif step.kind == "scale":
                value = value * step.values[0] + step.values[1]
            elif step.kind == "bounds":
                low, high = step.values
                value = low + (value + 1) / 2 * (high - low)
            elif step.kind == "clip":
                value = value.clamp(*step.values)
            else:
                value = value.tanh()
        return value


def jittered(inputs: Tensors, jitter: Jitter) -> Tensors:
    """The inputs, which no operator gave, moved like what operators give."""
    return {name: jitter.moved(value) for name, value in inputs.items()}


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def draw(policy: Policy, steps: int, rows: int, seed: int) -> list[Tensors]:
    """Inputs of an episode, from a sampler of our own: several scales, zeros, and limits."""
    draws = np.random.default_rng(seed)
    sizes = build.shapes(policy)
    found = []
    for _ in range(steps):
        now: Tensors = {}
        for port in policy.inputs:
            now[port.name] = torch.from_numpy(_values(draws, port.dtype, port, rows))
        for step in policy.action:
            if step.kind == "argmax" and step.name:
                mask = draws.random((rows, *sizes[policy.outputs[0]])) < 0.6
                mask[np.arange(rows), draws.integers(0, mask.shape[1], rows)] = True
                now[step.name] = torch.from_numpy(mask)
        found.append(now)
    return found


def _values(draws: np.random.Generator, dtype: str, port: Any, rows: int) -> np.ndarray:
    shape = (rows, *port.shape)
    if dtype == "bool":
        return draws.random(shape) < draws.choice((0.0, 0.5, 0.5, 1.0))
    if not dtype.startswith("float"):
        return draws.integers(0, 256 if port.high is None else port.high + 1, shape).astype(dtype)
    if port.low is not None:
        values = draws.uniform(port.low, port.high, shape)
        ends = draws.choice((port.low, port.high), shape)
        return np.where(draws.random(shape) < 0.05, ends, values).astype(dtype)
    scale = draws.choice((0.01, 1.0, 1.0, 1.0, 10.0, 100.0), (rows, *[1] * len(port.shape)))
    values = draws.standard_normal(shape) * scale
    return np.where(draws.random(shape) < 0.03, 0.0, values).astype(dtype)
