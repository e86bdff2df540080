"""Stable-Baselines3: a model, whose policy is captured and whose `predict` is the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from roadworthy.capture.source import Rewriting, Source
from roadworthy.frameworks.adapter import named_after
from roadworthy.frameworks.network.actor import FRAMES
from roadworthy.frameworks.network.memory import STATES
from roadworthy.frameworks.sb3.around import around
from roadworthy.frameworks.sb3.oracle import Predict
from roadworthy.frameworks.spaces import ACTION, about_of, action_of, example_of, ports_of
from roadworthy.spec.port import About


def describe(
    model: Any,
    *,
    vecnormalize: Any = None,
    normalizer: Any = None,
    frame_stack: int | None = None,
    about: Mapping[str, About] | None = None,
    batch: int | None = None,
    period_s: float | None = None,
    ignore: Sequence[str] = (),
) -> Source:
    """The source of a model: what `model.predict(obs, deterministic=True)` answers.

    vecnormalize  the VecNormalize that it was trained behind, or its file; "none" where there was
                  none. Left out, the environment of the model says it, and a model that has no
                  environment is asked about
    normalizer    the statistics of another normaliser: rw.EpsInsideRoot(mean=…, var=…, eps=…)
    frame_stack   it was trained on so many observations at once; the port then takes one
    """
    met = around(model, vecnormalize, normalizer, frame_stack)
    step = named_after(model, Step)(model, met.space, met.frames)
    stated = {name: about_of(space) for name, space in step.spaces.items()}
    source = Source(
        step,
        example=step.example(),
        memory=step.start(),
        normalizer=met.normalizer,
        about={**stated, **dict(about or {})},
        meaning=action_of(model.action_space),
        batch=batch,
        period_s=period_s,
        ignore=ignore,
    )
    # A VecNormalize normalises itself; of the others only the formula is known.
    mask = MASKS if step.choices else None
    truth = Predict(model, met.vecnormalize, alone=step.alone, mask=mask)
    alone = None if met.vecnormalize is None else replace(source, module=truth, normalizer=None)
    rewriting = Rewriting(truth, keywords=met.keywords, alone=alone, notes=met.notes)
    return replace(source, rewritten=rewriting)


MASKS = "action_masks"


class Step(nn.Module):
    """What `predict` does around the networks of a policy, in PyTorch.

    With `frames` the port takes one observation, and the last so many are the memory `frames`.
    """

    low: Tensor | None
    high: Tensor | None

    recorded_in = "roadworthy.adapters.sb3.step"

    def __init__(self, model: Any, observed: Any, frames: int | None) -> None:
        super().__init__()
        self.policy = model.policy
        self.spaces = ports_of(observed)
        self.alone = not hasattr(observed, "spaces")
        self.recurrent = hasattr(self.policy, "lstm_actor")
        self.choices = _choices(model.action_space) if _is_masked(self.policy) else 0
        self.shape = tuple(model.action_space.shape)
        self.frames = frames
        # HWC pictures of the environment become CHW, as `predict` turns them.
        known = ports_of(model.observation_space)
        self.turned = [name for name, space in self.spaces.items()
                       if not frames and space.shape != known[name].shape]  # fmt: skip
        for side in ("low", "high"):
            limits = getattr(model.action_space, side, None)
            value = None if limits is None else torch.as_tensor(np.asarray(limits))
            self.register_buffer(side, value, persistent=False)

    def example(self) -> dict[str, Tensor]:
        masks = {MASKS: torch.ones(1, self.choices, dtype=torch.bool)} if self.choices else {}
        return {name: example_of(space) for name, space in self.spaces.items()} | masks

    def start(self) -> dict[str, Tensor]:
        """The hidden states at the beginning of an episode, for one row."""
        start = {}
        if self.frames:
            (space,) = self.spaces.values()
            start[FRAMES] = torch.zeros(1, self.frames * space.shape[0])
        if self.recurrent:
            cell = self.policy.lstm_actor
            start |= {name: torch.zeros(cell.num_layers, 1, cell.hidden_size) for name in STATES}
        return start

    def forward(self, **ports: Tensor) -> dict[str, Tensor]:
        seen = {name: ports[name] for name in self.spaces}
        seen |= {name: seen[name].permute(0, 3, 1, 2) for name in self.turned}
        obs: Any = next(iter(seen.values())) if self.alone else seen
        after = {}
        if self.frames:
            kept = ports[FRAMES][:, obs.shape[1] :]
            obs = after[FRAMES] = torch.cat([kept, obs.float()], dim=1)
        if self.recurrent:
            return self._recurrent(obs, ports) | after
        masks = {MASKS: ports[MASKS]} if self.choices else {}
        action = self._answer(self.policy._predict(obs, deterministic=True, **masks))
        return {ACTION: action, **after}

    def _recurrent(self, obs: Any, ports: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Without the branch on where episodes start, which the reset of a runtime replaces."""
        policy = self.policy
        features = policy.extract_features(obs, policy.pi_features_extractor)
        states = tuple(ports[name] for name in STATES)
        out, after = policy.lstm_actor(features.unsqueeze(0), states)
        latent = policy.mlp_extractor.forward_actor(out.squeeze(0))
        drawn = policy._get_action_dist_from_latent(latent).get_actions(deterministic=True)
        return {ACTION: self._answer(drawn), **dict(zip(STATES, after, strict=True))}

    def _answer(self, action: Tensor) -> Tensor:
        action = action.reshape(-1, *self.shape)
        if self.low is None or self.high is None:
            return action
        if self.policy.squash_output:
            unscaled: Tensor = self.low + 0.5 * (action + 1.0) * (self.high - self.low)
            return unscaled
        return torch.clamp(action, self.low, self.high)


def _is_masked(policy: Any) -> bool:
    return any("Maskable" in kind.__name__ for kind in type(policy).__mro__)


def _choices(space: Any) -> int:
    """How many numbers a mask has: one for each choice."""
    counts = getattr(space, "nvec", None)
    if counts is not None:
        return int(np.sum(counts))
    return int(2 * np.prod(space.shape)) if space.shape else int(space.n)
