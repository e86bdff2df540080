"""Action masks: a policy that may not choose what is forbidden, with a table of its actions."""

import tempfile

import numpy as np
import torch
from torch import nn

import roadworthy as rw

MOVES = ("north", "east", "south", "west")


def main() -> None:
    torch.manual_seed(0)
    logits = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, len(MOVES)))
    with tempfile.TemporaryDirectory() as folder:
        rw.export(
            logits,
            f"{folder}/maze",
            example={"obs": torch.zeros(1, 8)},
            action=rw.Argmax(table=MOVES, mask="allowed"),
        )
        policy = rw.load(f"{folder}/maze")
        obs, allowed = np.zeros(8, dtype=np.float32), np.ones(4, dtype=bool)
        for _ in MOVES:
            choice = policy.act({"obs": obs, "allowed": allowed})
            print(f"allowed {allowed.sum()} of 4, chose {MOVES[choice]}")
            allowed[choice] = False


if __name__ == "__main__":
    main()
