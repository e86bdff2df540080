"""From data to a module, and to the source that Roadworthy exports."""

from __future__ import annotations

import functools
import linecache
from typing import Any

import numpy as np
import torch
from torch import nn

import roadworthy as rw
from roadworthy.spec.transforms import ActionStep, Normalizer
from tests.random_policies import text, trying
from tests.random_policies.policy import Policy, Step


class Unfit(Exception):
    """Data that is no policy: a node that cannot run on its operands."""


@functools.lru_cache(maxsize=64)
def shapes(policy: Policy) -> dict[str, tuple[int, ...]]:
    """Value → the shape of one row, found by running the nodes."""
    values = {each.name: trying.example(each, 0) for each in policy.inputs}
    for node in policy.nodes:
        found = trying.result(node, policy.precision, values)
        if found is None:
            raise Unfit(f"{node.name} = {node.operator}{node.operands}")
        values[node.name] = found
    return {name: tuple(value.shape[1:]) for name, value in values.items()}


def code(policy: Policy) -> str:
    """The class of the policy, as Python."""
    return text.code(policy, shapes(policy))


def module(policy: Policy) -> nn.Module:
    """A fresh module, ready to step, with the weights that the data says."""
    written = code(policy)
    name = f"<policy {policy.seed} {hash(written):x}>"
    # Tracebacks and Roadworthy's own reading of code find the lines there.
    linecache.cache[name] = (len(written), None, written.splitlines(keepends=True), name)
    scope = dict(trying.NAMESPACE, __name__="tests.random_policies.written")
    exec(compile(written, name, "exec"), scope)
    with trying.precise(policy.precision):
        made: nn.Module = scope["Net"]()
        for layer in made.modules():
            _statistics(layer)
    return made.eval()


def _statistics(layer: nn.Module) -> None:
    """Changes a normalising layer into one that has been trained."""
    mean = getattr(layer, "running_mean", None)
    if isinstance(mean, torch.Tensor):
        mean.copy_(torch.linspace(-0.5, 0.7, len(mean)))
        layer.get_buffer("running_var").copy_(torch.linspace(0.4, 2.0, len(mean)))


@functools.lru_cache(maxsize=64)
def memory(policy: Policy) -> dict[str, tuple[str, torch.Tensor]]:
    """Memory name → how it is kept, and its initial value in a batch of one."""
    sizes = shapes(policy)
    found = {}
    for node in policy.nodes:
        for name, start in text.memories(node, policy.precision, sizes).items():
            found[name] = (node.style, eval(start, trying.NAMESPACE | {"B": 1}))
    return found


def batch_axes(policy: Policy) -> dict[str, int]:
    """Memory name → the axis of the rows."""
    return {
        f"{node.name}_{index}": 0 if state.shape.startswith("(B") else 1
        for node in policy.nodes
        for index, state in enumerate(node.kind.state)
    }


def source(policy: Policy) -> rw.Source:
    """What a user would pass to `rw.export`."""
    made = module(policy)
    example = {
        each.name: trying.example(each, policy.seed % 997, policy.rows) for each in policy.inputs
    }
    kept: dict[str, Any] = {}
    axes = batch_axes(policy)
    for name, (style, start) in memory(policy).items():
        start = start.repeat_interleave(policy.rows, dim=axes[name])
        if style == "argument":
            kept[name] = start
        elif style == "attribute":
            kept[name] = name
        else:
            kept[name] = rw.Attribute(name, initial=start)
    limited = {
        each.name: rw.About(low=each.low, high=each.high)
        for each in policy.inputs
        if each.low is not None
    }
    return rw.Source(
        made,
        example=example,
        memory=kept,
        normalizer={s.name: normalizer(policy, s) for s in policy.normalizers} or None,
        outputs=None if policy.mapping else text.output_names(policy),
        action=tuple(action_step(step) for step in policy.action),
        about=limited,
        period_s=policy.period_s,
    )


def statistics(policy: Policy, step: Step) -> tuple[np.ndarray, np.ndarray]:
    """Mean and spread of a normaliser."""
    port = next(each for each in policy.inputs if each.name == step.name)
    low, high = (-2, 2) if port.low is None or port.high is None else (port.low, port.high)
    draws = np.random.default_rng(int(step.values[0]))
    middle, reach = (low + high) / 2, (high - low) / 2
    return middle + reach * draws.normal(0, 0.5, port.shape), reach * draws.uniform(
        0.2, 1, port.shape
    )


def normalizer(policy: Policy, step: Step) -> Normalizer:
    mean, spread = statistics(policy, step)
    clip = float(step.values[1]) or None
    if step.kind == "inside":
        return rw.EpsInsideRoot(mean=mean, var=spread**2, eps=1e-8, clip=clip)
    return rw.EpsOutsideRoot(mean=mean, std=spread, eps=1e-2, clip=clip)


def action_step(step: Step) -> ActionStep:
    values = step.values
    if step.kind == "argmax":
        return rw.Argmax(mask=step.name or None)
    if step.kind == "multi":
        return rw.MultiDiscrete(sizes=(int(values[0]), int(values[1])))
    if step.kind == "scale":
        return rw.ScaleOffset(scale=values[0], offset=values[1])
    if step.kind == "bounds":
        return rw.ScaleToBounds(low=values[0], high=values[1])
    if step.kind == "clip":
        return rw.Clip(low=values[0], high=values[1])
    return rw.Tanh()
