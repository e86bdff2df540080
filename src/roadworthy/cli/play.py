"""`roadworthy run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from roadworthy.cli.console import out, print_json, table, working
from roadworthy.cli.spaces import refuse_misfit
from roadworthy.cli.targets import explained, resolve
from roadworthy.errors import UsageError, did_you_mean, need
from roadworthy.runtime.load import load
from roadworthy.runtime.policy import Policy


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
    made = make_env(env)
    refuse_misfit(policy.signature, made.observation_space, made.action_space)
    returns, lengths = [], []
    with working(silent=as_json) as progress:
        for episode in range(episodes):
            progress(f"episode {episode + 1} of {episodes}")
            with explained(env):
                total, steps = play(policy, made, seed=seed + episode, max_steps=max_steps)
            returns.append(total)
            lengths.append(steps)
    made.close()
    if as_json:
        print_json({"env": env, "seed": seed, "returns": returns, "steps": lengths})
        return
    console = out()
    rows = table(">episode", ">return", ">steps")
    for episode, (total, steps) in enumerate(zip(returns, lengths, strict=True)):
        rows.add_row(str(episode), f"{total:.1f}", str(steps))
    console.print(rows)
    console.print(f"mean return {np.mean(returns):.1f} ± {np.std(returns):.1f}")


def make_env(name: str) -> Any:
    """The environment that `name` means to Gymnasium, or the one that a file makes."""
    gym: Any = need("gymnasium", extra="gym")
    if ".py:" in name:
        found = resolve(name)
        if not hasattr(found, "step"):
            raise UsageError(f"{name} gives a {type(found).__name__}, expected an environment")
        return found
    try:
        return gym.make(name)
    except gym.error.Error as error:
        near = did_you_mean(name, list(gym.registry))
        hint = near if near.startswith("did") else "a Gymnasium id, module:Id, or file.py:make_env"
        raise UsageError(f"no environment {name!r}: {error}", hint=hint) from error
    except ModuleNotFoundError as error:
        raise UsageError(f"no environment {name!r}: {error}") from error


def meant(policy: Policy, action: Any) -> Any:
    """The action as the environment takes it: a code of the table, a plain int, or an array."""
    if np.ndim(action) or not np.issubdtype(np.asarray(action).dtype, np.integer):
        return action
    table = policy.signature.action.table if policy.signature.action else ()
    codes = bool(table) and all(isinstance(each, int) for each in table)
    return table[int(action)] if codes else int(action)


def play(policy: Policy, env: Any, *, seed: int, max_steps: int) -> tuple[float, int]:
    """The return and the length of one episode from a fresh memory."""
    observation, _ = env.reset(seed=seed)
    policy.reset()
    total = 0.0
    for step in range(1, max_steps + 1):
        action = meant(policy, policy.act(observation))
        observation, reward, terminated, truncated, _ = env.step(action)
        total += float(reward)
        if terminated or truncated:
            return total, step
    return total, max_steps
