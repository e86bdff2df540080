"""Plays the exported policy in the Arcade Learning Environment. Needs no PyTorch.

With --beside, the same game is played through AOTInductor (where the bundle has it) and by TorchRL
itself, for the time that each takes; only these import torch.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import ale_py
import numpy as np

import roadworthy as rw

FRAMES_PER_ACTION = 4
STICKY = 0.25  # how often Pong-v5 repeats the action before
ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)


@dataclass(frozen=True, slots=True)
class Played:
    """What a rollout brought; `actions` are the policy's indices."""

    actions: list[int]
    reward: float
    seconds: float


def game(seed: int) -> ale_py.ALEInterface:
    """Pong at its first frame, the same one that Gymnasium makes of this seed."""
    ale = ale_py.ALEInterface()
    ale.setInt("random_seed", int(np.random.SeedSequence(seed).generate_state(2)[1].astype("i4")))
    ale.setFloat("repeat_action_probability", STICKY)
    rom = ale_py.roms.get_rom_path("pong")
    assert rom is not None
    ale.loadROM(rom)
    return ale


def play(policy: rw.Policy, ale: ale_py.ALEInterface, steps: int) -> Played:
    """`steps` actions of the policy, each for four frames; the game begins anew where it ends."""
    assert policy.signature.action is not None
    codes = [ale_py.Action(int(code)) for code in policy.signature.action.table]
    actions, reward = [], 0.0
    start = time.perf_counter()
    ale.reset_game()
    policy.reset()
    for _ in range(steps):
        index = int(policy.act(ale.getScreenRGB()))
        actions.append(index)
        reward += sum(ale.act(codes[index]) for _ in range(FRAMES_PER_ACTION))
        if ale.game_over():
            ale.reset_game()
            policy.reset()
    return Played(actions, reward, time.perf_counter() - start)


def torchrl(checkpoint: Path) -> Callable[[int, int], Played]:
    """The rollout of TorchRL, for a seed and a number of steps."""
    import torch
    from agent import load_policy, make_env
    from torchrl.envs import set_exploration_type

    torch.set_num_threads(1)
    env = make_env()
    policy = load_policy(checkpoint, env)

    def rollout(seed: int, steps: int) -> Played:
        begin = env.reset(seed=seed)
        start = time.perf_counter()
        with torch.no_grad(), set_exploration_type("DETERMINISTIC"):
            data = env.rollout(
                steps, policy, auto_reset=False, tensordict=begin, break_when_any_done=False
            )
        seconds = time.perf_counter() - start
        return Played(data["action"].tolist(), float(data["next", "reward"].sum()), seconds)

    return rollout


def table(played: Mapping[str, Played]) -> str:
    """One line for each way to play; the actions are compared with those of the first."""
    first = next(iter(played.values()))
    lines = [f"{'':<8}{'steps':>7}{'return':>8}{'s':>8}{'ms/step':>9}{'same actions':>14}"]
    for name, each in played.items():
        count = len(each.actions)
        same = sum(a == b for a, b in zip(each.actions, first.actions, strict=True))
        lines.append(
            f"{name:<8}{count:>7}{each.reward:>8.0f}{each.seconds:>8.2f}"
            f"{1000 * each.seconds / count:>9.2f}{f'{same} of {count}':>14}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--beside", type=Path, metavar="CHECKPOINT")
    parser.add_argument("--out", type=Path, help="where to write what was played, as JSON")
    arguments = parser.parse_args()
    seed, steps = arguments.seed, arguments.steps
    played = {"ONNX": play(rw.load(arguments.bundle), game(seed), steps)}
    if arguments.beside:
        if "aoti" in rw.Bundle.open(arguments.bundle).targets:
            compiled = rw.load(arguments.bundle, engine="aoti", trust=True)
            played["AOTI"] = play(compiled, game(seed), steps)
        played["TorchRL"] = torchrl(arguments.beside)(seed, steps)
    print(table(played))
    if arguments.out:
        arguments.out.write_text(json.dumps({name: asdict(each) for name, each in played.items()}))


if __name__ == "__main__":
    main()
