"""The call that GBC and IsaacLab users know, for a recurrent actor-critic with a normaliser."""

import tempfile

import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn

import roadworthy as rw


class EmpiricalNormalization(nn.Module):
    mean: Tensor
    std: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.linspace(-1, 1, size))
        self.register_buffer("std", torch.linspace(0.5, 2, size))

    def forward(self, obs: Tensor) -> Tensor:
        return (obs - self.mean) / (self.std + 1e-2)


class ActorCriticRecurrent(nn.Module):
    is_recurrent = True

    def __init__(self) -> None:
        super().__init__()
        self.memory_a = nn.Module()
        self.memory_a.rnn = nn.LSTM(45, 64)
        self.actor = nn.Sequential(nn.Linear(64, 32), nn.ELU(), nn.Linear(32, 12))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = rw.export_policy_as_onnx(
            ActorCriticRecurrent(), folder, normalizer=EmpiricalNormalization(45)
        )
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        print([port.name for port in session.get_inputs()], "→", end=" ")
        print([port.name for port in session.get_outputs()])
        # The lone file knows its memory: no h and c to carry by hand.
        print(rw.load(path).act(np.zeros(45, dtype=np.float32)).shape)


if __name__ == "__main__":
    main()
