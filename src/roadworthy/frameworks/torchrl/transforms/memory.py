"""Transforms that remember: buffers and flags become memory, and a reset is its initial value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial

import torch
from tensordict import unravel_key
from torch import Tensor, nn

from roadworthy.frameworks.torchrl.keys import NestedKey, key_path
from roadworthy.frameworks.torchrl.transforms.key_rule import (
    Apply,
    Computation,
    KeyRule,
    PlacedTransform,
    RuleBuilder,
)


class LastFrames(nn.Module):
    """The last `count` frames side by side along an axis, the newest last."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, frame: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        size = frame.shape[self.axis]
        older = frames.narrow(self.axis, size, frames.shape[self.axis] - size)
        moved = torch.cat([older, frame], self.axis)
        return moved, moved.clone()


class LastFramesOfOne(LastFrames):
    """The same, where the first frame of an episode stands for all before it."""

    def forward(  # type: ignore[override]
        self, frame: Tensor, frames: Tensor, started: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        moved, _ = super().forward(frame, frames)
        count = frames.shape[self.axis] // frame.shape[self.axis]
        alone = torch.cat([frame] * count, self.axis)
        known = started.reshape(-1, *[1] * (frame.ndim - 1))
        seen = torch.where(known, moved, alone)
        return seen, seen.clone(), torch.ones_like(started)


class LargestOfFrames(nn.Module):
    """The largest of the last frames, element by element; before the first they are zero."""

    def forward(self, frame: Tensor, older: Tensor) -> tuple[Tensor, Tensor]:
        frames = torch.cat([frame.unsqueeze(1), older], 1)
        return frames.amax(1), frames[:, :-1].clone()


class Counter(nn.Module):
    """The number of steps since the reset; then one more."""

    def forward(self, count: Tensor) -> tuple[Tensor, Tensor]:
        return count.clone(), count + 1


class FirstStep(nn.Module):
    """True at the first step after a reset; then false."""

    def forward(self, first: Tensor) -> tuple[Tensor, Tensor]:
        return first.clone(), torch.zeros_like(first)


class Constant(nn.Module):
    """The same value at every step."""

    def forward(self, value: Tensor) -> tuple[Tensor, Tensor]:
        return value.clone(), value.clone()


def cat_frames(placed: PlacedTransform) -> Iterator[KeyRule]:
    """Rules that put the last frames of each key side by side."""
    transform = placed.transform
    where = [name for name in ("as_inverse", "future") if getattr(transform, name)]
    if where or transform.mask_key is not None:
        raise placed.refused(
            f"has {(where or ['mask_key'])[0]}, which works on samples of a replay buffer",
            hint="leave it out of the transforms",
        )

    def computation(key: NestedKey) -> Computation:
        frame = _frame(placed, key, f"_cat_buffers_{key}", divided=(transform.dim, transform.N))
        axis = frame.ndim + transform.dim
        name = _name(placed, key)
        frames = torch.cat(
            [frame.new_full(frame.shape, transform.padding_value)] * transform.N, axis
        )
        if transform.padding == "constant":
            return LastFrames(axis), {name: frames}
        return LastFramesOfOne(axis), {
            name: torch.zeros_like(frames), f"{name}_started": torch.zeros(1, 1, dtype=torch.bool),
        }  # fmt: skip

    yield from placed.rules_by_key(computation)


def time_max_pool(placed: PlacedTransform) -> Iterator[KeyRule]:
    """Rules that give the largest of the last frames of each key."""
    transform = placed.transform

    def computation(key: NestedKey) -> Computation:
        frame = _frame(placed, key, transform._buffer_name(key), stacked=True)
        if transform.buffer_size == 1:
            return Apply(torch.clone), {}
        older = frame.new_zeros((1, transform.buffer_size - 1, *frame.shape[1:]))
        return LargestOfFrames(), {_name(placed, key): older}

    yield from placed.rules_by_key(computation)


def _frame(
    placed: PlacedTransform,
    key: NestedKey,
    buffer: str,
    *,
    divided: tuple[int, int] | None = None,
    stacked: bool = False,
) -> Tensor:
    """One row of zeros like what the transform reads under `key`."""
    held = getattr(placed.transform, buffer)
    if not isinstance(held, nn.UninitializedBuffer):
        # The transform has run, so its buffer has the very shape and dtype of the data.
        shape = list(held.shape[1:] if stacked else held.shape)
        if divided is not None:
            dim, count = divided
            shape[dim] //= count
        return torch.zeros(1, *shape[placed.batch_dims :], dtype=held.dtype)
    parent = placed.transform.parent
    if parent is None or key not in parent.observation_spec.keys(True, True):
        raise placed.refused(
            f"remembers {key!r}, whose shape is not known",
            code="RW151",
            hint="pass the environment, whose observation_spec says it",
        )
    spec = parent.observation_spec[key]
    return torch.zeros(1, *spec.shape[placed.batch_dims :], dtype=spec.dtype)


def _by_reset_key(placed: PlacedTransform, leaf: str) -> list[NestedKey]:
    """`leaf` beside every reset key of the environment."""
    parent = placed.transform.parent
    if parent is None:
        return [leaf]
    above = [key_path(key)[:-1] for key in parent._filtered_reset_keys]
    return [unravel_key((*each, leaf)) for each in above]


def _flag_shape(placed: PlacedTransform, key: NestedKey) -> tuple[int, ...]:
    """The shape of one row of what stands beside `done`."""
    parent = placed.transform.parent
    if parent is None:
        return (1,)
    done = unravel_key((*key_path(key)[:-1], "done"))
    shape = parent.full_done_spec[done].shape
    return tuple(shape[placed.batch_dims :])


def step_counter(placed: PlacedTransform) -> Iterator[KeyRule]:
    """A rule for the step count beside every reset key."""
    for key in _by_reset_key(placed, placed.transform.step_count_key):
        yield _remembered(placed, key, Counter(), 0, torch.int64)


def init_tracker(placed: PlacedTransform) -> Iterator[KeyRule]:
    """A rule for the flag of a first step beside every reset key."""
    for key in _by_reset_key(placed, placed.transform.init_key):
        yield _remembered(placed, key, FirstStep(), True, torch.bool)


def _remembered(
    placed: PlacedTransform, key: NestedKey, module: nn.Module, start: float, dtype: torch.dtype
) -> KeyRule:
    def computation() -> Computation:
        initial = torch.full((1, *_flag_shape(placed, key)), start, dtype=dtype)
        return module, {_name(placed, key): initial}

    return KeyRule(writes=(key,), computation=computation)


def target_return(placed: PlacedTransform) -> Iterator[KeyRule]:
    """Rules that give the target return, which stays as it is."""
    transform = placed.transform

    def computation(key: NestedKey) -> Computation:
        if transform.mode != "constant":
            raise placed.refused(
                "subtracts each reward from the target, and a deployed policy has no reward",
                hint="TargetReturn(mode='constant'), or the target as an input of the policy",
            )
        return Constant(), {_name(placed, key): torch.full((1, 1), float(transform.target_return))}

    keys = transform.__dict__.get("_out_keys")
    if keys is None and not placed.in_environment:
        keys = ["target_return"]
    for key in keys if keys is not None else transform.out_keys:
        yield KeyRule(writes=(key,), computation=partial(computation, key))


def primer(placed: PlacedTransform) -> Iterator[KeyRule]:
    """Rules that say at which value each primed key starts."""
    transform = placed.transform

    def initial(key: NestedKey) -> Tensor:
        if transform.random:
            raise placed.refused(
                f"starts {key!r} at random", hint="random=False, or the value as an input"
            )
        value = transform.default_value
        value = value if transform.single_default_value else value[key]
        if callable(value):
            raise placed.refused(
                f"starts {key!r} at what a function returns", hint="default_value=0.0, a number"
            )
        parent = transform.parent
        if parent is not None and key in parent.observation_spec.keys(True, True):
            raise placed.refused(
                f"replaces the first {key!r} of each episode, which the environment gives",
                hint="give the primed value a key of its own",
            )
        spec = transform.primers[key]
        shape = tuple(spec.shape)
        # In a batch TorchRL gives the primers the axes of the batch, at the latest at a reset.
        if tuple(transform.primers.shape[: placed.batch_dims]) == placed.batch_size:
            shape = shape[placed.batch_dims :]
        return torch.full((1, *shape), float(value)).to(spec.dtype)

    for key in transform.primers.keys(True, True):
        yield KeyRule(writes=(key,), primed=partial(initial, key))


def _name(placed: PlacedTransform, key: NestedKey) -> str:
    return re.sub(r"\W", "_", "_".join((placed.name.lower(), *key_path(key))))


OBSERVATION: Mapping[str, RuleBuilder] = {
    "CatFrames": cat_frames,
    "InitTracker": init_tracker,
    "StepCounter": step_counter,
    "TargetReturn": target_return,
    "TensorDictPrimer": primer,
    "TimeMaxPool": time_max_pool,
}
