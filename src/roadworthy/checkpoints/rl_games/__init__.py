"""rl_games: `.pth` files of actor-critics and of SAC, with their normaliser and recurrent layer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from roadworthy.checkpoints.actor import Actor, Network, Tensors
from roadworthy.checkpoints.layers import ACTIVATIONS, layer, mlp, recurrent, under
from roadworthy.checkpoints.memory import start, stepped
from roadworthy.checkpoints.opening import Contents, refuse_bad_weights, state_dict
from roadworthy.checkpoints.questions import ask_activation, ask_bounds, numbers
from roadworthy.checkpoints.reading import Answers, Reading
from roadworthy.checkpoints.rl_games.wiring import Wiring, wiring_of
from roadworthy.source import Source
from roadworthy.spec.transforms import (
    ActionStep,
    Argmax,
    Clip,
    EpsInsideRoot,
    MultiDiscrete,
    Normalizer,
    ScaleToBounds,
    Tanh,
)

NAME = "rl_games"
SETTINGS = "params/agent.yaml"
# Of the file's weights: what only training reads, and the noise.
_UNUSED = ("value", "critic_", "c_rnn.", "c_layer_norm.", "sigma")


def recognise(contents: Contents) -> str | None:
    """Why the file looks like one of rl_games: the names of its networks."""
    if any(name.startswith("a2c_network.") for name in contents.tensors("model")):
        return "it holds a2c_network in model"
    sac = any(name.startswith("trunk.") for name in contents.tensors("actor"))
    return "it holds an actor with a trunk, and critic_target" if sac and (
        "critic_target" in contents.tree) else None  # fmt: skip


def read(contents: Contents, answers: Answers) -> Reading:
    """What the file says, and what agent.yaml says beside it."""
    model = contents.tensors("model")
    own = under(model, "a2c_network") or contents.tensors("actor")
    refuse_bad_weights(own, contents.where)
    said = contents.neighbours.lookup
    activation = ask_activation(
        answers, [said(SETTINGS, "params", "network", "mlp", "activation")],
        (f"params.network.mlp.activation in {SETTINGS}",),
    )  # fmt: skip
    statistics = under(model, "running_mean_std") or _beside(contents)
    normalizer = _normalizer(statistics, answers)
    wiring = wiring_of(own, statistics, answers)
    mean_activation = _ask_mean_activation(contents, answers) if wiring.heads == ("mu",) else ""
    steps = _ask_steps(contents, answers, wiring)
    answers.note("sigma", "the noise of training, not used")

    def build(outputs: Sequence[str]) -> Source:
        assert activation is not None
        assert mean_activation is not None
        assert steps is not None
        network = Policy(own, wiring, activation, mean_activation, contents.where)
        return Source(
            Actor(network, outputs),
            example={"obs": torch.zeros(1, wiring.inputs)},
            memory=network.memory(),
            normalizer=normalizer,
            action=steps,
        )

    return Reading(
        framework=NAME,
        algorithm="SAC" if wiring.heads == ("trunk",) else "PPO",
        architecture=wiring.text + (f", {activation}" if activation else ""),
        normalizers={} if normalizer is None else {"obs": normalizer},
        action=answers.env.action if answers.env else None,
        facts=tuple(answers.facts),
        questions=tuple(answers.questions),
        unexplained=tuple(
            name for name in own if not name.startswith((*wiring.used, *_UNUSED))
        ),
        outputs=("action", "logits" if wiring.choices else "action_raw"),
        build=build,
    )  # fmt: skip


class Policy(Network):
    """An MLP and a recurrent layer, in either order, and the heads of the action."""

    def __init__(
        self, own: Mapping[str, Tensor], wiring: Wiring, activation: str, last: str, where: str
    ) -> None:
        super().__init__()
        self.wiring = wiring
        sac = wiring.heads == ("trunk",)
        body = under(own, "trunk" if sac else "actor_mlp")
        self.body = mlp(body, activation, active_end=not sac, where=where)
        self.cell = recurrent(under(own, wiring.cell), where) if wiring.cell else None
        norm = under(own, wiring.norm) if wiring.norm else {}
        self.norm = layer(norm, where) if norm else None
        heads = () if sac else wiring.heads
        self.heads = nn.ModuleList(layer(under(own, name), f"{where}: {name}") for name in heads)
        self.last = ACTIVATIONS[last]() if last else nn.Identity()

    def memory(self) -> Tensors:
        return start(self.cell) if self.cell is not None else {}

    def step(self, ports: Tensors, wanted: Collection[str]) -> Tensors:
        latent, after = self._latent(ports)
        if self.heads:
            action = self.last(torch.cat([head(latent) for head in self.heads], dim=-1))
        else:
            action = latent.chunk(2, dim=-1)[0]  # the other half is the deviation
        return dict.fromkeys(("action", *wanted), action) | after

    def _latent(self, ports: Tensors) -> tuple[Tensor, Tensors]:
        obs = ports["obs"]
        if self.cell is None:
            return self.body(obs), {}
        given = obs if self.wiring.before_mlp else self.body(obs)
        if self.wiring.with_input:
            given = torch.cat([given, obs], dim=-1)
        out, after = stepped(self.cell, given, ports)
        if self.norm is not None:
            out = self.norm(out)
        if self.wiring.with_output:
            out = torch.cat([out, obs], dim=-1)
        return self.body(out) if self.wiring.before_mlp else out, after


def _beside(contents: Contents) -> dict[str, Tensor]:
    """The statistics that SAC writes beside its networks."""
    found = contents.tree.get("running_mean_std")
    return state_dict(found) if isinstance(found, Mapping) else {}


def _normalizer(statistics: Mapping[str, Tensor], answers: Answers) -> Normalizer | None:
    mean, var = statistics.get("running_mean"), statistics.get("running_var")
    if mean is None or var is None:
        answers.note("normalizer", "none: the file holds no running_mean_std")
        return None
    answers.note("normalizer", "(x - mean) / sqrt(var + 1e-5), clipped at 5")
    return EpsInsideRoot(mean=mean.float(), var=var.float(), eps=1e-5, clip=5.0)


def _ask_mean_activation(contents: Contents, answers: Answers) -> str | None:
    path = ("params", "network", "space", "continuous", "mu_activation")
    return answers.ask(
        "mu_activation",
        "the function behind the means of the action; identity for None",
        read=lambda text: text if text in ACTIVATIONS else {"None": "identity"}[text],
        found=[contents.neighbours.lookup(SETTINGS, *path)],
        choices=tuple(ACTIVATIONS),
        others=(f"{'.'.join(path)} in {SETTINGS}",),
    )


def _ask_steps(
    contents: Contents, answers: Answers, wiring: Wiring
) -> tuple[ActionStep, ...] | None:
    """What players do to the numbers of the network."""
    if wiring.choices:
        one = len(wiring.choices) == 1
        return (Argmax(),) if one else (MultiDiscrete(sizes=wiring.choices),)
    if wiring.heads == ("trunk",):
        bounds = ask_bounds(answers, wiring.actions)
        if bounds is None:
            return None
        return Tanh(), Clip(low=min(bounds[0]), high=max(bounds[1]))

    def read(text: str) -> bool:
        return {"true": True, "false": False}[text.lower()]

    settings = contents.neighbours.settings(SETTINGS)
    clip = answers.ask(
        "clip_actions", "whether players clamp actions at ±1 and scale them to the bounds",
        read=read, found=[(_clip_actions(settings), f"{SETTINGS} (params.config.clip_actions)")],
        choices=("true", "false"), others=(f"params.config.clip_actions in {SETTINGS}",),
    )  # fmt: skip
    if clip:
        bounds = ask_bounds(answers, wiring.actions)
        if bounds is None:
            return None
        return Clip(low=-1.0, high=1.0), ScaleToBounds(low=bounds[0], high=bounds[1])
    if clip is None:
        return None
    # IsaacLab's wrapper clips in the environment.
    limit = contents.neighbours.lookup(SETTINGS, "params", "env", "clip_actions")[0]
    if limit is None:
        return ()
    answers.note("limit of actions", limit, f"{SETTINGS} (params.env.clip_actions)")
    (reach,) = numbers(str(limit))
    return (Clip(low=-reach, high=reach),)


def _clip_actions(settings: Mapping[str, Any]) -> object:
    """What the settings say; where they are there and silent, the framework's default."""
    params = settings.get("params")
    config = params.get("config") if isinstance(params, Mapping) else None
    return config.get("clip_actions", True) if isinstance(config, Mapping) else None
