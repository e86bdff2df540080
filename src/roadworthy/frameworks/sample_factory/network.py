"""A Sample-Factory actor, and its critic, as a network."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn

from roadworthy.frameworks.network.actor import Network, Tensors, results
from roadworthy.frameworks.network.layers import layer, recurrent, sequence, under
from roadworthy.frameworks.network.memory import CRITIC, start, stepped
from roadworthy.frameworks.network.statistics import VALUE, returns_of
from roadworthy.frameworks.sample_factory.encoders import Encoding, encodings
from roadworthy.spec.transforms import Normalizer

HEAD = "action_parameterization.distribution_linear"


class Tower(nn.Module):
    """Encoders side by side, an optional recurrent core, and a decoder."""

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        encoders: Mapping[str, Encoding],
        side: str,
        activation: str,
        statistics: Mapping[str, Normalizer],
        where: str,
    ) -> None:
        super().__init__()
        self.prefix = CRITIC if side == "critic_" else ""
        self.names = tuple(sorted(encoders))  # the order in which they stand side by side
        own = encodings(under(weights, f"{side}encoder.encoders"))
        self.encoders = nn.ModuleList(
            encoders[n].module(own[n], activation, statistics.get(n), where) for n in self.names
        )
        core = under(weights, f"{side}core.core")
        self.cell = recurrent(core, where) if core else None
        decoder = under(weights, f"{side}decoder.mlp")
        self.decoder = sequence(decoder, activation, active_end=True, where=where)

    def memory(self) -> Tensors:
        return start(self.cell, prefix=self.prefix)

    def forward(self, ports: Tensors) -> tuple[Tensor, Tensors]:
        pairs = zip(self.names, self.encoders, strict=True)
        latent = torch.cat([encoder(ports[name]) for name, encoder in pairs], dim=-1)
        latent, after = stepped(self.cell, latent, ports, prefix=self.prefix)
        return self.decoder(latent), after


class Policy(Network):
    """The actor's tower and one layer; the critic's, where its value is wanted."""

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        encoders: Mapping[str, Encoding],
        side: str,
        activation: str,
        where: str,
        *,
        statistics: Mapping[str, Normalizer],
        valued: bool = False,
    ) -> None:
        super().__init__()
        pictures = {name: each for name, each in statistics.items() if encoders[name].images}
        self.actor = Tower(weights, encoders, side, activation, pictures, where)
        self.head = layer(under(weights, HEAD), where)
        # Of continuous actions the means alone, squashed if that is more than 0.
        self.kept, self.squash = len(weights[f"{HEAD}.bias"]), 0.0
        self.inputs = encoders
        self.critic: Tower | None = None
        self.value_head: nn.Module | None = None
        if not valued:
            return
        if side:
            self.critic = Tower(weights, encoders, "critic_", activation, pictures, where)
        self.value_head = layer(under(weights, "critic_linear"), where)
        self.returns = returns_of(under(weights, "returns_normalizer"), eps=1e-5)

    def example(self) -> Tensors:
        return {
            name: each.images.example() if each.images else torch.zeros(1, each.inputs)
            for name, each in self.inputs.items()
        }

    def memory(self, wanted: Collection[str] = ()) -> Tensors:
        return self.actor.memory() | (self.critic.memory() if self.critic is not None else {})

    def step(self, ports: Tensors, wanted: Collection[str]) -> Tensors:
        latent, more = self.actor(ports)
        action = self.head(latent)[..., : self.kept]
        if self.squash > 0:
            action = torch.tanh(action / self.squash) * self.squash
        if self.value_head is not None:
            if self.critic is not None:
                latent, after = self.critic(ports)
                more = {**more, **after}
            more = {**more, VALUE: self.returns(self.value_head(latent))}
        return results(action, wanted, more)
