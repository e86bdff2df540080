"""Tianshou's networks: an MLP or a recurrent one, and behind it a head, or the two of a duel."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from roadworthy.frameworks.network.actor import Network, Tensors, results
from roadworthy.frameworks.network.layers import layer, places, recurrent, sequence, under, widths
from roadworthy.frameworks.network.memory import start, stepped

Weights = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parts:
    """The weights of a network, as far as there are such parts.

    first, cell, second  of a recurrent one: a layer, the LSTM, and a layer behind it
    body, head           MLPs; `dueling` are two, of advantages and of the state's value
    """

    first: Weights
    cell: Weights
    second: Weights
    body: Weights
    head: Weights
    dueling: tuple[Weights, Weights]

    @property
    def deep_duel(self) -> bool:
        """Whether there is an activation inside of the heads of the duel."""
        return any(len(places(each)) > 1 for each in self.dueling)

    @property
    def inputs(self) -> int:
        for weights, name in ((self.first, "weight"), (self.cell, "weight_ih_l0")):
            if weights:
                return int(weights[name].shape[1])
        return int(self.body["0.weight"].shape[1])

    @property
    def outputs(self) -> int:
        for own in (self.dueling[0], self.head, self.second, self.body):
            if own:
                return int(own[list(own)[-1]].shape[0])
        return 0

    @property
    def text(self) -> str:
        parts = []
        if self.cell:
            parts.append(f"LSTM {self.inputs} → {self.cell['weight_hh_l0'].shape[1]}")
        parts += [
            widths(sequence(own, "identity", where=""))
            if "weight" not in own
            else str(self.outputs)
            for own in (self.body, self.head)
            if own
        ]
        said = f"{'' if self.cell else 'MLP '}{' → '.join(parts)}"
        return f"{said} → dueling {self.outputs}" if self.dueling[0] else said


def parts_of(network: Weights, head: Weights) -> Parts:
    """The parts of a network, whose head may stand beside it."""
    return Parts(
        first=under(network, "fc1"),
        cell=under(network, "nn"),
        second=under(network, "fc2"),
        body=under(network, "model.model"),
        head=head,
        dueling=(under(network, "Q.model"), under(network, "V.model")),
    )


class Policy(Network):
    """What stands in the file, one part behind the other."""

    def __init__(self, parts: Parts, activation: str, dueling: str, where: str) -> None:
        super().__init__()
        self.inputs = parts.inputs
        self.cell = recurrent(parts.cell, f"{where}: nn") if parts.cell else None
        self.first, self.second = (
            layer(own, f"{where}: {name}") if own else nn.Identity()
            for name, own in (("fc1", parts.first), ("fc2", parts.second))
        )
        ends = bool(parts.head) or bool(parts.dueling[0])
        self.body = sequence(parts.body, activation, active_end=ends, where=where)
        head = parts.head
        self.head = (
            layer(head, where) if "weight" in head else sequence(head, activation, where=where)
        )
        self.dueling = nn.ModuleList(
            sequence(own, dueling, where=where) for own in parts.dueling if own
        )

    def memory(self, wanted: Collection[str] = ()) -> Tensors:
        return start(self.cell)

    def example(self) -> Tensors:
        return {"obs": torch.zeros(1, self.inputs)}

    def step(self, ports: Tensors, wanted: Collection[str]) -> Tensors:
        latent, after = stepped(self.cell, self.first(ports["obs"]), ports)
        action = self.head(self.body(self.second(latent)))
        if self.dueling:
            advantage, value = (each(action) for each in self.dueling)
            action = advantage - advantage.mean(dim=1, keepdim=True) + value
        return results(action, wanted, after)
