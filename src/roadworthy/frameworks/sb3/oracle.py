"""Stable-Baselines3 itself, for files that the user trusts: it unpickles them, which runs code."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from roadworthy.capture.source import Source
from roadworthy.errors import UsageError, need
from roadworthy.frameworks.files.opening import Contents
from roadworthy.frameworks.network.actor import FRAMES, Tensors
from roadworthy.frameworks.network.memory import STATES
from roadworthy.frameworks.reading import Answers, Loaded
from roadworthy.frameworks.sb3.settings import NAME, algorithm_of, version_of
from roadworthy.frameworks.sb3.statistics import ask_statistics
from roadworthy.frameworks.spaces import OBS
from roadworthy.spec.signature import Action
from roadworthy.spec.transforms import Argmax, MultiDiscrete


def live(contents: Contents, answers: Answers) -> Loaded:
    """The model as the installed Stable-Baselines3 loads it, which runs what is pickled in it."""
    model = _model(contents)
    path = ask_statistics(contents, answers)
    used: object = "none" if path is None else _unpickled(path)
    stack = {} if answers.frame_stack is None else {"frame_stack": answers.frame_stack}
    return Loaded(
        model=model,
        keywords={"vecnormalize": used, **stack},
        framework=NAME,
        version=version_of(contents),
        algorithm=type(model).__name__,
        facts=tuple(answers.facts),
        questions=tuple(answers.questions),
    )


def _model(contents: Contents) -> Any:
    """The model on the CPU, by the installed Stable-Baselines3 or sb3-contrib."""
    name = algorithm_of(contents)
    for package in ("stable_baselines3", "sb3_contrib"):
        kind = getattr(need(package, extra="sb3"), name, None)
        if kind is not None:
            return _load(kind, contents)
    raise UsageError(f"no installed version has {name}", where=contents.where)


def _load(kind: Any, contents: Contents) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of each class that it cannot find it warns first
            return kind.load(contents.path, device="cpu")
    except Exception as error:  # whatever the code in the file, or the lack of it, raises
        raise UsageError(
            f"{kind.__name__}.load cannot read it: {type(error).__name__}: "
            f"{(str(error).strip() or '-').splitlines()[0]}",
            where=contents.where,
            hint="the code that it was trained with must be importable: PYTHONPATH=its_folder "
            "roadworthy …",
        ) from error


def predicting(contents: Contents, answers: Answers, source: Source) -> Source:
    """The framework's own `predict` as a source with the ports of `source`."""
    path = (answers.vecnormalize or contents.neighbours.statistics) if source.normalizer else None
    model = _model(contents)
    mask = next((s.mask for s in source.steps if isinstance(s, (Argmax, MultiDiscrete))), None)
    example = dict(source.example)
    if mask is not None:
        example[mask] = torch.ones(1, model.policy.action_net.out_features, dtype=torch.bool)
    return replace(
        source,
        module=Predict(
            model,
            None if path is None else _unpickled(path),
            alone=list(source.example) == [OBS],
            mask=mask,
            whole=type(model.action_space).__name__ == "MultiBinary",
        ),
        example=example,
        normalizer=None,
        action=(),
        meaning=source.meaning or Action(output="action", kind="continuous"),
    )


def _unpickled(path: Path) -> Any:
    """The VecNormalize in a file, unpickled."""
    return pickle.loads(path.read_bytes())


class Predict(nn.Module):
    """`model.predict`, by name: observations and memory in, the action and memory out.

    statistics  the VecNormalize in front of the model
    alone       whether it takes the one observation, and no dictionary
    mask        the port of its action masks
    whole       whether the action is given as int64, as the rebuilt actor gives it
    """

    def __init__(
        self, model: Any, statistics: Any, *, alone: bool, mask: str | None, whole: bool = False
    ) -> None:
        super().__init__()
        self.model, self.statistics = [model], [statistics]
        self.alone, self.mask, self.whole = alone, mask, whole

    def forward(self, **ports: Tensor) -> Tensors:
        arrays: dict[str, Any] = {name: value.numpy() for name, value in ports.items()}
        said: dict[str, Any] = {"deterministic": True}
        if self.mask is not None:
            said["action_masks"] = arrays.pop(self.mask)
        if STATES[0] in arrays:
            said["state"] = tuple(arrays.pop(name) for name in STATES)
            said["episode_start"] = np.zeros(said["state"][0].shape[1], dtype=bool)
        frames = arrays.pop(FRAMES, None)
        observation = next(iter(arrays.values())) if self.alone else arrays
        if self.statistics[0] is not None:
            observation = self.statistics[0].normalize_obs(observation)
        begun = {}
        if frames is not None:
            observation = _stacked(frames, observation)
            begun[FRAMES] = torch.from_numpy(observation)
        action, state = self.model[0].predict(observation, **said)
        after = dict(zip(STATES, map(torch.as_tensor, state), strict=True)) if state else {}
        chosen = torch.as_tensor(action)
        return {"action": chosen.long() if self.whole else chosen, **begun, **after}


def _stacked(frames: Any, newest: Any) -> Any:
    """The stack with the newest observation at its end; the axis is where the sizes differ."""
    axis = next(
        (
            axis
            for axis in range(frames.ndim - 1, 0, -1)
            if frames.shape[axis] != newest.shape[axis]
        ),
        frames.ndim - 1,
    )
    size = newest.shape[axis]
    kept = np.take(frames, np.arange(size, frames.shape[axis]), axis=axis)
    return np.concatenate([kept, newest], axis=axis).astype(frames.dtype)
