"""Recurrent modules and coloured noise, stepped once: what persists is an argument."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase, unravel_key_list
from torchrl.modules import GRUModule, LSTMModule, OrnsteinUhlenbeckProcessModule

from roadworthy.adapters.torchrl.keys import is_flag, port_name
from roadworthy.adapters.torchrl.part import Plain, Replaced


class Recurrent(Replaced):
    """One step of an `LSTMModule` or `GRUModule`; hidden states are (batch, layers, hidden).

    TorchRL asks whether any row begins an episode, which a graph cannot: here no row does, and
    the runtime puts the initial state where one begins.
    """

    def __init__(self, module: LSTMModule | GRUModule) -> None:
        network = module.lstm if isinstance(module, LSTMModule) else module.gru
        in_keys = unravel_key_list(module.in_keys)
        read = [key for key in in_keys if not is_flag(key)]
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


class Noisy(Plain):
    """An Ornstein-Uhlenbeck process: its noise and its step count persist."""

    def __init__(self, module: OrnsteinUhlenbeckProcessModule) -> None:
        super().__init__(module, in_keys=module.in_keys[:1], out_keys=module.out_keys[:1])
        process: Any = module.ou
        keys = (process.noise_key, process.steps_key)
        self.memory = {port_name(key): (key, key) for key in keys}
        action = module.spec[process.key]
        self.initial = {
            process.noise_key: torch.zeros(1, *action.shape[-1:]),
            process.steps_key: torch.zeros(1, dtype=torch.int64),
        }
        self.in_keys = (*self.in_keys, *keys, module.is_init_key)
        self.out_keys = (*self.out_keys, *keys)
