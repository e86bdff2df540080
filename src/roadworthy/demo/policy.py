"""The LSTM policy that balances CartPole with hidden velocities."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

WEIGHTS = Path(__file__).with_name("weights.safetensors")

# CartPole fails at 2.4 m or 12 degrees. Between two steps the angle moves by about 0.01 rad;
# the larger gain makes that motion visible to the LSTM.
POSITION_GAIN_PER_M = 1.0
ANGLE_GAIN_PER_RAD = 10.0


class RecurrentActor(nn.Module):
    """Action logits from `(position_m, angle_rad)` and the memory carried between steps."""

    gain: Tensor

    def __init__(self, hidden: int = 64) -> None:
        super().__init__()
        self.register_buffer("gain", torch.tensor([POSITION_GAIN_PER_M, ANGLE_GAIN_PER_RAD]))
        self.lstm = nn.LSTM(2, hidden)
        self.head = nn.Linear(hidden, 2)

    def forward(self, obs: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`(logits, h, c)` after one step; obs is `(batch, 2)`, h and c `(1, batch, hidden)`."""
        features, (h, c) = self.lstm((obs * self.gain).unsqueeze(0), (h, c))
        return self.head(features.squeeze(0)), h, c

    def initial_state(self, batch: int) -> tuple[Tensor, Tensor]:
        """The empty memory `(h, c)` that every episode starts from."""
        shape = (1, batch, self.lstm.hidden_size)
        return torch.zeros(shape), torch.zeros(shape)


def trained_actor() -> RecurrentActor:
    """The shipped actor, trained by `roadworthy.demo.train`, in eval mode."""
    weights = load_file(WEIGHTS)
    actor = RecurrentActor(hidden=weights["head.weight"].shape[1])
    actor.load_state_dict(weights)
    return actor.eval()
