"""A bundle in the layouts that other runtimes read: one row each.

A layout is a function from a bundle to an `Emission`: the files of the layout, and how the ONNX
file among them is fed, so that it can be stepped beside the policy before it is written.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from roadworthy.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from roadworthy.deploy.emit.emission import Emission
    from roadworthy.spec.bundle import Bundle


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeLayout:
    """One row: who reads the files, of which version, and the function that makes them."""

    name: str
    runtime: str
    version: str
    files: tuple[str, ...]
    emission: str

    def load(self) -> Callable[[Bundle], Emission]:
        """The function, imported when it is needed: it brings onnx."""
        module, _, name = self.emission.partition(":")
        return cast("Callable[[Bundle], Emission]", getattr(importlib.import_module(module), name))


LAYOUTS = {
    row.name: row
    for row in (
        RuntimeLayout(
            name="unitree",
            runtime="the controllers of unitree_rl_lab (deploy/)",
            version="main, 3797479 and 5dc06a4",
            files=("exported/policy.onnx", "params/deploy.yaml"),
            emission="roadworthy.deploy.emit.unitree:emission",
        ),
        RuntimeLayout(
            name="mjlab",
            runtime="what reads the metadata of mjlab's own exports",
            version="1.6.0",
            files=("policy.onnx",),
            emission="roadworthy.deploy.emit.mjlab:emission",
        ),
        RuntimeLayout(
            name="exploy",
            runtime="Exploy's C++ controller",
            version="0.1.0, main up to f5241e0",
            files=("policy.onnx",),
            emission="roadworthy.deploy.emit.exploy:emission",
        ),
        RuntimeLayout(
            name="mlagents",
            runtime="Unity ML-Agents, com.unity.ml-agents",
            version="2.0 to 4.0 (model version 3)",
            files=("policy.onnx",),
            emission="roadworthy.deploy.emit.mlagents:emission",
        ),
        RuntimeLayout(
            name="godot",
            runtime="Godot RL Agents, its plugin",
            version="0.7",
            files=("policy.onnx",),
            emission="roadworthy.deploy.emit.godot:emission",
        ),
    )
}


def get(name: str) -> RuntimeLayout:
    """The layout of that name."""
    if name not in LAYOUTS:
        raise UsageError(f"no layout {name!r}", hint=did_you_mean(name, LAYOUTS))
    return LAYOUTS[name]
