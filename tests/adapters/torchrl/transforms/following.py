"""Pairs of environments: one with TorchRL's transforms, one bare with our stages around it.

Both are seeded alike. The first takes the policy's action, the second what the action stages make
of it; what the first shows the policy must be what the observation stages make of the second. A
wrong action stage shows too: the two environments drift apart.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor, nn
from torchrl.envs import EnvBase, GymEnv, TransformedEnv

import roadworthy as rw
from roadworthy.frameworks.torchrl.keys import NestedKey
from roadworthy.frameworks.torchrl.transforms import TransformStages, stages

Values = dict[NestedKey, Tensor]


def pendulum() -> EnvBase:
    return GymEnv("Pendulum-v1")


def port(key: NestedKey) -> str:
    return key if isinstance(key, str) else "_".join(key)


class Runner(Protocol):
    """Observations of the bare environments and actions of the policy in; both sides out."""

    def step(self, raw: Values, action: Tensor) -> Values: ...

    def reset(self, mask: Tensor) -> None: ...


class Staged(nn.Module):
    """All stages in one module: keys and memory by name in, policy keys and actions out."""

    def __init__(
        self, made: TransformStages, in_keys: Sequence[NestedKey], action_key: NestedKey
    ) -> None:
        super().__init__()
        self.made, self.in_keys, self.action_key = made, in_keys, action_key
        self.parts = nn.ModuleList((*made.observation, *made.action))

    @property
    def memory(self) -> dict[str, Tensor]:
        return {k: v for stage in self.made.observation for k, v in stage.initial.items()}

    def run(self, given: Values, memory: Mapping[str, Tensor]) -> tuple[Values, dict[str, Tensor]]:
        """What the policy sees and what the environment gets, and the memory of the next step."""
        keys = {name: pair for s in self.made.observation for name, pair in s.memory.items()}
        values = TensorDict(batch_size=[next(iter(given.values())).shape[0]])
        for key, value in given.items():
            values.set(key, value)
        for name, (before, _) in keys.items():
            values.set(before, memory[name])
        for stage in self.made.observation:
            values = stage(values)
        seen: Values = {key: values.get(key) for key in self.in_keys}
        for stage in self.made.action:
            values = stage(values)
        done = {("env", port(key)): values.get(key) for key in self.made.outputs}
        return {**seen, **done}, {name: values.get(after) for name, (_, after) in keys.items()}


class Eager:
    def __init__(self, staged: Staged, rows: int) -> None:
        self.staged, self.rows = staged, rows
        self.initial = {k: v.expand(rows, *v.shape[1:]) for k, v in staged.memory.items()}
        self.state = dict(self.initial)

    def step(self, raw: Values, action: Tensor) -> Values:
        with torch.no_grad():
            seen, self.state = self.staged.run({**raw, self.staged.action_key: action}, self.state)
        return seen

    def reset(self, mask: Tensor) -> None:
        for name, start in self.initial.items():
            rows = mask.reshape(-1, *[1] * (start.ndim - 1))
            self.state[name] = torch.where(rows, start, self.state[name])


class Exported:
    """The same through torch.export, ONNX and onnxruntime, certified on the way.

    A folder that is there already is what the same stages were exported to.
    """

    def __init__(self, staged: Staged, raw: Values, action: Tensor, folder: Path) -> None:
        self.staged = staged
        given = {**raw, staged.action_key: action}
        inputs = {port(key): value[:1] for key, value in given.items()}
        self.outputs = {port(key): key for key in staged.in_keys}
        self.outputs = {f"seen_{name}": key for name, key in self.outputs.items()}
        self.outputs |= {f"env_{port(key)}": ("env", port(key)) for key in staged.made.outputs}
        keys = {port(key): key for key in (*raw, staged.action_key)}
        source = rw.Source(
            _by_name(staged, keys, self.outputs), example=inputs, memory=staged.memory
        )
        if not folder.exists():
            rw.export(source, folder)
        self.policy = rw.load(folder)

    def step(self, raw: Values, action: Tensor) -> Values:
        values = {port(key): value.numpy() for key, value in raw.items()}
        values[port(self.staged.action_key)] = action.numpy()
        result = self.policy.step(values)
        return {key: torch.as_tensor(np.array(result[n])) for n, key in self.outputs.items()}

    def reset(self, mask: Tensor) -> None:
        self.policy.reset(mask.numpy())


def _by_name(
    staged: Staged, keys: Mapping[str, NestedKey], outputs: Mapping[str, NestedKey]
) -> nn.Module:
    """The staged module with a forward whose arguments have the names of the ports."""

    def forward(self: Any, **tensors: Tensor) -> Any:
        values = {key: tensors[name] for name, key in keys.items()}
        seen, memory = staged.run(values, {name: tensors[name] for name in staged.memory})
        return {name: seen[key] for name, key in outputs.items()} | memory

    names = ["self", *keys, *staged.memory]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind) for name in names]
    forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    module: nn.Module = type("ByName", (nn.Module,), {"forward": forward})()
    module.add_module("staged", staged)
    return module


def follow(
    transforms: Callable[[], Any],
    *,
    in_keys: Sequence[NestedKey],
    base: Callable[[], EnvBase] = pendulum,
    bare: Callable[[], EnvBase] | None = None,
    action_key: NestedKey = "action",
    before: Callable[[TransformedEnv], None] | None = None,
    rows: int = 3,
    steps: int = 40,
    every: int = 7,
    folder: Path | None = None,
    tolerance: float = 0.0,
) -> TransformStages:
    """Steps `rows` pairs side by side, with resets in the middle, and compares every step."""
    full = [TransformedEnv(base(), transforms()) for _ in range(rows)]
    plain = [(bare or base)() for _ in range(rows)]
    for each in full if before else ():
        before(each)  # type: ignore[misc]
    made = stages(full[0], in_keys=in_keys, action_key=action_key)
    for seed, (one, other) in enumerate(zip(full, plain, strict=True)):
        one.set_seed(seed)
        other.set_seed(seed)
    shown, raw = [env.reset() for env in full], [env.reset() for env in plain]
    runner: Runner | None = None
    generator = torch.Generator().manual_seed(0)
    for step in range(steps):
        action = _actions(full[0], action_key, rows, generator)
        sensed = {key: torch.stack([td[key] for td in raw]) for key in made.inputs}
        if runner is None:
            staged = Staged(made, in_keys, action_key)
            runner = (
                Eager(staged, rows) if folder is None else Exported(staged, sensed, action, folder)
            )
        got = runner.step(sensed, action)
        for key in in_keys:
            expected = torch.stack([td[key] for td in shown])
            agree(got[key], expected, tolerance, f"{key!r} at step {step}")
        for row in range(rows):
            shown[row][action_key] = action[row]
            for key in made.outputs:
                raw[row][key] = got["env", port(key)][row]
        shown = [env.step_mdp(env.step(td)) for env, td in zip(full, shown, strict=True)]
        raw = [env.step_mdp(env.step(td)) for env, td in zip(plain, raw, strict=True)]
        ended = torch.tensor([(step + 1) % (every + 4 * row) == 0 for row in range(rows)])
        ended |= torch.stack([td["done"].any() for td in raw])
        for row in range(rows):
            if ended[row]:
                shown[row], raw[row] = full[row].reset(), plain[row].reset()
        runner.reset(ended)
    return made


def _actions(env: EnvBase, key: NestedKey, rows: int, generator: torch.Generator) -> Tensor:
    spec = env.full_action_spec[key]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
        return torch.stack([spec.rand() for _ in range(rows)])


def agree(got: Tensor, expected: Tensor, tolerance: float, where: str) -> None:
    assert got.dtype == expected.dtype, f"{where}: {got.dtype}, expected {expected.dtype}"
    assert got.shape == expected.shape, f"{where}: {got.shape}, expected {expected.shape}"
    if got.is_floating_point():
        torch.testing.assert_close(
            got, expected, rtol=0, atol=tolerance, msg=lambda m: f"{where}: {m}"
        )
    else:
        assert torch.equal(got, expected), where
