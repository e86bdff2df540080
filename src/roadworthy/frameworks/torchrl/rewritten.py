"""Modules of TorchRL that a graph cannot follow as they are: recurrent, distributional, exploring.

Each does one step for any number of rows, and what persists between steps is an argument.
"""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase, unravel_key_list
from tensordict.utils import expand_as_right
from torch import Tensor
from torchrl.data import Bounded, Categorical, Composite, MultiCategorical, MultiOneHot, OneHot
from torchrl.modules import (
    DistributionalQValueModule,
    EGreedyModule,
    GRUModule,
    LSTMModule,
    OrnsteinUhlenbeckProcessModule,
)

from roadworthy.errors import ExportError
from roadworthy.frameworks.torchrl.keys import is_reset_flag, key_path, port_name
from roadworthy.frameworks.torchrl.stage import RewrittenStage, Stage


class Recurrent(RewrittenStage):
    """One step of an `LSTMModule` or `GRUModule`; hidden states are (batch, layers, hidden).

    TorchRL asks whether any row begins an episode, which a graph cannot: here no row does, and
    the runtime puts the initial state where one begins.
    """

    def __init__(self, module: LSTMModule | GRUModule) -> None:
        network = module.lstm if isinstance(module, LSTMModule) else module.gru
        in_keys = unravel_key_list(module.in_keys)
        read = [key for key in in_keys if not is_reset_flag(key)]
        states = list(zip(read[1:], unravel_key_list(module.out_keys)[1:], strict=True))
        names = [port_name(before) for before, _ in states]
        layers = network.num_layers * (2 if network.bidirectional else 1)
        sizes = [getattr(network, "proj_size", 0) or network.hidden_size, network.hidden_size]
        dtype = next(network.parameters()).dtype
        super().__init__(
            module,
            in_keys=in_keys,
            out_keys=module.out_keys,
            memory=dict(zip(names, states, strict=True)),
            initial={
                name: torch.zeros(1, layers, size, dtype=dtype)
                for name, size in zip(names, sizes, strict=False)
            },
        )
        self.network = network
        self.read = tuple(read)
        self.pair = isinstance(module, LSTMModule)

    def compute(self, values: TensorDictBase) -> None:
        feature, *states = (values.get(key) for key in self.read)
        batch = values.batch_dims
        # nn.LSTM wants (layers, rows, hidden), TensorDicts want rows first.
        hidden = [state.flatten(0, batch - 1).transpose(0, 1).contiguous() for state in states]
        rows = feature.flatten(0, batch - 1).unsqueeze(1)
        out, after = self.network(rows, tuple(hidden) if self.pair else hidden[0])
        after = after if self.pair else (after,)
        results = [out.squeeze(1), *(state.transpose(0, 1) for state in after)]
        for key, result in zip(self.out_keys, results, strict=True):
            values.set(key, result.reshape(*values.batch_size, *result.shape[1:]))


class DistributionalQValue(RewrittenStage):
    """The best action by expected value over the atoms of a categorical return."""

    def __init__(self, module: DistributionalQValueModule) -> None:
        super().__init__(module)
        if module.action_space not in ("one_hot", "categorical"):
            raise ExportError(
                f"action space {module.action_space!r} cannot be exported",
                code="RW143",
                where=type(module).__name__,
                hint="use 'one_hot' or 'categorical'",
            )

    def compute(self, values: TensorDictBase) -> None:
        module: Any = self.module
        logs = values.get(module.action_value_key)
        if module.action_mask_key is not None:
            mask = values.get(module.action_mask_key)
            logs = torch.where(mask, logs, torch.finfo(logs.dtype).min)
        expected = (logs.exp() * module.support.unsqueeze(-1)).sum(-2)
        if module.action_space == "one_hot":
            action = (expected == expected.amax(-1, keepdim=True)).to(torch.long)
        else:
            action = expected.argmax(-1)
        values.set(self.out_keys[0], action)
        values.set(self.out_keys[1], logs)


class EGreedy(RewrittenStage):
    """TorchRL's `EGreedyModule` while it explores, for any number of rows.

    It makes the same draws as TorchRL, in the same order: a coin for each row, then an action.
    """

    def __init__(self, module: EGreedyModule) -> None:
        super().__init__(module)
        spec = module.spec
        self.space = spec[module.action_key] if isinstance(spec, Composite) else spec
        if not _drawable(self.space):
            raise ExportError(
                f"ε-greedy over a {type(self.space).__name__} of {self.space.dtype} cannot be "
                "exported",
                code="RW143",
                where="EGreedyModule",
                hint="choose exploration='deterministic', or an action spec that is Categorical, "
                "OneHot, or Bounded of floats",
            )

    def compute(self, values: TensorDictBase) -> None:
        *parents, last = key_path(self.module.action_key)
        owner = values.get(tuple(parents)) if parents else values
        action = owner.get(last)
        mask = values.get(self.module.action_mask_key) if self.module.action_mask_key else None
        coin = torch.rand(owner.shape) < self.module.eps
        drawn = self._drawn(action, mask)
        owner.set(last, torch.where(expand_as_right(coin, action), drawn, action))

    def _drawn(self, action: Tensor, mask: Tensor | None) -> Tensor:
        space: Any = self.space
        if isinstance(space, Bounded):
            low, high = space.space.low, space.space.high
            share = torch.zeros_like(action).uniform_()
            inside: Tensor = low.to(action.dtype) + share * (high - low).to(action.dtype)
            return inside
        one_hot = isinstance(space, OneHot)
        shape = action.shape[:-1] if one_hot else action.shape
        count = int(space.space.n)
        if mask is None:
            index = torch.randint(0, count, shape)
        else:
            weights = mask.flatten(0, -2).to(torch.float32)
            index = torch.multinomial(weights, 1).reshape(shape)
        if one_hot:
            return torch.nn.functional.one_hot(index, count).to(action.dtype)
        return index.to(action.dtype)


class OrnsteinUhlenbeck(Stage):
    """An Ornstein-Uhlenbeck process: its noise and its step count are memory."""

    def __init__(self, module: OrnsteinUhlenbeckProcessModule) -> None:
        process: Any = module.ou
        keys = (process.noise_key, process.steps_key)
        noise, steps = names = [port_name(key) for key in keys]
        action = module.spec[process.key]
        super().__init__(
            module,
            in_keys=[module.in_keys[0], *keys, module.is_init_key],
            out_keys=[module.out_keys[0], *keys],
            memory={name: (key, key) for name, key in zip(names, keys, strict=True)},
            initial={
                noise: torch.zeros(1, *action.shape[-1:]),
                steps: torch.zeros(1, dtype=torch.int64),
            },
        )


def _drawable(space: Any) -> bool:
    if isinstance(space, (MultiOneHot, MultiCategorical)):
        return False
    if isinstance(space, Bounded):
        return bool(space.dtype.is_floating_point)
    return isinstance(space, (OneHot, Categorical))
