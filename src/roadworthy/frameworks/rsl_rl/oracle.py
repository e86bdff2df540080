"""rsl_rl itself, for files of its versions 4 and 5: its models, and their own call as the truth."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from roadworthy.capture.source import Source
from roadworthy.errors import need
from roadworthy.frameworks.files.opening import Contents
from roadworthy.frameworks.network.actor import Actor, Tensors
from roadworthy.frameworks.network.memory import STATES
from roadworthy.frameworks.reading import Answers
from roadworthy.frameworks.rsl_rl.layout import Layout, layout_of

# As rsl_rl calls them.
_SPELT = {"celu": "crelu", "leaky_relu": "lrelu", "silu": "swish"}
_DISTRIBUTIONS = {
    "heteroscedastic": "HeteroscedasticGaussianDistribution",
    "beta": "BetaDistribution",
}


def act_inference(model: Any, **ports: Tensor) -> Tensors:
    """The deterministic action, and the hidden state after it; the model keeps what it had."""
    state = tuple(ports.pop(name) for name in STATES if name in ports)
    if not state:
        return {"action": model(ports)}
    kept = model.get_hidden_state()
    model.reset(hidden_state=state if len(state) > 1 else state[0])
    try:
        action, after = model(ports), model.get_hidden_state()
    finally:
        model.reset(hidden_state=kept)
    after = after if isinstance(after, tuple) else (after,)
    return {"action": action, **dict(zip(STATES, after, strict=False))}


def predicting(contents: Contents, answers: Answers, source: Source) -> Source | str:
    """The installed rsl_rl's model with these weights; why not, for files of older versions."""
    layout = layout_of(contents)
    if layout.version.startswith(("1", "3")):
        return f"the layout is of version {layout.version}, models are made by versions 4 and 5"
    return replace(source, module=_Predict(_model(layout, answers, source)), normalizer=None)


class _Predict(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **ports: Tensor) -> Tensors:
        return act_inference(self.model, **ports)


def _model(layout: Layout, answers: Answers, source: Source) -> nn.Module:
    models: Any = need("rsl_rl.models", extra="people")
    from tensordict import TensorDict  # which rsl_rl brings

    assert isinstance(source.module, Actor)
    policy: Any = source.module.network
    facts = {fact.name: fact.value for fact in answers.facts}
    spelt = facts["activation"].lower()
    own: dict[str, Any] = {
        "activation": _SPELT.get(spelt, spelt),
        "hidden_dims": _hidden(layout.actor.mlp),
        "obs_normalization": bool(layout.actor.statistics),
        "distribution_cfg": _distribution(layout, policy),
    }
    kind = "MLPModel"
    if policy.cell is not None:
        kind, cell = "RNNModel", policy.cell
        own |= {"rnn_type": type(cell).__name__.lower(), "rnn_hidden_dim": cell.hidden_size,
                "rnn_num_layers": cell.num_layers}  # fmt: skip
    if policy.images:
        kind = "CNNModel"
        own["cnn_cfg"] = {
            n: image.settings(layout.actor.cnns[n]) for n, image in policy.images.items()
        }
    outputs = int(list(layout.actor.mlp.values())[-1].shape[0])
    actions = outputs if policy.head == "deterministic" else outputs // 2
    groups = {layout.role: list(source.example)}
    observed = TensorDict(dict(source.example), batch_size=[1])
    made: nn.Module = getattr(models, kind)(observed, groups, layout.role, actions, **own)
    made.load_state_dict(dict(layout.own))
    return made.eval()


def _distribution(layout: Layout, policy: Any) -> dict[str, Any] | None:
    if policy.head in _DISTRIBUTIONS:
        reach = {"action_range": (policy.low, policy.low + policy.range)}
        more = reach if policy.head == "beta" else {}
        return {"class_name": _DISTRIBUTIONS[policy.head], **more}
    if not layout.noise:
        return None
    spread = "log" if any("log" in name for name in layout.noise) else "scalar"
    return {"class_name": "GaussianDistribution", "std_type": spread}


def _hidden(weights: Mapping[str, Tensor]) -> list[int]:
    places = sorted(int(name.partition(".")[0]) for name in weights if re.search("weight$", name))
    return [int(weights[f"{place}.weight"].shape[0]) for place in places[:-1]]
