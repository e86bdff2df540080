"""A module that keeps its hidden state itself: first refused with the reason, then exported."""

import tempfile

import numpy as np
import torch
from torch import Tensor, nn

import roadworthy as rw


class Tracker(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(6, 32)
        self.head = nn.Linear(32, 2)
        self.state: Tensor | None = None

    def forward(self, obs: Tensor) -> Tensor:
        out, self.state = self.rnn(obs.unsqueeze(0), self.state)
        actions: Tensor = self.head(out.squeeze(0))
        return actions


def main() -> None:
    tracker, example = Tracker(), {"obs": torch.zeros(1, 6)}
    with tempfile.TemporaryDirectory() as folder:
        try:
            rw.export(tracker, f"{folder}/tracker", example=example)
        except rw.RoadworthyError as error:
            print(f"refused:\n{error}\n")
        rw.export(tracker, f"{folder}/tracker", example=example, memory={"state": "state"})
        policy = rw.load(f"{folder}/tracker")
        obs = np.ones((2, 6), dtype=np.float32)
        first = policy.step({"obs": obs})["actions"]
        second = policy.step({"obs": obs})["actions"]
        policy.reset(np.array([True, False]))  # one of the two rows starts a new episode
        third = policy.step({"obs": obs})["actions"]
        print("it remembers:         ", not np.array_equal(first, second))
        print("a reset row is fresh: ", np.array_equal(first[0], third[0]))


if __name__ == "__main__":
    main()
