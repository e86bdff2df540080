"""rl_games itself, for files that the user trusts: a player with these weights, and its action."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from roadworthy.capture.source import Source
from roadworthy.errors import need
from roadworthy.frameworks.files.opening import Contents
from roadworthy.frameworks.network.actor import Actor, Tensors
from roadworthy.frameworks.network.layers import kernels_of, places, under
from roadworthy.frameworks.network.memory import STATES
from roadworthy.frameworks.reading import Answers
from roadworthy.frameworks.rl_games.network import Policy
from roadworthy.frameworks.spaces import action_box, observation_box
from roadworthy.spec.signature import Action
from roadworthy.spec.transforms import ScaleToBounds

# As rl_games calls them, where that is another name.
_SPELT = {"identity": "None", "silu": "swish"}
_KNOWN = {"relu", "tanh", "sigmoid", "elu", "selu", "swish", "gelu", "softplus", "None"}


def predicting(contents: Contents, answers: Answers, source: Source) -> Source | str:
    """A player's own `get_action` with the ports of `source`, or why there is none."""
    actor = source.module
    assert isinstance(actor, Actor)
    policy = actor.network
    assert isinstance(policy, Policy)
    own = under(contents.tensors("model"), "a2c_network") or contents.tensors("actor")
    facts = {fact.name: fact.value for fact in answers.facts}
    network = _network(own, policy, facts)
    if isinstance(network, str):
        return network
    scaled = any(isinstance(step, ScaleToBounds) for step in source.steps)
    player = _player(contents, source, policy, network, facts, scaled)
    clips = not scaled and policy.actor.wiring.heads == ("mu",)
    return replace(
        source,
        module=Predict(player, STATES),
        normalizer=None,
        # A clip of IsaacLab's wrapper stands behind the player.
        action=source.steps if clips else (),
        meaning=source.meaning or Action(output="action", kind="continuous"),
    )


class Predict(nn.Module):
    """`player.get_action`, by name: observations and memory in, the action and memory out.

    observed  the names of the observations, where the player takes a dictionary of them
    states    the names of its memory
    """

    def __init__(self, player: Any, states: Sequence[str], observed: Sequence[str] = ()) -> None:
        super().__init__()
        self.player, self.states, self.observed = [player], tuple(states), tuple(observed)

    def forward(self, **ports: Tensor) -> Tensors:
        player = self.player[0]
        own = [ports[name] for name in self.states if name in ports]
        first = next(value for name, value in ports.items() if name not in self.states)
        obs = {name: ports[name] for name in self.observed} if self.observed else first
        # A critic of its own has as many states behind them, which do not reach the action.
        count = len(player.model.get_default_rnn_state() or ()) if player.is_rnn else 0
        kept = player.states, player.has_batch_dimension
        player.has_batch_dimension = True
        player.states = [*own, *(torch.zeros_like(each) for each in own)][:count] or None
        try:
            action = player.get_action(obs, is_deterministic=True)
            after = dict(zip(self.states, (player.states or ())[: len(own)], strict=False))
        finally:
            player.states, player.has_batch_dimension = kept
        several = action.is_floating_point() or getattr(player, "is_multi_discrete", False)
        # It squeezes choices, and with them the axis of a single row.
        parts = action.shape[-1:] if several else ()
        return {"action": action.reshape(first.shape[0], *parts), **after}


def _network(
    own: Mapping[str, Tensor], policy: Policy, facts: Mapping[str, str]
) -> dict[str, Any] | str:
    """The section `network` of an agent.yaml that makes the same network, or why there is none."""
    wiring = policy.actor.wiring
    body = under(own, "trunk" if wiring.heads == ("trunk",) else "actor_mlp")
    shapes = [body[f"{place}.weight"].shape for place in places(body)]
    if any(len(shape) != 2 for shape in shapes):
        return "its MLP has norms, which are not described to rl_games again"
    names = ("activation", "cnn_activation", "mu_activation")
    words = {n: _spelt(facts.get(n, "None")) for n in names}
    if strange := sorted(set(words.values()) - _KNOWN):
        return f"rl_games has no activation {strange[0]}"
    units = [int(shape[0]) for shape in shapes]
    plain = {"name": "default"}
    made: dict[str, Any] = {
        "name": "actor_critic",
        "separate": any(name.startswith(("critic_mlp.", "critic_cnn.", "c_rnn.")) for name in own),
        "mlp": {"units": units, "activation": words["activation"], "initializer": plain},
        "space": _space(own, words["mu_activation"]),
    }
    if wiring.heads == ("trunk",):
        made |= {"name": "soft_actor_critic", "log_std_bounds": [-5, 2]}
        made["mlp"]["units"] = units[:-1]
    if wiring.cell:
        cell = policy.actor.cell
        assert cell is not None
        made["rnn"] = {
            "name": type(cell).__name__.lower(), "units": cell.hidden_size,
            "layers": cell.num_layers, "before_mlp": wiring.before_mlp,
            "layer_norm": bool(wiring.norm), "concat_input": wiring.with_input,
            "concat_output": wiring.with_output,
        }  # fmt: skip
    cnn = under(own, "actor_cnn")
    if cnn:
        assert policy.images is not None
        if any(value.ndim == 1 for name, value in cnn.items() if name.endswith("running_mean")):
            made["normalization"] = "batch_norm"
        steps = zip(kernels_of(cnn), policy.images.steps, strict=True)
        made["cnn"] = {
            "type": "conv2d", "activation": words["cnn_activation"], "initializer": plain,
            "permute_input": policy.images.channels_last,
            "convs": [{"filters": int(kernel.shape[0]), "kernel_size": list(kernel.shape[2:]),
                       "strides": stride, "padding": padding}
                      for kernel, (stride, padding) in steps],
        }  # fmt: skip
    return made


def _space(own: Mapping[str, Tensor], mean: str) -> dict[str, Any]:
    if "logits.weight" in own:
        return {"discrete": {}}
    if under(own, "logits"):
        return {"multi_discrete": {}}
    plain = {"name": "default"}
    return {"continuous": {
        "mu_activation": mean, "sigma_activation": "None", "mu_init": plain, "sigma_init": plain,
        "fixed_sigma": "sigma" in own,
    }}  # fmt: skip


def _player(
    contents: Contents,
    source: Source,
    policy: Policy,
    network: Mapping[str, Any],
    facts: Mapping[str, str],
    scaled: bool,
) -> Any:
    runner: Any = need("rl_games.torch_runner", extra="people")
    spaces: Any = need("gymnasium.spaces", extra="gym")
    model = contents.tensors("model")
    seen = observation_box(source.example["obs"])
    kind = next(iter(network["space"]))
    sac = network["name"] == "soft_actor_critic"
    model_name = "continuous_a2c_logstd" if kind == "continuous" else f"{kind}_a2c"
    algorithm = f"a2c_{'continuous' if kind == 'continuous' else 'discrete'}"
    normalized = bool(under(model, "running_mean_std")) or "running_mean_std" in contents.tree
    settings = {
        "seed": 0,
        "algo": {"name": "sac" if sac else algorithm},
        "model": {"name": "soft_actor_critic" if sac else model_name},
        "network": dict(network),
        "config": {
            "env_name": "none", "reward_shaper": {}, "device_name": "cpu", "num_actors": 1,
            "normalize_input": normalized,
            "normalize_value": bool(under(model, "value_mean_std")),
            "clip_actions": scaled, "torch_compile": False,
            "env_info": {
                "observation_space": seen, "action_space": _actions(spaces, policy, facts),
                "value_size": int(model["a2c_network.value.weight"].shape[0]) if model else 1,
            },
        },
    }  # fmt: skip
    threads = torch.get_num_threads()
    with contextlib.redirect_stdout(io.StringIO()):  # it tells what it does
        made = runner.Runner()
        made.load({"params": settings})
        player = made.create_player()
        if sac:  # whose own `restore` asks for critics, which a player has not
            player.model.sac_network.actor.load_state_dict(contents.tensors("actor"))
            if normalized:
                statistics = contents.tensors("running_mean_std")
                player.model.running_mean_std.load_state_dict(statistics)
        else:
            player.restore(str(contents.path))
    torch.set_num_threads(threads)  # a Runner takes four
    return player


def _actions(spaces: Any, policy: Policy, facts: Mapping[str, str]) -> Any:
    wiring = policy.actor.wiring
    if len(wiring.choices) == 1:
        return spaces.Discrete(wiring.choices[0])
    if wiring.choices:
        return spaces.Tuple([spaces.Discrete(each) for each in wiring.choices])
    return action_box(facts, wiring.actions, limit=1.0)


def _spelt(name: str) -> str:
    return _SPELT.get(name.lower(), name)
