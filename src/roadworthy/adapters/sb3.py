"""Stable-Baselines3: a model, whose policy is captured and whose `predict` is the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from roadworthy.adapters.naming import named_after
from roadworthy.adapters.spaces import ACTION, about_of, action_of, example_of, ports_of
from roadworthy.errors import UsageError
from roadworthy.source import Rewriting, Source
from roadworthy.spec.port import About, Array

STATES = ("h", "c")
MASKS = "action_masks"


def describe(
    model: Any,
    *,
    vecnormalize: Any = None,
    about: Mapping[str, About] | None = None,
    batch: int | None = None,
    period_s: float | None = None,
    ignore: Sequence[str] = (),
) -> Source:
    """The source of a model: what `model.predict(obs, deterministic=True)` answers.

    vecnormalize  the VecNormalize that it was trained behind; left out, the one around the
                  environment of the model, if there is one
    """
    wrappers = _wrappers(model.get_env())
    statistics = vecnormalize if vecnormalize is not None else wrappers.get("VecNormalize")
    if statistics is not None and not hasattr(statistics, "normalize_obs"):
        raise UsageError(
            f"vecnormalize= is a {type(statistics).__name__}, expected a VecNormalize",
            hint="VecNormalize.load('vecnormalize.pkl', venv)",
        )
    observed = wrappers.get("VecTransposeImage", model).observation_space
    if "VecTransposeImage" in wrappers:
        observed = wrappers["VecTransposeImage"].venv.observation_space
    step = named_after(model, _Step)(model, observed, statistics)
    stated = {name: about_of(space) for name, space in step.spaces.items()}
    return Source(
        step,
        example=step.example(),
        memory=step.start(),
        about={**stated, **dict(about or {})},
        meaning=action_of(model.action_space),
        batch=batch,
        period_s=period_s,
        ignore=ignore,
        rewritten=Rewriting(
            _Predict(model, step), keywords="vecnormalize=vecnormalize" if vecnormalize else ""
        ),
    )


class _Step(nn.Module):
    """What `predict` does around the networks of a policy, in PyTorch."""

    low: Tensor | None
    high: Tensor | None

    def __init__(self, model: Any, observed: Any, statistics: Any) -> None:
        super().__init__()
        self.policy = model.policy
        self.spaces = ports_of(observed)
        self.alone = not hasattr(observed, "spaces")
        self.recurrent = hasattr(self.policy, "lstm_actor")
        self.choices = _choices(model.action_space) if _is_masked(self.policy) else 0
        self.shape = tuple(model.action_space.shape)
        self.statistics = [statistics]
        # HWC pictures of the environment become CHW, as `predict` turns them.
        known = ports_of(model.observation_space)
        self.turned = [name for name, space in self.spaces.items()
                       if space.shape != known[name].shape]  # fmt: skip
        for side in ("low", "high"):
            limits = getattr(model.action_space, side, None)
            value = None if limits is None else torch.as_tensor(np.asarray(limits))
            self.register_buffer(side, value, persistent=False)
        for name, (mean, spread) in _statistics(statistics, list(self.spaces)).items():
            self.register_buffer(f"{name}_mean", torch.from_numpy(mean).float(), persistent=False)
            self.register_buffer(f"{name}_std", torch.from_numpy(spread).float(), persistent=False)

    def example(self) -> dict[str, Tensor]:
        masks = {MASKS: torch.ones(1, self.choices, dtype=torch.bool)} if self.choices else {}
        return {name: example_of(space) for name, space in self.spaces.items()} | masks

    def start(self) -> dict[str, Tensor]:
        """The hidden states at the beginning of an episode, for one row."""
        if not self.recurrent:
            return {}
        cell = self.policy.lstm_actor
        return {name: torch.zeros(cell.num_layers, 1, cell.hidden_size) for name in STATES}

    def forward(self, **ports: Tensor) -> dict[str, Tensor]:
        seen = {name: self._normalized(name, ports[name]) for name in self.spaces}
        seen |= {name: seen[name].permute(0, 3, 1, 2) for name in self.turned}
        obs = next(iter(seen.values())) if self.alone else seen
        if self.recurrent:
            return self._recurrent(obs, ports)
        masks = {MASKS: ports[MASKS]} if self.choices else {}
        return {ACTION: self._answer(self.policy._predict(obs, deterministic=True, **masks))}

    def _recurrent(self, obs: Any, ports: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Without the branch on where episodes start, which the reset of a runtime replaces."""
        policy = self.policy
        features = policy.extract_features(obs, policy.pi_features_extractor)
        states = tuple(ports[name] for name in STATES)
        out, after = policy.lstm_actor(features.unsqueeze(0), states)
        latent = policy.mlp_extractor.forward_actor(out.squeeze(0))
        drawn = policy._get_action_dist_from_latent(latent).get_actions(deterministic=True)
        return {ACTION: self._answer(drawn), **dict(zip(STATES, after, strict=True))}

    def _normalized(self, name: str, value: Tensor) -> Tensor:
        mean = getattr(self, f"{name}_mean", None)
        if mean is None:
            return value
        limit = float(self.statistics[0].clip_obs)
        scaled: Tensor = (value.float() - mean) / getattr(self, f"{name}_std")
        return scaled.clamp(-limit, limit)

    def _answer(self, action: Tensor) -> Tensor:
        action = action.reshape(-1, *self.shape)
        if self.low is None or self.high is None:
            return action
        if self.policy.squash_output:
            unscaled: Tensor = self.low + 0.5 * (action + 1.0) * (self.high - self.low)
            return unscaled
        return torch.clamp(action, self.low, self.high)


class _Predict(nn.Module):
    """`predict` itself, behind the model's own VecNormalize."""

    def __init__(self, model: Any, step: _Step) -> None:
        super().__init__()
        self.step = step
        self.model = [model]

    def forward(self, **ports: Tensor) -> dict[str, Tensor]:
        step = self.step
        arrays: Any = {name: ports[name].numpy() for name in step.spaces}
        arrays = next(iter(arrays.values())) if step.alone else arrays
        if step.statistics[0] is not None:
            arrays = step.statistics[0].normalize_obs(arrays)
        said: dict[str, Any] = {"deterministic": True}
        if step.choices:
            said[MASKS] = ports[MASKS].numpy()
        if step.recurrent:
            said["state"] = tuple(ports[name].numpy() for name in STATES)
            said["episode_start"] = np.zeros(ports[STATES[0]].shape[1], dtype=bool)
        action, state = self.model[0].predict(arrays, **said)
        after = dict(zip(STATES, map(torch.as_tensor, state), strict=True)) if state else {}
        return {ACTION: torch.as_tensor(action), **after}


def _wrappers(env: Any) -> dict[str, Any]:
    """Class → wrapper, of all that are around an environment of Stable-Baselines3."""
    found: dict[str, Any] = {}
    while env is not None:
        found.setdefault(type(env).__name__, env)
        env = getattr(env, "venv", None)
    return found


def _statistics(wrapper: Any, names: Sequence[str]) -> dict[str, tuple[Array, Array]]:
    """Port → mean, and the root of variance and epsilon, of what a VecNormalize normalises."""
    if wrapper is None or not wrapper.norm_obs:
        return {}
    running = wrapper.obs_rms if isinstance(wrapper.obs_rms, dict) else {names[0]: wrapper.obs_rms}
    return {
        name: (np.asarray(each.mean), np.sqrt(np.asarray(each.var) + wrapper.epsilon))
        for name, each in running.items()
    }


def _is_masked(policy: Any) -> bool:
    return any("Maskable" in kind.__name__ for kind in type(policy).__mro__)


def _choices(space: Any) -> int:
    """How many numbers a mask has: one for each choice."""
    counts = getattr(space, "nvec", None)
    if counts is not None:
        return int(np.sum(counts))
    return int(2 * np.prod(space.shape)) if space.shape else int(space.n)
