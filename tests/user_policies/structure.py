"""Networks of several parts: experts, ensembles, conditioning, options, cameras."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import roadworthy as rw
from tests.user_policies.cases import Family, as_one, mlp, obs

people = Family("structure")

OBS, ACT = 8, 3


class Experts(nn.Module):
    """A mixture of experts, softly gated."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = (
            mlp(OBS, 16, 4),
            nn.ModuleList(mlp(OBS, 16, ACT) for _ in range(4)),
        )

    def forward(self, obs: Tensor) -> Tensor:
        weights = self.gate(obs).softmax(-1)
        answers = torch.stack([expert(obs) for expert in self.experts], dim=1)
        return (weights.unsqueeze(-1) * answers).sum(1)


@people.case(obs(OBS))
def soft_experts() -> nn.Module:
    return Experts()


class TopExperts(Experts):
    """Only the two best experts count."""

    def forward(self, obs: Tensor) -> Tensor:
        values, indices = self.gate(obs).topk(2, dim=-1)
        weights = torch.zeros(obs.shape[0], 4).scatter(1, indices, values.softmax(-1))
        answers = torch.stack([expert(obs) for expert in self.experts], dim=1)
        return torch.einsum("be,bea->ba", weights, answers)


@people.case(obs(OBS))
def top_experts() -> nn.Module:
    return TopExperts()


class Blended(nn.Module):
    """MANN: the weights of the layers themselves are blended by the gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = mlp(OBS, 16, 4)
        self.w1 = nn.Parameter(torch.randn(4, 16, OBS) / 3)
        self.w2 = nn.Parameter(torch.randn(4, ACT, 16) / 4)

    def forward(self, obs: Tensor) -> Tensor:
        blend = torch.softmax(self.gate(obs), 1)
        first = torch.einsum("be,eoi->boi", blend, self.w1)
        second = torch.einsum("be,eoi->boi", blend, self.w2)
        hidden = functional.elu(torch.bmm(first, obs.unsqueeze(2)))
        return torch.bmm(second, hidden).squeeze(2)


@people.case(obs(OBS))
def blended_weights() -> nn.Module:
    return Blended()


class Ensemble(nn.Module):
    """Five actors: the median acts, their spread warns."""

    def __init__(self) -> None:
        super().__init__()
        self.members = nn.ModuleList(mlp(OBS, 16, ACT) for _ in range(5))

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        votes = torch.stack([member(obs) for member in self.members])
        return {"actions": votes.median(dim=0).values, "spread": votes.std(dim=0)}


@people.case(obs(OBS))
def ensemble() -> nn.Module:
    return Ensemble()


class Film(nn.Module):
    """The goal modulates the trunk."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.film, self.head = nn.Linear(OBS, 16), nn.Linear(4, 32), nn.Linear(16, ACT)

    def forward(self, obs: Tensor, goal: Tensor) -> Tensor:
        gamma, beta = self.film(goal).chunk(2, dim=-1)
        action: Tensor = self.head(torch.relu((1 + gamma) * self.trunk(obs) + beta))
        return action


@people.case({"obs": torch.zeros(1, OBS), "goal": torch.zeros(1, 4)})
def film() -> nn.Module:
    return Film()


class Hyper(nn.Module):
    """The context writes the weights of the last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.write = mlp(OBS, 16, 8), nn.Linear(4, 8 * ACT + ACT)

    def forward(self, obs: Tensor, context: Tensor) -> Tensor:
        written = self.write(context)
        weight, bias = written[:, : 8 * ACT].view(-1, ACT, 8), written[:, 8 * ACT :]
        return torch.matmul(weight, self.trunk(obs)[..., None])[..., 0] + bias


@people.case({"obs": torch.zeros(1, OBS), "context": torch.zeros(1, 4)})
def hypernetwork() -> nn.Module:
    return Hyper()


class Heads(nn.Module):
    """A head for each task; its number chooses."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.heads = (
            mlp(OBS, 16, 16),
            nn.ModuleList(nn.Linear(16, ACT) for _ in range(3)),
        )

    def forward(self, obs: Tensor, task: Tensor) -> Tensor:
        answers = torch.stack([head(torch.relu(self.trunk(obs))) for head in self.heads], 1)
        index = task.view(-1, 1, 1).expand(-1, 1, ACT)
        return torch.gather(answers, 1, index).squeeze(1)


@people.case({"obs": torch.zeros(2, OBS), "task": torch.tensor([0, 2])})
def head_by_task() -> nn.Module:
    return Heads()


class Skills(nn.Module):
    """A ModuleDict of skills; which one is fixed in the file's name."""

    def __init__(self, skill: str = "trot") -> None:
        super().__init__()
        self.skills = nn.ModuleDict({name: mlp(OBS, 16, ACT) for name in ("stand", "trot", "jump")})
        self.skill = skill

    def forward(self, obs: Tensor) -> Tensor:
        action: Tensor = self.skills[self.skill](obs)
        return action


@people.case(obs(OBS))
def skill_by_name() -> nn.Module:
    return Skills()


class Lora(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(OBS, 16)
        self.base.weight.requires_grad_(False)
        self.a, self.b = nn.Parameter(torch.randn(2, OBS)), nn.Parameter(torch.randn(16, 2) * 0.1)
        self.head = nn.Linear(16, ACT)

    def forward(self, obs: Tensor) -> Tensor:
        hidden = self.base(obs) + 0.5 * functional.linear(functional.linear(obs, self.a), self.b)
        action: Tensor = self.head(functional.gelu(hidden, approximate="tanh"))
        return action


@people.case(obs(OBS))
def low_rank_adapted() -> nn.Module:
    return Lora()


class Cameras(nn.Module):
    """Two cameras through one backbone, spatial softmax, and proprioception."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 8, 5, 2, 2), nn.GroupNorm(4, 8), nn.ReLU(), nn.Conv2d(8, 6, 3, 1, 1)
        )
        self.head = mlp(2 * 12 + OBS, 32, ACT)

    def keypoints(self, image: Tensor) -> Tensor:
        features = self.backbone(image)
        rows, channels, height, width = features.shape
        y, x = torch.meshgrid(
            torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij"
        )
        weights = functional.softmax(features.reshape(rows * channels, -1), dim=-1)
        points = torch.stack(
            [(weights * x.reshape(-1)).sum(-1), (weights * y.reshape(-1)).sum(-1)], -1
        )
        return points.view(rows, -1)

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        parts = [self.keypoints(obs["front"]), self.keypoints(obs["wrist"]), obs["state"]]
        action: Tensor = self.head(torch.cat(parts, -1))
        return action


CAMERAS = {
    "front": torch.zeros(1, 3, 16, 16),
    "wrist": torch.zeros(1, 3, 16, 16),
    "state": torch.zeros(1, OBS),
}


@people.case(CAMERAS, live=as_one)
def two_cameras() -> nn.Module:
    return Cameras()


class ResNet(nn.Module):
    """Residual blocks with batch norm, upsampling, and a fixed crop."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm1, self.conv, self.norm2 = (
            nn.BatchNorm2d(8),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.BatchNorm2d(8),
        )
        self.head = nn.Linear(8, ACT)

    def forward(self, image: Tensor) -> Tensor:
        x = functional.interpolate(image, scale_factor=0.5, mode="bilinear", align_corners=False)
        x = functional.relu(self.norm1(self.stem(x[..., 1:-1, 1:-1])))
        x = functional.relu(
            self.norm2(self.conv(functional.pad(x, (1, 1, 1, 1))))[..., 1:-1, 1:-1] + x
        )
        action: Tensor = self.head(x.mean(dim=(2, 3)))
        return action


@people.case({"image": torch.zeros(1, 3, 20, 20)})
def small_resnet() -> nn.Module:
    return ResNet().eval()


# What the action means is said at the export, not in the module.
@people.case(
    obs(OBS),
    action=[rw.Tanh(), rw.ScaleToBounds(low=[-2.0, -1.0, 0.0], high=[2.0, 1.0, 0.5])],
    live=lambda m: (
        lambda given: (
            torch.tanh(m(given["obs"])) * torch.tensor([2.0, 1.0, 0.25])
            + torch.tensor([0.0, 0.0, 0.25])
        )
    ),
)
def squashed_at_the_export() -> nn.Module:
    return mlp(OBS, 32, ACT)


class Options(nn.Module):
    """Options: the option persists until its own termination says otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.end = mlp(OBS, 16, 4), mlp(OBS, 16, 4)
        self.policies = nn.Parameter(torch.randn(4, ACT, OBS) / 3)
        self.option = torch.zeros(1, dtype=torch.long)

    def forward(self, obs: Tensor) -> Tensor:
        ends = self.end(obs).gather(1, self.option[:, None]).squeeze(1) > 0.05
        self.option = torch.where(ends, self.q(obs).argmax(1), self.option)
        return torch.einsum("bao,bo->ba", self.policies[self.option], obs)


@people.case(obs(OBS), then="the hint")
def options() -> nn.Module:
    return Options()


class SafetyFilter(nn.Module):
    """The action is projected on a half-space where a barrier would be crossed."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.barrier = mlp(OBS, 16, ACT), mlp(OBS, 16, ACT + 1)

    def forward(self, obs: Tensor) -> Tensor:
        u, plane = self.net(obs), self.barrier(obs)
        normal, limit = plane[:, :ACT], plane[:, ACT:]
        excess = torch.relu((normal * u).sum(-1, keepdim=True) - limit)
        return u - excess * normal / (normal.square().sum(-1, keepdim=True) + 1e-6)


@people.case(obs(OBS))
def safety_filter() -> nn.Module:
    return SafetyFilter()


class Autoregressive(nn.Module):
    """Each action's head sees the choices before it."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = mlp(OBS, 16, 16)
        self.heads = nn.ModuleList(nn.Linear(16 + 4 * i, 4) for i in range(3))

    def forward(self, obs: Tensor) -> Tensor:
        features, chosen = torch.relu(self.trunk(obs)), []
        for head in self.heads:
            index = head(features).argmax(-1)
            chosen.append(index)
            features = torch.cat([features, functional.one_hot(index, 4).to(features)], -1)
        return torch.stack(chosen, dim=-1)


@people.case(obs(OBS))
def autoregressive_heads() -> nn.Module:
    return Autoregressive()


class EarlyExit(nn.Module):
    """Branches on the value of a tensor: refused with the line, a graph has one side."""

    def __init__(self) -> None:
        super().__init__()
        self.small, self.large = mlp(OBS, 8, ACT), mlp(OBS, 64, ACT)

    def forward(self, obs: Tensor) -> Any:
        if obs.abs().max() < 0.1:
            return self.small(obs)
        return self.large(obs)


@people.case(obs(OBS), refused="RW103")
def branches_on_values() -> nn.Module:
    return EarlyExit()
