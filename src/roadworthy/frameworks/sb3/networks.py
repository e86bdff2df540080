"""The actors of Stable-Baselines3 and sb3-contrib, rebuilt as plain PyTorch."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from torch import Tensor, nn

from roadworthy.frameworks.network.actor import Around, Network, Tensors
from roadworthy.frameworks.network.layers import (
    Weights,
    layer,
    recurrent,
    sequence,
    under,
)
from roadworthy.frameworks.network.memory import CRITIC, start, stepped
from roadworthy.frameworks.sb3.features import Extractor, Observed

Ports = Mapping[str, Observed]


class SpaceNetwork(Network):
    """A network over the ports of a space that the policy was trained on."""

    def __init__(self, ports: Ports) -> None:
        super().__init__()
        self.ports = dict(ports)

    def example(self) -> Tensors:
        return {port: observed.example for port, observed in self.ports.items()}


class ActorCritic(SpaceNetwork):
    """PPO, A2C, TRPO, MaskablePPO: features, an MLP and a head, for the actor and for the value."""

    def __init__(self, ports: Ports, weights: Weights, activation: str, where: str) -> None:
        super().__init__(ports)
        self.features = _features(ports, weights, ("pi_features_extractor", "features_extractor"),
                                  where)  # fmt: skip
        self.value_features = _features(
            ports, weights, ("vf_features_extractor", "features_extractor"), where
        )
        # Releases before 1.8 could share the first layers.
        nets = {
            name: sequence(under(weights, f"mlp_extractor.{name}"), activation, active_end=True,
                      where=f"{where}: mlp_extractor.{name}")
            for name in ("shared_net", "policy_net", "value_net")
        }  # fmt: skip
        self.policy_net = nn.Sequential(nets["shared_net"], nets["policy_net"])
        self.value_net = nn.Sequential(nets["shared_net"], nets["value_net"])
        self.head = layer(under(weights, "action_net"), f"{where}: action_net")
        self.value_head = layer(under(weights, "value_net"), f"{where}: value_net")

    def step(self, ports: Tensors, wanted: Collection[str]) -> Tensors:
        result = {"action": self.head(self.policy_net(self.features(ports)))}
        if "value" in wanted:
            result["value"] = self.value_head(self.value_net(self.value_features(ports)))
        return result


class Recurrent(ActorCritic):
    """RecurrentPPO: an LSTM between features and MLP; the critic has its own, this one, or none."""

    def __init__(self, ports: Ports, weights: Weights, activation: str, where: str) -> None:
        super().__init__(ports, weights, activation, where)
        self.lstm = recurrent(under(weights, "lstm_actor"), f"{where}: lstm_actor")
        own, linear = under(weights, "lstm_critic"), under(weights, "critic")
        self.value_lstm = recurrent(own, f"{where}: lstm_critic") if own else None
        self.value_linear = layer(linear, f"{where}: critic") if linear else None

    def memory(self, wanted: Collection[str] = ()) -> Tensors:
        own = start(self.value_lstm, prefix=CRITIC) if "value" in wanted else {}
        return start(self.lstm) | own

    def step(self, ports: Tensors, wanted: Collection[str]) -> Tensors:
        latent, after = stepped(self.lstm, self.features(ports), ports)
        result = {"action": self.head(self.policy_net(latent)), **after}
        if "value" in wanted:
            features = self.value_features(ports)
            if self.value_lstm is not None:
                latent, after = stepped(self.value_lstm, features, ports, prefix=CRITIC)
                result |= after
            elif self.value_linear is not None:
                latent = self.value_linear(features)
            result["value"] = self.value_head(self.value_net(latent))
        return result


class Squashed(SpaceNetwork):
    """SAC, TQC, CrossQ: the mean of a Gaussian that a tanh squashes; gSDE limits it first."""

    def __init__(
        self, ports: Ports, weights: Weights, activation: str, where: str,
        *, clip_mean: float = 2.0, renorm_eps: float = 0.001,
    ) -> None:  # fmt: skip
        super().__init__(ports)
        actor = under(weights, "actor")
        self.features = _features(ports, actor, ("features_extractor",), where)
        latent = under(actor, "latent_pi")
        self.latent = _latent(latent, activation, renorm_eps, f"{where}: actor.latent_pi")
        mean = under(actor, "mu")
        limited = "0.weight" in mean
        self.mean = layer(under(mean, "0") if limited else mean, f"{where}: actor.mu")
        self.limit = nn.Hardtanh(-clip_mean, clip_mean) if limited else nn.Identity()

    def step(self, ports: Tensors, wanted: Collection[str]) -> Tensors:
        return {"action": self.limit(self.mean(self.latent(self.features(ports))))}


class Deterministic(SpaceNetwork):
    """TD3, DDPG: an MLP whose last layer a tanh squashes."""

    def __init__(self, ports: Ports, weights: Weights, activation: str, where: str) -> None:
        super().__init__(ports)
        actor = under(weights, "actor")
        self.features = _features(ports, actor, ("features_extractor",), where)
        self.mean = sequence(under(actor, "mu"), activation, where=f"{where}: actor.mu")

    def step(self, ports: Tensors, wanted: Collection[str]) -> Tensors:
        return {"action": self.mean(self.features(ports))}


class QValues(SpaceNetwork):
    """DQN: one number for each choice; QRDQN: the mean of several."""

    def __init__(
        self, ports: Ports, weights: Weights, activation: str, where: str, *, choices: int
    ) -> None:
        super().__init__(ports)
        name = "quantile_net" if under(weights, "quantile_net") else "q_net"
        own = under(weights, name)
        self.features = _features(ports, own, ("features_extractor",), where)
        self.net = sequence(under(own, name), activation, where=f"{where}: {name}.{name}")
        self.choices = choices

    def step(self, ports: Tensors, wanted: Collection[str]) -> Tensors:
        values = self.net(self.features(ports))
        # The quantiles of all choices stand beside each other, choice by choice.
        values = values.reshape(values.shape[0], -1, self.choices).mean(dim=1)
        best = {"value": values.amax(dim=1, keepdim=True)} if "value" in wanted else {}
        return {"action": values, **best}


class Renorm(nn.Module):
    """CrossQ's batch renormalisation as it acts: by its running statistics."""

    ra_mean: Tensor
    ra_var: Tensor
    scale: Tensor
    bias: Tensor

    def __init__(self, weights: Weights, eps: float) -> None:
        super().__init__()
        for name in ("ra_mean", "ra_var", "scale", "bias"):
            self.register_buffer(name, weights[name].float())
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        centred = (x - self.ra_mean) / (self.ra_var + self.eps).sqrt()
        return self.scale * centred + self.bias


class Shaped(Around):
    """A network whose action is given the shape that the environment's has."""

    def __init__(self, network: Network, shape: tuple[int, ...]) -> None:
        super().__init__(network)
        self.shape = shape

    def step(self, ports: Tensors, wanted: Collection[str]) -> Tensors:
        result = self.network.step(ports, wanted)
        return {**result, "action": result["action"].reshape(-1, *self.shape)}


class Binary(Around):
    """A network whose logits are rounded to yes or no, each by itself."""

    def step(self, ports: Tensors, wanted: Collection[str]) -> Tensors:
        result = self.network.step(ports, wanted)
        logits = {"logits": result["action"]} if "logits" in wanted else {}
        return {**result, "action": result["action"].sigmoid().round().long(), **logits}


class Told(Around):
    """A network that also gives what its action is made of, under these names."""

    def __init__(self, network: Network, raw: Mapping[str, nn.Module]) -> None:
        super().__init__(network)
        self.raw = nn.ModuleDict(dict(raw))

    def step(self, ports: Tensors, wanted: Collection[str]) -> Tensors:
        result = self.network.step(ports, wanted)
        more = {n: each(result["action"]) for n, each in self.raw.items() if n in wanted}
        return {**result, **more}


def _features(ports: Ports, weights: Weights, names: tuple[str, ...], where: str) -> Extractor:
    """The extractor under the first of these names that has weights; without any it flattens."""
    found = next((own for name in names if (own := under(weights, name))), {})
    return Extractor(ports, found, f"{where}: {names[0]}")


def _latent(weights: Weights, activation: str, eps: float, where: str) -> nn.Sequential:
    """An MLP that ends with an activation, or with a renormalisation behind one."""

    def build(own: Weights, at: str) -> nn.Module:
        return Renorm(own, eps) if "ra_mean" in own else layer(own, at)

    normed = any(name.endswith(".ra_mean") for name in weights)
    return sequence(weights, activation, active_end=not normed, where=where, build=build)
