"""Whether an artifact behaves like its policy, by a yardstick that is not Roadworthy's.

The truth is a copy of the module in float64. The yardstick is what rounding does to PyTorch itself:
twins of the policy in which every result of every operator moves by a few units in the last place.
Each of 200 steps is compared from the original's own memory, and in a free run beside the twins.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

import roadworthy as rw
from tests.random_policies import build, stepping
from tests.random_policies.policy import Policy
from tests.random_policies.stepping import Jitter, Stepped, Tensors, jittered

STEPS = 200
ROWS = 3
TWINS = 8
UNITS = 2.0
# Twins that are asked where an element is too far: a flip at a threshold is rare, and legal.
MORE_TWINS = 64
MORE_UNITS = 24.0
ALLOWED = 10.0
FLOOR_UNITS = 8.0
# A free run may leave the original as far as its twins did, and this much further.
FREE = 30.0
# Below this processors may say 0, and PyTorch's sigmoid does.
SUBNORMAL = float(np.finfo(np.float32).tiny)
RESET_AT = 77

Arrays = dict[str, np.ndarray]


def difference(policy: Policy, artifact: rw.Policy, seed: int = 1) -> str | None:
    """Where the artifact departs from the policy by more than rounding explains; None: nowhere."""
    with stepping.one_thread():
        return _one_step(policy, artifact, seed) or _free_run(policy, artifact, seed)


def _one_step(policy: Policy, artifact: rw.Policy, seed: int) -> str | None:
    original = Stepped.of(policy)
    episode = stepping.draw(policy, STEPS, ROWS, seed)
    memory = original.start(ROWS)
    before, wanted, got = [], [], []
    artifact.reset()
    for now in episode:
        before.append(memory)
        outputs, memory = original(now, memory)
        wanted.append(_named(outputs, memory))
        artifact.step(arrays(now)) if not got else None
        if before[-1]:
            artifact.set_memory(arrays(before[-1]))
        found = artifact.step(arrays(now))
        got.append(found | {f"memory {name}": value for name, value in artifact.memory.items()})
    axes = build.batch_axes(policy)
    inputs = {name: torch.cat([now[name] for now in episode]) for name in episode[0]}
    states = {n: torch.cat([each[n] for each in before], dim=axes[n]) for n in memory}
    truth = exact_values(policy, inputs, states)
    for name in wanted[0]:
        axis = axes.get(name.removeprefix("memory "), 0) if name.startswith("memory ") else 0
        join = _joiner(axis)
        one, other = join([each[name] for each in wanted]), join([each[name] for each in got])
        if one.shape != other.shape or one.dtype != other.dtype:
            return f"{name}: {one.dtype} {one.shape} became {other.dtype} {other.shape}"
        twins = _twins(original, inputs, states, name, axis, TWINS, UNITS)
        exact = one.astype(np.float64) if truth is None else states_first(truth[name], axis)
        bad = beyond(exact, one, other, twins)
        if bad.any():
            places = np.flatnonzero(bad.reshape(len(bad), -1).any(axis=1))
            index = torch.from_numpy(places)
            some = {n: value[index] for n, value in inputs.items()}
            kept = {n: value.index_select(axes[n], index) for n, value in states.items()}
            more = _twins(original, some, kept, name, axis, MORE_TWINS, MORE_UNITS)
            still = beyond(exact[places], one[places], other[places], more)
            if still.any():
                state, *element = (int(i) for i in np.argwhere(still)[0])
                at = (places[state], *element)
                return (
                    f"{name}: {int(still.any(axis=tuple(range(1, still.ndim))).sum())} of "
                    f"{len(one)} states; state {at[0]} element {tuple(element)}: "
                    f"PyTorch {one[at]!r}, exact {exact[at]!r}, artifact {other[at]!r}"
                )
    return None


def exact_values(policy: Policy, inputs: Tensors, states: Tensors) -> Arrays | None:
    """What float64 gives in each state; None where the policy is of float64 itself."""
    if policy.precision == "float64":
        return None
    outputs, after = Stepped.exact(policy)(inputs, states)
    return arrays(together(outputs, after))


def _twins(
    original: Stepped, inputs: Tensors, states: Tensors, name: str, axis: int, count: int,
    units: float,
) -> list[np.ndarray]:  # fmt: skip
    found = []
    for seed in range(count):
        jitter = Jitter(units, seed)
        moved, kept = jittered(inputs, jitter), jittered(states, jitter)
        with jitter:
            outputs, after = original(moved, kept)
        found.append(states_first(arrays(together(outputs, after))[name], axis))
    return found


def beyond(
    exact: np.ndarray, one: np.ndarray, other: np.ndarray, twins: list[np.ndarray]
) -> np.ndarray:
    """Which elements are further from the truth than rounding explains."""
    if one.dtype.kind != "f":
        # A choice that float64 takes is right, whatever rounding made PyTorch take.
        same = (other == one) | (other == exact)
        for twin in twins:
            same |= other == twin
        return ~same
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = [_gap(exact, each) for each in (one, *twins)]
        budget = np.max(gaps, axis=0)
        usual = np.mean(np.where(np.isfinite(budget), budget, 0.0), axis=0, keepdims=True)
        unit = np.spacing(np.abs(np.where(np.isfinite(one), one, 0))).astype(np.float64)
        allowed = ALLOWED * np.maximum(budget, usual) + FLOOR_UNITS * unit
        # Overflow and NaN are right where PyTorch or a twin of it has them too.
        alike = np.zeros(other.shape, dtype=bool)
        for each in (one, *twins):
            alike |= ~np.isfinite(other) & (_gap(each, other) == 0)
        # Where float32 has overflowed and the truth has not, infinity is no worse than NaN.
        alike |= np.isfinite(exact) & ~np.isfinite(one) & ~np.isfinite(other)
        gap = _gap(exact, other)
        # onnxruntime computes sigmoids by way of one, and loses what is small beside it (RW340).
        lost = gap <= np.finfo(one.dtype).eps
        return ~(alike | lost | (gap <= allowed))


def _gap(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    a, b = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        gap = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return np.where(np.isnan(gap), np.inf, gap)


def _free_run(policy: Policy, artifact: rw.Policy, seed: int) -> str | None:
    """Judges by how far the twins went astray: what has forgotten its memory goes further."""
    original = Stepped.of(policy)
    if not original.start(1):
        return None
    episode = stepping.draw(policy, STEPS, ROWS, seed + 1)
    axes = build.batch_axes(policy)
    memory, twins = original.start(ROWS), original.start(ROWS * TWINS)
    artifact.reset()
    astray: dict[str, float] = {}
    jitter = Jitter(UNITS, seed)
    for step, now in enumerate(episode):
        if step == RESET_AT:
            artifact.reset(np.array([False, True, False]))
            memory = row_reset(memory, original.start(ROWS), axes, [1])
            rows = [row for row in range(ROWS * TWINS) if row % ROWS == 1]
            twins = row_reset(twins, original.start(ROWS * TWINS), axes, rows)
        outputs, memory = original(now, memory)
        several = {n: torch.cat([value] * TWINS) for n, value in now.items()}
        moved = jittered(several, jitter)
        with jitter:
            twin_outputs, twins = original(moved, twins)
        got = artifact.step(arrays(now))
        for name, value in outputs.items():
            one = value.numpy()
            spread = _gap(np.concatenate([one] * TWINS), twin_outputs[name].numpy())
            astray[name] = max(astray.get(name, 0.0), float(spread.max(initial=0.0)))
            # What is no number any more is compared by the single steps, which know the truth.
            lost = ~np.isfinite(one) & ~np.isfinite(got[name])
            gap = float(np.where(lost, 0.0, _gap(one, got[name])).max(initial=0.0))
            unit = float(np.abs(one[np.isfinite(one)]).max(initial=0.0)) * 1e-6
            if gap > FREE * astray[name] + unit + SUBNORMAL:
                return (
                    f"{name}: {gap:.3g} apart in the free run at step {step}, "
                    f"its twins {astray[name]:.3g}"
                )
    return None


def row_reset(memory: Tensors, start: Tensors, axes: dict[str, int], rows: list[int]) -> Tensors:
    found = {}
    for name, value in memory.items():
        kept = value.clone()
        kept.transpose(0, axes[name])[rows] = start[name].transpose(0, axes[name])[rows]
        found[name] = kept
    return found


def _named(outputs: Tensors, memory: Tensors) -> Arrays:
    return arrays(together(outputs, memory))


def together(outputs: Tensors, memory: Tensors) -> Tensors:
    return outputs | {f"memory {name}": value for name, value in memory.items()}


def arrays(values: Tensors) -> Arrays:
    return {name: value.numpy() for name, value in values.items()}


def _joiner(axis: int) -> Callable[[list[np.ndarray]], np.ndarray]:
    return lambda values: np.concatenate([states_first(each, axis) for each in values])


def states_first(values: np.ndarray, axis: int) -> np.ndarray:
    return np.moveaxis(values, axis, 0)
