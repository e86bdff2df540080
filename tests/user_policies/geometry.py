"""Geometry inside of policies: quaternions, frames, kinematics, maps, optimal control."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.user_policies.cases import Family, mlp

people = Family("geometry")

ACT = 3


def rotate_inverse(q: Tensor, v: Tensor) -> Tensor:
    w, xyz = q[:, 3:], q[:, :3]
    a = v * (2.0 * w**2 - 1.0)
    b = torch.cross(xyz, v, dim=-1) * w * 2.0
    c = xyz * torch.bmm(xyz.view(-1, 1, 3), v.view(-1, 3, 1)).squeeze(-1) * 2.0
    return a - b + c


class Gravity(nn.Module):
    """Gravity in the frame of the base, from its quaternion."""

    down: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(3 + 3 + 6, 32, ACT)
        self.register_buffer("down", torch.tensor([[0.0, 0.0, -1.0]]))

    def forward(self, quat: Tensor, ang_vel: Tensor, joints: Tensor) -> Tensor:
        quat = functional.normalize(quat, dim=-1)
        gravity = rotate_inverse(quat, self.down.expand(quat.shape[0], -1))
        action: Tensor = self.net(torch.cat([gravity, ang_vel, joints], -1))
        return action


@people.case(
    {
        "quat": torch.tensor([[0.0, 0.0, 0.0, 1.0]]),
        "ang_vel": torch.zeros(1, 3),
        "joints": torch.zeros(1, 6),
    }
)
def projected_gravity() -> nn.Module:
    return Gravity()


class Heading(nn.Module):
    """The error of the heading, wrapped; yaw by atan2."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(4, 32, ACT)

    def forward(self, quat: Tensor, command: Tensor) -> Tensor:
        x, y, z, w = functional.normalize(quat, dim=-1).unbind(-1)
        yaw = torch.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
        error = torch.remainder(command[:, 2] - yaw + torch.pi, 2 * torch.pi) - torch.pi
        features = torch.stack([error.sin(), error.cos(), command[:, 0], command[:, 1]], -1)
        action: Tensor = self.net(features)
        return action


@people.case({"quat": torch.tensor([[0.0, 0.0, 0.0, 1.0]]), "command": torch.zeros(1, 3)})
def heading_error() -> nn.Module:
    return Heading()


class SixD(nn.Module):
    """The six-number rotation: Gram-Schmidt, then the angle to the goal."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(6, 32, 6)

    def forward(self, current: Tensor) -> dict[str, Tensor]:
        raw = self.net(current)
        first = functional.normalize(raw[:, :3], dim=-1)
        second = raw[:, 3:] - (first * raw[:, 3:]).sum(-1, keepdim=True) * first
        second = functional.normalize(second, dim=-1)
        third = torch.linalg.cross(first, second)
        matrix = torch.stack([first, second, third], dim=-1)
        trace = matrix.diagonal(dim1=-2, dim2=-1).sum(-1)
        return {"rotation": matrix, "angle": torch.acos(((trace - 1) / 2).clamp(-0.999, 0.999))}


@people.case({"current": torch.zeros(1, 6)}, margin=1e-3)
def six_numbers() -> nn.Module:
    return SixD()


class HeightMap(nn.Module):
    """Heights under the feet, by bilinear lookup."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(4 + 8, 32, ACT)

    def forward(self, obs: Tensor, heights: Tensor, feet: Tensor) -> Tensor:
        grid = torch.tanh(feet).view(-1, 4, 1, 2)
        under = functional.grid_sample(heights.unsqueeze(1), grid, align_corners=True).flatten(1)
        action: Tensor = self.net(torch.cat([obs, under], -1))
        return action


@people.case(
    {"obs": torch.zeros(1, 8), "heights": torch.zeros(1, 11, 11), "feet": torch.zeros(1, 4, 2)}
)
def height_map() -> nn.Module:
    return HeightMap()


class InverseKinematics(nn.Module):
    """Damped least squares, one step, by a solve of three by three."""

    def __init__(self) -> None:
        super().__init__()
        self.target = mlp(6, 32, 3)
        self.lengths = nn.Parameter(torch.tensor([0.3, 0.25, 0.1]))

    def forward(self, obs: Tensor, joints: Tensor) -> Tensor:
        angles = torch.cumsum(joints, dim=-1)
        x, y = (self.lengths * angles.cos()), (self.lengths * angles.sin())
        jx = -torch.flip(torch.cumsum(torch.flip(y, [-1]), -1), [-1])
        jy = torch.flip(torch.cumsum(torch.flip(x, [-1]), -1), [-1])
        jacobian = torch.stack([jx, jy, torch.ones_like(jx)], dim=1)
        tip = torch.stack([x.sum(-1), y.sum(-1), angles[:, -1]], -1)
        error = (self.target(obs) - tip).unsqueeze(-1)
        square = jacobian @ jacobian.transpose(1, 2) + 0.1 * torch.eye(3)
        step = jacobian.transpose(1, 2) @ torch.linalg.solve(square, error)
        return joints + step.squeeze(-1).clamp(-0.2, 0.2)


# ONNX solves no linear systems: the closed form is asked for.
@people.case({"obs": torch.zeros(1, 6), "joints": torch.zeros(1, 3)}, refused="RW105")
def inverse_kinematics() -> nn.Module:
    return InverseKinematics()


class ForwardKinematics(nn.Module):
    """A chain of homogeneous transforms; the network sees where the hand is."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.length = mlp(3 + 4, 32, 4), 0.3

    def forward(self, joints: Tensor) -> Tensor:
        pose = torch.eye(4).repeat(joints.shape[0], 1, 1)
        for i in range(4):
            c, s = torch.cos(joints[:, i]), torch.sin(joints[:, i])
            o, l = torch.zeros_like(c), torch.ones_like(c)  # noqa: E741
            link = torch.stack(
                [c, -s, o, self.length * c, s, c, o, self.length * s, o, o, l, o, o, o, o, l], -1
            )
            pose = pose @ link.view(-1, 4, 4)
        action: Tensor = self.net(torch.cat([pose[:, :3, 3], joints], -1))
        return action


@people.case({"joints": torch.zeros(1, 4)})
def forward_kinematics() -> nn.Module:
    return ForwardKinematics()


class Lqr(nn.Module):
    """A linear feedback around a learned reference, saturated with a dead zone."""

    def __init__(self) -> None:
        super().__init__()
        self.reference = mlp(8, 16, 8)
        self.k = nn.Parameter(torch.randn(ACT, 8) / 2)

    def forward(self, state: Tensor) -> Tensor:
        u = -(state - self.reference(state)) @ self.k.T
        dead = torch.where(u.abs() < 0.05, torch.zeros_like(u), u - 0.05 * torch.sign(u))
        return torch.minimum(torch.maximum(dead, torch.tensor(-2.0)), torch.tensor(2.0))


@people.case({"state": torch.zeros(1, 8)})
def lqr() -> nn.Module:
    return Lqr()


class Lidar(nn.Module):
    """Circular convolutions over a scan, the nearest sector by its angle."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 4, 5, stride=2, padding=2, padding_mode="circular")
        self.net = mlp(4 * 18 + 2, 32, 2)

    def forward(self, scan: Tensor) -> Tensor:
        scan = torch.nan_to_num(scan.clamp(min=0.0, max=10.0), nan=10.0)
        nearest = scan.argmin(dim=-1, keepdim=True).float() * (2 * torch.pi / 36)
        features = functional.relu(self.conv(scan.unsqueeze(1))).flatten(1)
        action: Tensor = self.net(torch.cat([features, nearest.sin(), nearest.cos()], -1))
        return action


@people.case({"scan": torch.zeros(1, 36)})
def lidar() -> nn.Module:
    return Lidar()


class Spline(nn.Module):
    """Via points from the network, a Bézier curve through them, sampled at the given phase."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(6, 32, 4 * ACT)

    def forward(self, obs: Tensor, phase: Tensor) -> Tensor:
        points, t = self.net(obs).view(-1, 4, ACT), torch.sigmoid(phase)
        basis = torch.cat([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3], dim=-1)
        return torch.einsum("bk,bka->ba", basis, points)


@people.case({"obs": torch.zeros(1, 6), "phase": torch.zeros(1, 1)})
def spline() -> nn.Module:
    return Spline()
