"""A plug-in: toylab's agents and its files become sources, so `rw.export` takes both."""

from __future__ import annotations

import zipfile
from pathlib import Path

import torch
from toylab import Agent

import roadworthy as rw


def describe(thing: Agent | Path, *, period_s: float | None = None, clip: bool = True) -> rw.Source:
    """The source of an agent, or of the file of one; `clip` keeps the actions inside its limits."""
    agent = Agent.load(thing) if isinstance(thing, Path) else thing
    limits = [rw.Clip(low=-agent.limit, high=agent.limit)] if clip else []
    return rw.Source(
        agent.network,
        example={"obs": torch.zeros(1, agent.mean.numel())},
        normalizer=rw.EpsOutsideRoot(mean=agent.mean, std=agent.std, eps=1e-6),
        action=[rw.Tanh(), rw.ScaleOffset(scale=agent.limit), *limits],
        period_s=period_s,
    )


def recognises(path: Path) -> bool:
    """Whether the file is toylab's: by a key inside of it, without loading anything."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        return bool(names) and b"toylab" in archive.read(names[0])


ADAPTER = rw.Adapter(
    name="toylab", classes=("toylab.Agent",), recognises=recognises, describe=describe
)
