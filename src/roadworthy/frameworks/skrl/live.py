"""skrl: a model, or the agent that holds it and its preprocessor; evaluated without exploration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from roadworthy.capture.source import Rewriting, Source
from roadworthy.frameworks.adapter import named_after
from roadworthy.frameworks.spaces import ACTION, OBS, action_of
from roadworthy.spec.port import About
from roadworthy.spec.transforms import ActionStep

OBSERVATIONS = "observations"
# Behind every schedule of exploration.
LATE = 10**9


def describe(
    policy: Any,
    *,
    example: Any = None,
    action: ActionStep | Sequence[ActionStep] = (),
    about: Mapping[str, About] | None = None,
    batch: int | None = None,
    period_s: float | None = None,
    ignore: Sequence[str] = (),
    role: str | None = None,
) -> Source:
    """The source of a model or an agent: `mean_actions`, or the most probable choice.

    role    what the model plays; left out, "policy", and "q_network" for an agent of that kind
    """
    agent = None if isinstance(policy, nn.Module) else policy
    model: Any = policy if agent is None else getattr(agent, "policy", None)
    if model is None and agent is not None:
        model, role = agent.q_network, role or "q_network"
    step = named_after(model, Step)(model, _preprocessor(agent), role or "policy")
    given = example if example is not None else torch.zeros(1, int(model.num_observations))
    return Source(
        step,
        example={OBS: next(iter(given.values())) if isinstance(given, Mapping) else given},
        memory=step.start(),
        action=action,
        about=dict(about or {}),
        meaning=None if action else action_of(model.action_space),
        batch=batch,
        period_s=period_s,
        ignore=ignore,
        rewritten=None if agent is None else _rewriting(agent, step),
    )


class Step(nn.Module):
    """One evaluation of a model, behind the agent's preprocessor."""

    recorded_in = "roadworthy.adapters.skrl"

    def __init__(self, model: Any, preprocessor: nn.Module | None, role: str) -> None:
        super().__init__()
        self.policy = model
        self.preprocessor = preprocessor
        self.role = role
        # Version 2 tells observations from privileged states; before it they were all states.
        self.key = OBSERVATIONS if hasattr(model, "state_space") else "states"
        self.sizes = model.get_specification().get("rnn", {}).get("sizes", ())

    def start(self) -> dict[str, Tensor]:
        """The hidden states at the beginning of an episode, for one row."""
        return {
            f"rnn_{index}": torch.zeros(layers, 1, width)
            for index, (layers, _, width) in enumerate(self.sizes)
        }

    def forward(self, **ports: Tensor) -> dict[str, Tensor]:
        observations = ports[OBS]
        if self.preprocessor is not None:
            observations = self.preprocessor(observations)
        inputs: dict[str, Any] = {self.key: observations}
        if self.sizes:
            inputs["rnn"] = [ports[name] for name in self.start()]
        first, *_, outputs = self.policy.act(inputs, role=self.role)
        return self.results(first, outputs)

    def results(self, first: Tensor, outputs: Mapping[str, Any]) -> dict[str, Tensor]:
        """The action of an evaluation, and the next hidden states."""
        after = dict(zip(self.start(), outputs.get("rnn", ()), strict=True))
        return {ACTION: self.chosen(first, outputs), **after}

    def chosen(self, first: Tensor, outputs: Mapping[str, Any]) -> Tensor:
        if self.role == "q_network":
            return first.argmax(-1)
        if "net_output" not in outputs:
            action: Tensor = outputs.get("mean_actions", first)
            return action
        logits = outputs["net_output"]
        counts = getattr(self.policy.action_space, "nvec", None)
        if counts is None:
            choice: Tensor = logits.argmax(-1)
            return choice
        parts = torch.split(logits, [int(count) for count in counts], dim=-1)
        return torch.stack([part.argmax(-1) for part in parts], dim=-1)


class _AgentStep(nn.Module):
    """The same as the agent does it; what it draws is not what an evaluation takes."""

    def __init__(self, agent: Any, step: Step) -> None:
        super().__init__()
        self.step = step
        self.agent = [agent]

    def forward(self, **ports: Tensor) -> dict[str, Tensor]:
        observations = ports[OBS]
        late = {"timestep": LATE, "timesteps": LATE}
        new = self.step.key == OBSERVATIONS
        arguments = (observations, None) if new else (observations,)
        first, *_, outputs = self.agent[0].act(*arguments, **late)
        return self.step.results(first, outputs)


def _rewriting(agent: Any, step: Step) -> Rewriting | None:
    """The agent's own `act`, where it gives more than an action with noise on it."""
    name = next(each.__name__ for each in type(step.policy).__mro__ if "Mixin" in each.__name__)
    if step.sizes or step.role == "q_network" or name.startswith("Deterministic"):
        return None
    return Rewriting(named_after(agent, _AgentStep)(agent, step), keywords="")


def _preprocessor(agent: Any) -> nn.Module | None:
    for name in ("_observation_preprocessor", "_state_preprocessor"):
        found = getattr(agent, name, None)
        if found is not None:
            return found if isinstance(found, nn.Module) else None
    return None
