"""rl_games: `.pth` files of actor-critics and of SAC, with normaliser, CNN and recurrent layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from roadworthy.capture.source import Source
from roadworthy.frameworks.files.neighbours import AGENT
from roadworthy.frameworks.files.opening import Contents, refuse_bad_weights, state_dict
from roadworthy.frameworks.network.actor import source_of
from roadworthy.frameworks.network.layers import ACTIVATIONS, under
from roadworthy.frameworks.network.statistics import VALUE, normalizer_of
from roadworthy.frameworks.questions import Found, ask_activation, ask_bounds, ask_flag, numbers
from roadworthy.frameworks.reading import DEFAULT, Answers, Reading
from roadworthy.frameworks.rl_games.images import ask_cnn, cnn_text
from roadworthy.frameworks.rl_games.network import Functions, Policy
from roadworthy.frameworks.rl_games.wiring import Wiring, wiring_of
from roadworthy.spec.transforms import (
    ActionStep,
    Argmax,
    Clip,
    MultiDiscrete,
    ScaleToBounds,
    Tanh,
)

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
        answers, [said(AGENT, "params", "network", "mlp", "activation")],
        (f"params.network.mlp.activation in {AGENT}",),
    )  # fmt: skip
    statistics = under(model, "running_mean_std") or _beside(contents)
    cnn = ask_cnn(contents, answers, under(own, "actor_cnn"), statistics)
    normalizer = normalizer_of(statistics)
    answers.note(
        "normalizer",
        "(x - mean) / sqrt(var + 1e-5), clipped at 5" if normalizer
        else "none: the file holds no running_mean_std",
    )  # fmt: skip
    wiring = wiring_of(own, {} if cnn else statistics, answers)
    mean_activation = _ask_function(
        contents, answers, "mu_activation", "means of the action",
        "params", "network", "space", "continuous", "mu_activation",
    ) if wiring.heads == ("mu",) else ""  # fmt: skip
    steps = _ask_steps(contents, answers, wiring)
    absent = _no_value(contents, own)
    value_activation = _ask_function(
        contents, answers, "value_activation", "value", "params", "network", "value_activation",
        default=[("None", DEFAULT)],
    ) if VALUE in answers.outputs else "identity"  # fmt: skip
    answers.note_noise(["sigma"])

    def build(outputs: Sequence[str]) -> Source:
        assert activation is not None
        assert mean_activation is not None
        assert value_activation is not None
        assert steps is not None
        functions = Functions(
            between=activation, mean=mean_activation or "identity", value=value_activation,
            cnn=cnn.activation if cnn and cnn.activation else "identity",
        )  # fmt: skip
        network = Policy(
            own, wiring, functions, contents.where,
            images=cnn.images if cnn else None, statistics=normalizer,
            returns=under(model, "value_mean_std"), valued=VALUE in outputs,
        )  # fmt: skip
        return source_of(network, outputs, steps, None if cnn else normalizer)

    return Reading(
        algorithm="SAC" if wiring.heads == ("trunk",) else "PPO",
        architecture=cnn_text(cnn) + wiring.text + (f", {activation}" if activation else ""),
        normalizers={} if normalizer is None else {"obs": normalizer},
        action=answers.env_action,
        unexplained=tuple(
            name for name in own if not name.startswith((*wiring.used, *_UNUSED))
        ),
        outputs=(
            "action", *(("logits",) if wiring.choices else ("action_raw", "mean")),
            *(() if absent else (VALUE,)),
        ),
        absent=absent,
        build=build,
    )  # fmt: skip


def _no_value(contents: Contents, own: Mapping[str, Tensor]) -> dict[str, str]:
    """Why there is no value; empty where the file has a critic that can be asked."""
    if "assymetric_vf_nets" in contents.tree:
        return {VALUE: "a central critic was trained, which sees more than the policy"}
    if "value.weight" in own:
        return {}
    return {VALUE: "SAC's critics judge actions" if "critic" in contents.tree else "no critic"}


def _ask_function(
    contents: Contents, answers: Answers, name: str, what: str, *path: str, default: Found = ()
) -> str | None:
    """The name of a function that stands behind a layer, as agent.yaml says it."""
    others = (f"{'.'.join(path)} in {AGENT}",)
    said = contents.neighbours.lookup(AGENT, *path)
    return answers.ask(
        name, f"the function behind the {what}; identity for None",
        read=lambda text: text if text in ACTIVATIONS else {"None": "identity"}[text],
        found=[said, *default], choices=tuple(ACTIVATIONS), others=others,
    )  # fmt: skip


def _beside(contents: Contents) -> dict[str, Tensor]:
    """The statistics that SAC writes beside its networks."""
    found = contents.tree.get("running_mean_std")
    return state_dict(found) if isinstance(found, Mapping) else {}


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

    said = _clip_actions(contents.neighbours.settings(AGENT))
    clip = ask_flag(
        answers, "clip_actions", "whether players clamp actions at ±1 and scale them to the bounds",
        [(said, f"{AGENT} (params.config.clip_actions)")],
        (f"params.config.clip_actions in {AGENT}",),
    )  # fmt: skip
    if clip or clip is None:  # all questions at once
        bounds = ask_bounds(answers, wiring.actions, only="where clip_actions is true")
        if bounds is None or clip is None:
            return None
        return Clip(low=-1.0, high=1.0), ScaleToBounds(low=bounds[0], high=bounds[1])
    # IsaacLab's wrapper clips in the environment.
    limit = contents.neighbours.lookup(AGENT, "params", "env", "clip_actions")[0]
    if limit is None:
        return ()
    answers.note("limit of actions", limit, f"{AGENT} (params.env.clip_actions)")
    (reach,) = numbers(str(limit))
    return (Clip(low=-reach, high=reach),)


def _clip_actions(settings: Mapping[str, Any]) -> object:
    """What the settings say; where they are there and silent, the framework's default."""
    params = settings.get("params")
    config = params.get("config") if isinstance(params, Mapping) else None
    return config.get("clip_actions", True) if isinstance(config, Mapping) else None
