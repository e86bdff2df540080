"""Kinds of numbers: doubles, halves, integers, frames, flags, and what is converted inside."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.user_policies.cases import Family, mlp

people = Family("dtypes")

OBS, ACT = 8, 3


@people.case({"obs": torch.zeros(1, OBS, dtype=torch.float64)})
def doubles() -> nn.Module:
    return mlp(OBS, 32, ACT, activation=nn.Tanh).double()


# onnxruntime has no ELU in float64: it is written with what there is.
@people.case({"obs": torch.zeros(1, OBS, dtype=torch.float64)})
def doubles_with_elu() -> nn.Module:
    return mlp(OBS, 32, ACT).double()


@people.case({"obs": torch.zeros(1, OBS, dtype=torch.float16)}, margin=5e-3)
def halves() -> nn.Module:
    return mlp(OBS, 32, ACT).half()


class Bfloat(nn.Module):
    """Weights in bfloat16; the robot's numbers are float32."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS, 32, ACT).bfloat16()

    def forward(self, obs: Tensor) -> Tensor:
        action: Tensor = self.net(obs.bfloat16())
        return action.float()


# onnxruntime computes next to nothing in bfloat16.
@people.case({"obs": torch.zeros(1, OBS)}, refused="RW106")
def bfloat_inside() -> nn.Module:
    return Bfloat()


@people.case({"obs": torch.zeros(1, OBS, dtype=torch.bfloat16)}, margin=5e-2)
def bfloat_outright() -> nn.Module:
    return mlp(OBS, 32, ACT).bfloat16()


class Autocast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS, 32, ACT)

    def forward(self, obs: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            action: Tensor = self.net(obs)
        return action.float()


@people.case({"obs": torch.zeros(1, OBS)}, margin=5e-2)
def autocast() -> nn.Module:
    return Autocast()


class Frames(nn.Module):
    """A uint8 image, height and width first, scaled and transposed inside."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 8, 4, 2),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(32, ACT),
        )

    def forward(self, image: Tensor) -> Tensor:
        x = image.permute(0, 3, 1, 2).to(torch.float32).div(255.0)
        action: Tensor = self.net((x - 0.45) / 0.22)
        return action


IMAGES = torch.tensor([0, 255], dtype=torch.uint8)[:, None, None, None].expand(2, 16, 16, 3)


@people.case({"image": IMAGES})
def frames() -> nn.Module:
    return Frames()


class Task(nn.Module):
    """A task by its number: an embedding and a one-hot."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.net = nn.Embedding(5, 4), mlp(OBS + 4 + 5, 32, ACT)

    def forward(self, obs: Tensor, task: Tensor) -> Tensor:
        hot = nn.functional.one_hot(task, num_classes=5).float()
        action: Tensor = self.net(torch.cat([obs, self.embed(task), hot], dim=-1))
        return action


@people.case({"obs": torch.zeros(2, OBS), "task": torch.tensor([0, 4])})
def task_number() -> nn.Module:
    return Task()


class Masked(nn.Module):
    """Actions that are forbidden now get a very small logit."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS, 32, 6)

    def forward(self, obs: Tensor, mask: Tensor) -> Tensor:
        logits = self.net(obs).masked_fill(~mask, torch.finfo(torch.float32).min)
        return torch.argmax(logits, dim=-1)


@people.case({"obs": torch.zeros(1, OBS), "mask": torch.ones(1, 6, dtype=torch.bool)})
def action_mask() -> nn.Module:
    return Masked()


class Spectrum(nn.Module):
    """The spectrum of a window of vibration, complex inside."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(9, 32, ACT)

    def forward(self, window: Tensor) -> Tensor:
        spectrum = torch.fft.rfft(window * torch.hann_window(16))
        action: Tensor = self.net(torch.log1p(spectrum.abs()))
        return action


@people.case({"window": torch.zeros(1, 16)})
def spectrum() -> nn.Module:
    return Spectrum()


class Ticks(nn.Module):
    """Encoder ticks come as integers, motor ticks go out as integers."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(ACT + 3, 32, ACT)

    def forward(self, ticks: Tensor, command: Tensor) -> Tensor:
        angles = ticks.float() * (2 * torch.pi / 4096)
        target = self.net(torch.cat([torch.sin(angles), command], -1))
        return torch.round(target * 1000).to(torch.int32)


TICKS = torch.tensor([[0, 4095, 2048]], dtype=torch.int32)


@people.case({"ticks": TICKS, "command": torch.zeros(1, 3)}, margin=2e-3)
def encoder_ticks() -> nn.Module:
    return Ticks()


class Flags(nn.Module):
    """Contacts as flags beside floats; a flag comes out."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS + 4, 32, ACT)

    def forward(self, obs: Tensor, contact: Tensor) -> dict[str, Tensor]:
        action = self.net(torch.cat([obs, contact.to(obs.dtype)], -1))
        return {"actions": action, "stop": contact.any(-1) & (obs[:, 0] > 1.0)}


@people.case({"obs": torch.zeros(1, OBS), "contact": torch.zeros(1, 4, dtype=torch.bool)})
def contact_flags() -> nn.Module:
    return Flags()
