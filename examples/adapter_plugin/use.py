"""`python use.py`: an agent and its file, exported through the plug-in."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from toylab import Agent

import roadworthy as rw


def main() -> None:
    torch.manual_seed(0)
    agent = Agent(observations=6, actions=2)
    agent.mean, agent.std = torch.randn(6), torch.rand(6) + 0.5
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        agent.save(folder / "agent.pt")
        rw.export(agent, folder / "from_object", period_s=0.02)
        rw.export(folder / "agent.pt", folder / "from_file", period_s=0.02)
        rw.verify(folder / "from_file", against=agent).raise_if_failed()
        obs = np.linspace(-1, 1, 6, dtype=np.float32)
        action = rw.load(folder / "from_file").act(obs)
        truth = agent.act(torch.from_numpy(obs)[None])[0].numpy()
        print("worst difference from the agent's own act():", f"{np.abs(action - truth).max():.1e}")


if __name__ == "__main__":
    main()
