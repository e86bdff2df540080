"""rl_games: a player, whose model is captured and whose `get_action` is the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from roadworthy.capture.source import Rewriting, Source
from roadworthy.errors import UsageError
from roadworthy.frameworks.adapter import named_after
from roadworthy.frameworks.rl_games.oracle import Predict
from roadworthy.frameworks.spaces import ACTION, about_of, action_of, example_of, ports_of
from roadworthy.spec.port import About
from roadworthy.spec.signature import Action


def describe(
    player: Any,
    *,
    about: Mapping[str, About] | None = None,
    batch: int | None = None,
    period_s: float | None = None,
    ignore: Sequence[str] = (),
) -> Source:
    """The source of a player: its deterministic action, clamped and rescaled as it does it."""
    if not hasattr(player, "model"):
        raise UsageError(
            f"{type(player).__name__} has no model to export",
            hint="pass a player that a Runner made: runner.create_player()",
        )
    spaces = ports_of(player.observation_space)
    step = named_after(player, _Step)(player)
    truth = Predict(player, tuple(step.start()), step.named if step.dictionary else ())
    stated = {name: about_of(space) for name, space in spaces.items()}
    return Source(
        step,
        # Players take observations as 32-bit floats; pictures stay bytes.
        example={name: _example(space) for name, space in spaces.items()},
        memory=step.start(),
        about={**stated, **dict(about or {})},
        meaning=_meaning(player),
        batch=batch,
        period_s=period_s,
        ignore=ignore,
        rewritten=Rewriting(truth, keywords=""),
    )


class _Step(nn.Module):
    """One evaluation of the player's model, for any number of rows."""

    recorded_in = "roadworthy.adapters.rl_games"

    def __init__(self, player: Any) -> None:
        super().__init__()
        model = player.model
        self.model = getattr(model, "_orig_mod", model)
        self.named = tuple(ports_of(player.observation_space))
        self.dictionary = hasattr(player.observation_space, "spaces")
        states = self.model.get_default_rnn_state() if player.is_rnn else ()
        self.states = tuple((each.shape[0], each.shape[2]) for each in states)
        self.squashed = hasattr(self.model, "sac_network")
        self.rescaled = not self.squashed and hasattr(player, "actions_low") and player.clip_actions
        if self.squashed:
            self.low, self.high = player.action_range
        elif self.rescaled:
            self.register_buffer("low", player.actions_low.clone(), persistent=False)
            self.register_buffer("high", player.actions_high.clone(), persistent=False)

    def start(self) -> dict[str, Tensor]:
        """The hidden states at the beginning of an episode, for one row."""
        return {
            f"rnn_{index}": torch.zeros(layers, 1, width)
            for index, (layers, width) in enumerate(self.states)
        }

    def observed(self, ports: Mapping[str, Tensor]) -> Any:
        """The observation as the player takes it."""
        if self.dictionary:
            return {name: ports[name] for name in self.named}
        return ports[self.named[0]]

    def forward(self, **ports: Tensor) -> dict[str, Tensor]:
        obs = _as_floats(self.observed(ports))
        if self.squashed:
            normed = self.model.norm_obs(obs)
            return {ACTION: self.model.actor(normed).mean.clamp(self.low, self.high)}
        states = [ports[name] for name in self.start()] or None
        result = self.model(
            {"is_train": False, "prev_actions": None, "obs": obs, "rnn_states": states}
        )
        after = dict(zip(self.start(), result["rnn_states"] or (), strict=True))
        return {ACTION: self.chosen(result), **after}

    def chosen(self, result: Mapping[str, Any]) -> Tensor:
        if "mus" in result:
            mean: Tensor = result["mus"]
            if not self.rescaled:
                return mean
            half, middle = (self.high - self.low) / 2.0, (self.high + self.low) / 2.0
            scaled: Tensor = mean.clamp(-1.0, 1.0) * half + middle
            return scaled
        logits = result["logits"]
        if isinstance(logits, Tensor):
            return logits.argmax(-1)
        return torch.stack([part.argmax(-1) for part in logits], dim=-1)


def _several(player: Any) -> bool:
    return bool(getattr(player, "is_multi_discrete", False))


def _as_floats(obs: Any) -> Any:
    if isinstance(obs, Mapping):
        return {name: _as_floats(value) for name, value in obs.items()}
    return obs.float() / 255.0 if obs.dtype == torch.uint8 else obs


def _example(space: Any) -> Tensor:
    zeros = example_of(space)
    return zeros if zeros.dtype == torch.uint8 else zeros.float()


def _meaning(player: Any) -> Action | None:
    if _several(player):
        sizes = tuple(int(part.n) for part in player.action_space)
        return Action(output=ACTION, kind="multi_discrete", sizes=sizes)
    return action_of(player.action_space)
