"""`roadworthy run`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from roadworthy.cli.console import out, print_json, table, working
from roadworthy.cli.objects import explained, resolve
from roadworthy.cli.options import AsJson, Canary
from roadworthy.runtime.gym.play import MAX_STEPS, play
from roadworthy.runtime.load import load


def run(
    path: Annotated[Path, typer.Argument(help="A bundle folder, or a lone .onnx file.")],
    env: Annotated[str, typer.Option(help="Gymnasium id, module:Id, or file.py:make_env.")],
    episodes: Annotated[int, typer.Option(min=1, help="How many episodes to play.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the first episode; then one more each.")] = 0,
    max_steps: Annotated[int, typer.Option(min=1, help="Most steps of an episode.")] = MAX_STEPS,
    canary: Canary = True,
    as_json: AsJson = False,
) -> None:
    """Play a policy in a Gymnasium environment and print the returns. Needs no PyTorch.

    roadworthy run cartpole --env CartPole-v1

    roadworthy run walker --env my_env.py:make_env --episodes 20
    """
    policy = load(path, seed=max(seed, 0), canary=canary)
    with working(silent=as_json) as progress, explained(env):
        played = play(
            policy, environment(env), episodes, seed=seed, max_steps=max_steps, progress=progress
        )
    if as_json:
        listed = {"returns": list(played.returns), "steps": list(played.steps)}
        print_json({"env": env, "seed": seed, **listed})
        return
    rows = table(">episode", ">return", ">steps")
    for episode, (total, steps) in enumerate(zip(played.returns, played.steps, strict=True)):
        rows.add_row(str(episode), f"{total:.1f}", str(steps))
    console = out()
    console.print(rows)
    console.print(str(played))


def environment(name: str) -> str | Callable[[], Any]:
    """What closed loops take: a Gymnasium id as it is, `file.py:make_env` as a function."""
    return partial(resolve, name) if ".py:" in name else name
