"""`roadworthy run`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from roadworthy.cli.console import out, print_json, table, working
from roadworthy.cli.targets import explained, resolve
from roadworthy.runtime.load import load
from roadworthy.runtime.policy import Policy
from roadworthy.worlds.stage import Stage, stage
from roadworthy.worlds.world import World


def run(
    path: Annotated[Path, typer.Argument(help="A bundle folder, or a lone .onnx file.")],
    env: Annotated[str, typer.Option(help="Gymnasium id, module:Id, or file.py:make_env.")],
    episodes: Annotated[int, typer.Option(min=1, help="How many episodes to play.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the first episode; then one more each.")] = 0,
    max_steps: Annotated[int, typer.Option(min=1, help="Most steps of an episode.")] = 100_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Play a policy in a Gymnasium environment and print the returns. Needs no PyTorch.

    roadworthy run cartpole --env CartPole-v1

    roadworthy run walker --env my_env.py:make_env --episodes 20
    """
    policy = load(path, seed=max(seed, 0))
    played = stage([World(environment(env)).make()], policy.signature)
    returns, lengths = [], []
    with working(silent=as_json) as progress:
        for episode in range(episodes):
            progress(f"episode {episode + 1} of {episodes}")
            with explained(env):
                total, steps = play(policy, played, seed=seed + episode, max_steps=max_steps)
            returns.append(total)
            lengths.append(steps)
    played.close()
    if as_json:
        print_json({"env": env, "seed": seed, "returns": returns, "steps": lengths})
        return
    console = out()
    rows = table(">episode", ">return", ">steps")
    for episode, (total, steps) in enumerate(zip(returns, lengths, strict=True)):
        rows.add_row(str(episode), f"{total:.1f}", str(steps))
    console.print(rows)
    console.print(f"mean return {np.mean(returns):.1f} ± {np.std(returns):.1f}")


def environment(name: str) -> str | Callable[[], Any]:
    """What `World` takes: a Gymnasium id as it is, `file.py:make_env` as a function."""
    return partial(resolve, name) if ".py:" in name else name


def play(policy: Policy, played: Stage, *, seed: int, max_steps: int) -> tuple[float, int]:
    """The return and the length of one episode from a fresh memory."""
    inputs = played.reset(seed)
    policy.reset()
    total = 0.0
    for step in range(1, max_steps + 1):
        scene = played.step(policy.step(inputs)[policy.signature.action_output])
        inputs = scene.inputs
        total += float(scene.rewards[0])
        if scene.ended[0]:
            return total, step
    return total, max_steps
