"""Exports the DQN with its pixel transforms: a raw screen goes in, an ALE action comes out."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from agent import FRAMES_PER_ACTION, load_policy, make_env

import roadworthy as rw

SCREENS_PER_S = 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--out", type=Path, default=Path("pong"))
    parser.add_argument("--aoti", action="store_true", help="compile it as well (a minute)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    env = make_env()
    # An index of the policy is a place in this list; the emulator wants the code that is there.
    codes = [code.value for code in env.base_env.unwrapped.ale.getMinimalActionSet()]
    bundle = rw.export(
        load_policy(arguments.checkpoint, env),
        arguments.out,
        exploration="deterministic",
        env=env,
        table=codes,
        period_s=FRAMES_PER_ACTION / SCREENS_PER_S,
        targets=["onnx", "aoti"] if arguments.aoti else ["onnx"],
    )
    print(bundle.signature)


if __name__ == "__main__":
    main()
