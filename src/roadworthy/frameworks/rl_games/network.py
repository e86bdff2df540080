"""An rl_games actor-critic, or SAC's actor, as a network."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from roadworthy.frameworks.network.actor import Network, Tensors, results
from roadworthy.frameworks.network.images import ImageInput, Images
from roadworthy.frameworks.network.layers import (
    ACTIVATIONS,
    convolutions,
    layer,
    recurrent,
    sequence,
    under,
)
from roadworthy.frameworks.network.memory import CRITIC, start, stepped
from roadworthy.frameworks.network.statistics import VALUE, returns_of
from roadworthy.frameworks.rl_games.wiring import Wiring
from roadworthy.spec.transforms import Normalizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Functions:
    """What stands between and behind the layers: names of activations."""

    between: str
    mean: str = "identity"
    value: str = "identity"
    cnn: str = "identity"


class Side(nn.Module):
    """From an observation to the latent of the actor, or of a critic with a network of its own."""

    def __init__(
        self, own: Mapping[str, Tensor], wiring: Wiring, functions: Functions,
        images: Images | None, where: str, *, critic: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        side = "critic" if critic else "actor"
        self.wiring, self.prefix = wiring, CRITIC if critic else ""
        sac = wiring.heads == ("trunk",)
        body = under(own, "trunk" if sac else f"{side}_mlp")
        self.body = sequence(body, functions.between, active_end=not sac, where=where)
        cnn = under(own, f"{side}_cnn")
        self.cnn: nn.Module = nn.Identity()
        if images is not None:
            self.cnn = convolutions(cnn, images.steps, functions.cnn, f"{where}: {side}_cnn")
        cell, norm = (_of_critic(n) if critic else n for n in (wiring.cell, wiring.norm))
        self.cell = recurrent(under(own, cell), where) if cell else None
        self.norm = layer(under(own, norm), where) if norm else None

    def memory(self) -> Tensors:
        return start(self.cell, prefix=self.prefix)

    def forward(self, seen: Tensor, ports: Tensors) -> tuple[Tensor, Tensors]:
        obs = self.cnn(seen)
        if self.cell is None:
            return self.body(obs), {}
        given = obs if self.wiring.before_mlp else self.body(obs)
        if self.wiring.with_input:
            given = torch.cat([given, obs], dim=-1)
        out, after = stepped(self.cell, given, ports, prefix=self.prefix)
        if self.norm is not None:
            out = self.norm(out)
        if self.wiring.with_output:
            out = torch.cat([out, obs], dim=-1)
        return self.body(out) if self.wiring.before_mlp else out, after


class Policy(Network):
    """The actor with the heads of its action; and the critic, where its value is wanted."""

    def __init__(
        self,
        own: Mapping[str, Tensor],
        wiring: Wiring,
        functions: Functions,
        where: str,
        *,
        images: Images | None = None,
        statistics: Normalizer | None = None,
        returns: Mapping[str, Tensor] | None = None,
        valued: bool = False,
    ) -> None:
        super().__init__()
        self.images = images
        self.seen = ImageInput(images, statistics) if images else nn.Identity()
        self.actor = Side(own, wiring, functions, images, where)
        heads = () if wiring.heads == ("trunk",) else wiring.heads
        self.heads = nn.ModuleList(layer(under(own, name), f"{where}: {name}") for name in heads)
        self.last = ACTIVATIONS[functions.mean]()
        self.inputs = wiring.inputs
        self.value_head = layer(under(own, VALUE), f"{where}: {VALUE}") if valued else None
        self.critic: Side | None = None
        if not valued:
            return
        if any(name.startswith(("critic_", "c_rnn.")) for name in own):
            self.critic = Side(own, wiring, functions, images, where, critic=True)
        self.valued = nn.Sequential(
            ACTIVATIONS[functions.value](), returns_of(returns or {}, eps=1e-5)
        )

    def example(self) -> Tensors:
        return {"obs": self.images.example() if self.images else torch.zeros(1, self.inputs)}

    def memory(self, wanted: Collection[str] = ()) -> Tensors:
        return self.actor.memory() | (self.critic.memory() if self.critic is not None else {})

    def step(self, ports: Tensors, wanted: Collection[str]) -> Tensors:
        seen = self.seen(ports["obs"])
        latent, more = self.actor(seen, ports)
        if self.heads:
            action = self.last(torch.cat([head(latent) for head in self.heads], dim=-1))
        else:
            action = latent.chunk(2, dim=-1)[0]  # the other half is the deviation
        if self.value_head is not None:
            if self.critic is not None:
                latent, after = self.critic(seen, ports)
                more = {**more, **after}
            more = {**more, VALUE: self.valued(self.value_head(latent))}
        return results(action, wanted, more)


def _of_critic(name: str) -> str:
    """`a_rnn.rnn` → `c_rnn.rnn`: what the actor's part is called on the other side."""
    return f"c{name[1:]}" if name.startswith("a_") else name
