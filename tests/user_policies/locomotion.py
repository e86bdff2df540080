"""Legged locomotion, in the shapes of the code that papers publish."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import roadworthy as rw
from tests.user_policies.cases import HINT, Family, mlp, obs

people = Family("locomotion")

OBS, ACT, FRAMES = 15, 4, 5
FIRST_INPUT = "first input"


class ActorCritic(nn.Module):
    """legged_gym: `forward` raises, `act_inference` acts."""

    def __init__(self) -> None:
        super().__init__()
        self.actor, self.critic = mlp(OBS, 32, 32, ACT), mlp(OBS, 32, 1)
        self.std = nn.Parameter(torch.ones(ACT))
        self.distribution: Any = None

    def forward(self) -> Tensor:
        raise NotImplementedError

    def act(self, observations: Tensor) -> Tensor:
        self.distribution = torch.distributions.Normal(self.actor(observations), self.std)
        action: Tensor = self.distribution.sample()
        return action

    def act_inference(self, observations: Tensor) -> Tensor:
        action: Tensor = self.actor(observations)
        return action


@people.case({"observations": torch.zeros(1, OBS)}, method="act_inference")
def legged_gym() -> nn.Module:
    return ActorCritic()


@people.case({"observations": torch.zeros(1, OBS)}, then=HINT)
def legged_gym_forward() -> nn.Module:
    return ActorCritic()


class Memory(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(OBS, 16)
        self.hidden_states: Any = None

    def forward(self, inputs: Tensor, masks: Tensor | None = None) -> Tensor:
        out, self.hidden_states = self.rnn(inputs.unsqueeze(0), self.hidden_states)
        result: Tensor = out
        return result

    def reset(self, dones: Tensor | None = None) -> None:
        for state in self.hidden_states:
            state[..., dones, :] = 0.0


class ActorCriticRecurrent(ActorCritic):
    def __init__(self) -> None:
        super().__init__()
        self.memory_a, self.actor = Memory(), mlp(16, 32, ACT)

    def act_inference(self, observations: Tensor) -> Tensor:
        action: Tensor = self.actor(self.memory_a(observations).squeeze(0))
        return action


@people.case({"observations": torch.zeros(1, OBS)}, method="act_inference", then=HINT)
def legged_gym_recurrent() -> nn.Module:
    return ActorCriticRecurrent()


class Him(nn.Module):
    """HIM: an estimator reads the whole history, the actor its newest frame and the estimate."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = mlp(OBS * FRAMES, 32, 3 + 8)
        self.actor = mlp(OBS + 3 + 8, 32, ACT)

    def forward(self, obs_history: Tensor) -> Tensor:
        parts = self.encoder(obs_history.detach())
        vel, z = parts[..., :3], functional.normalize(parts[..., 3:], dim=-1, p=2)
        action: Tensor = self.actor(torch.cat((obs_history[:, :OBS], vel, z), dim=-1))
        return action


@people.case({"obs_history": torch.zeros(1, OBS * FRAMES)})
def him() -> nn.Module:
    return Him()


class WalkTheseWays(nn.Module):
    """walk-these-ways: a dict of observations, an adaptation module and a body."""

    def __init__(self) -> None:
        super().__init__()
        self.adaptation_module = mlp(OBS * FRAMES, 32, 2)
        self.body = mlp(OBS * FRAMES + 2, 32, ACT)

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        history = obs["obs_history"]
        latent = self.adaptation_module.forward(history)
        action: Tensor = self.body.forward(torch.cat((history, latent), dim=-1))
        return action


HISTORY = {"obs": {"obs_history": torch.zeros(1, OBS * FRAMES)}}


@people.case(HISTORY)
def walk_these_ways() -> nn.Module:
    return WalkTheseWays()


class HistoryWrapper(nn.Module):
    """The history that its deployment keeps: zeros at first, the newest frame at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.policy = WalkTheseWays()
        self.obs_history = torch.zeros(1, OBS * FRAMES)

    def forward(self, obs: Tensor) -> Tensor:
        self.obs_history = torch.cat((self.obs_history[:, OBS:], obs), dim=-1)
        action: Tensor = self.policy({"obs_history": self.obs_history})
        return action


@people.case(obs(OBS), then=HINT)
def history_wrapper() -> nn.Module:
    return HistoryWrapper()


class StackedFrames(nn.Module):
    """humanoid-gym: a deque that the first observation fills."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS * FRAMES, 32, ACT)
        self.frames: deque[Tensor] = deque(maxlen=FRAMES)

    def forward(self, obs: Tensor) -> Tensor:
        if len(self.frames) == 0:
            for _ in range(FRAMES):
                self.frames.append(obs)
        self.frames.append(obs)
        action: Tensor = self.net(torch.cat(list(self.frames), dim=-1))
        return action


@people.case(obs(OBS), then=HINT)
def stacked_frames() -> nn.Module:
    return StackedFrames()


class Rma(nn.Module):
    """RMA in deployment: convolutions over the history, then the base policy."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(OBS, 12)
        self.convs = nn.Sequential(
            nn.Conv1d(12, 12, 5, stride=2), nn.ReLU(), nn.Conv1d(12, 12, 3), nn.ReLU(), nn.Flatten()
        )
        self.latent, self.base = nn.Linear(12 * 6, 4), mlp(OBS + 4, 32, ACT)

    def forward(self, obs: Tensor, history: Tensor) -> Tensor:
        features = self.convs(self.embed(history).permute(0, 2, 1))
        action: Tensor = self.base(torch.cat([obs, self.latent(features)], -1))
        return action


@people.case({"obs": torch.zeros(1, OBS), "history": torch.zeros(1, 20, OBS)})
def rma() -> nn.Module:
    return Rma()


class Parkour(nn.Module):
    """Extreme parkour: depth through a CNN and a GRU whose state it keeps; yaw is predicted."""

    def __init__(self) -> None:
        super().__init__()
        self.compress = nn.Sequential(
            nn.Conv2d(1, 4, 5), nn.MaxPool2d(2), nn.ELU(), nn.Conv2d(4, 8, 3), nn.ELU(),
            nn.Flatten(), nn.Linear(8 * 8 * 8, 16),
        )  # fmt: skip
        self.combine = mlp(16 + OBS, 32, 16)
        self.rnn, self.output = nn.GRU(16, 24, batch_first=True), nn.Linear(24, 16 + 2)
        self.actor = mlp(OBS + 16, 32, ACT)
        self.hidden_states: Tensor | None = None

    def forward(self, depth: Tensor, obs: Tensor) -> Tensor:
        image = self.compress(depth.unsqueeze(1))
        latent = self.combine(torch.cat((image, obs), dim=-1))
        out, self.hidden_states = self.rnn(latent[:, None, :], self.hidden_states)
        out = self.output(out.squeeze(1))
        obs = obs.clone()
        obs[:, 6:8] = 1.5 * torch.tanh(out[:, -2:])
        action: Tensor = self.actor(torch.cat([obs, torch.tanh(out[:, :-2])], -1))
        return action


@people.case({"depth": torch.zeros(1, 24, 24), "obs": torch.zeros(1, OBS)}, then=HINT)
def parkour() -> nn.Module:
    return Parkour()


class DreamWaq(nn.Module):
    """A context encoder that draws in training only."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = mlp(OBS * FRAMES, 32, 16)
        self.mean, self.logvar, self.vel = nn.Linear(16, 8), nn.Linear(16, 8), nn.Linear(16, 3)
        self.actor = mlp(OBS + 8 + 3, 32, ACT)

    def forward(self, obs: Tensor, history: Tensor) -> tuple[Tensor, Tensor]:
        features = self.encoder(history.flatten(1))
        mean, std = self.mean(features), torch.exp(0.5 * self.logvar(features).clamp(max=5.0))
        code = mean + std * torch.randn_like(std) if self.training else mean
        vel = self.vel(features)
        return self.actor(torch.cat([code, vel, obs], dim=-1)), vel


@people.case(
    {"obs": torch.zeros(1, OBS), "history": torch.zeros(1, FRAMES, OBS)},
    outputs=("actions", "velocity"),
)
def dream_waq() -> nn.Module:
    return DreamWaq()


# The names of the outputs were left out.
@people.case({"obs": torch.zeros(1, OBS), "history": torch.zeros(1, FRAMES, OBS)}, then=HINT)
def dream_waq_unnamed() -> nn.Module:
    return DreamWaq()


class Estimating(nn.Module):
    """Concurrent training: the estimate goes on into the policy, and out beside the action."""

    def __init__(self) -> None:
        super().__init__()
        self.estimator, self.actor = mlp(OBS, 32, 7), mlp(OBS + 7, 32, ACT)

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        estimate = self.estimator(obs)
        contact = torch.sigmoid(estimate[:, 3:])
        action = self.actor(torch.cat([obs, estimate[:, :3], contact], dim=1))
        return {"actions": action, "velocity": estimate[:, :3], "contact": contact > 0.5}


@people.case(obs(OBS))
def estimating() -> nn.Module:
    return Estimating()


class TeacherStudent(nn.Module):
    """The student reads what a robot has; the teacher's encoder stays in the checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.teacher, self.student = mlp(30, 16, 8), mlp(OBS * FRAMES, 32, 8)
        self.actor = mlp(OBS + 8, 32, ACT)

    def forward(
        self, obs: Tensor, privileged: Tensor | None = None, hist: Tensor | None = None
    ) -> Tensor:
        latent = self.teacher(privileged) if privileged is not None else self.student(hist)
        action: Tensor = self.actor(torch.cat([obs, latent], -1))
        return action


@people.case({"obs": torch.zeros(1, OBS), "hist": torch.zeros(1, OBS * FRAMES)})
def teacher_student() -> nn.Module:
    return TeacherStudent()


class PhaseClock(nn.Module):
    """A clock that counts in float; sine and cosine of its phase are observed."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.phase = mlp(OBS + 2, 32, ACT), 0.0

    def forward(self, obs: Tensor) -> Tensor:
        self.phase = (self.phase + 0.02 * 1.5) % 1.0
        angle = torch.full((obs.shape[0], 1), 2 * math.pi * self.phase)
        action: Tensor = self.net(torch.cat([obs, angle.sin(), angle.cos()], dim=-1))
        return action


@people.case(obs(OBS), then=HINT)
def phase_clock() -> nn.Module:
    return PhaseClock()


class Cpg(nn.Module):
    """Hopf oscillators whose rates the network sets."""

    r: Tensor
    theta: Tensor
    offset: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS + 8, 32, 8)
        self.register_buffer("r", torch.zeros(1, 4))
        self.register_buffer("theta", torch.zeros(1, 4))
        self.register_buffer("offset", torch.tensor([0.0, math.pi, math.pi, 0.0]))

    def forward(self, obs: Tensor) -> Tensor:
        mu, omega = self.net(torch.cat([obs, self.r, torch.sin(self.theta)], -1)).chunk(2, -1)
        self.r = self.r + 0.02 * 10.0 * (torch.sigmoid(mu) - self.r)
        self.theta = torch.remainder(self.theta + 0.02 * 6.0 * torch.sigmoid(omega), 2 * math.pi)
        return self.r * torch.cos(self.theta + self.offset)


@people.case(obs(OBS), then=HINT)
def central_pattern() -> nn.Module:
    return Cpg()


class Residual(nn.Module):
    """A frozen base policy, and a small correction; actions are filtered and limited."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.residual = mlp(OBS, 32, ACT), mlp(OBS + ACT, 32, ACT)
        self.base.requires_grad_(False)
        self.last = torch.zeros(1, ACT)
        self.default = torch.tensor([0.1, 0.8, -1.5, 0.0])

    def forward(self, obs: Tensor) -> Tensor:
        with torch.no_grad():
            base = self.base(obs)
        action = base + 0.1 * torch.tanh(self.residual(torch.cat([obs, base], -1)))
        action = torch.clip(0.8 * action + 0.2 * self.last, -100, 100)
        self.last = action.detach().clone()
        return 0.25 * action + self.default


@people.case(obs(OBS), then=HINT)
def residual() -> nn.Module:
    return Residual()


class ActuatorNet(nn.Module):
    """The actuator network of ANYmal: error and velocity at three past steps, a network a joint."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(6, 32, 32, 1, activation=nn.Softsign)
        self.error_history = torch.zeros(1, ACT, 3)
        self.velocity_history = torch.zeros(1, ACT, 3)

    def forward(self, target: Tensor, position: Tensor, velocity: Tensor) -> Tensor:
        self.error_history = torch.roll(self.error_history, 1, dims=2)
        self.velocity_history = torch.roll(self.velocity_history, 1, dims=2)
        self.error_history[:, :, 0] = target - position
        self.velocity_history[:, :, 0] = velocity
        inputs = torch.cat([self.error_history, 0.1 * self.velocity_history], dim=2)
        torque = self.net(inputs.view(-1, 6)).view(target.shape[0], ACT)
        return torch.clamp(20.0 * torque, -80.0, 80.0)


JOINTS = {name: torch.zeros(1, ACT) for name in ("target", "position", "velocity")}


@people.case(JOINTS, then=HINT)
def actuator_net() -> nn.Module:
    return ActuatorNet()


class Tared(nn.Module):
    """The first reading of an episode is the zero."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS, 32, ACT)
        self.zero: Tensor | None = None

    def forward(self, obs: Tensor) -> Tensor:
        if self.zero is None:
            self.zero = obs.clone()
        action: Tensor = self.net(obs - self.zero)
        return action


@people.case(obs(OBS), then=HINT)
def tared() -> nn.Module:
    return Tared()


# Somebody who has read how it is said.
@people.case(obs(OBS), memory={"zero": rw.Attribute("zero", initial=FIRST_INPUT)})
def tared_as_documented() -> nn.Module:
    return Tared()


class IsaacExporter(nn.Module):
    """The exporter that IsaacLab had: a copy of the actor behind its normaliser, `x` in."""

    mean: Tensor
    std: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.linspace(-1, 1, OBS)[None])
        self.register_buffer("std", torch.linspace(0.5, 2, OBS)[None])
        self.actor = mlp(OBS, 64, 32, ACT)

    def forward(self, x: Tensor) -> Tensor:
        action: Tensor = self.actor((x - self.mean) / (self.std + 1e-2))
        return action


@people.case({"x": torch.zeros(1, OBS)})
def isaac_exporter() -> nn.Module:
    return IsaacExporter()


class Composed(nn.Module):
    """Observations are scaled and joined in the policy, as deployment scripts do."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(3 + 3 + 3 + 3 * ACT, 32, ACT)
        self.last_action = torch.zeros(1, ACT)

    def forward(self, obs: dict[str, Any]) -> Tensor:
        parts = [
            0.25 * obs["base"]["ang_vel"],
            obs["base"]["gravity"],
            obs["command"] * torch.tensor([2.0, 2.0, 0.25]),
            obs["joints"]["pos"],
            0.05 * obs["joints"]["vel"],
            self.last_action,
        ]
        self.last_action = self.net(torch.clip(torch.cat(parts, dim=-1), -100.0, 100.0))
        return self.last_action


@people.case(
    {
        "obs": {
            "base": {"ang_vel": torch.zeros(1, 3), "gravity": torch.zeros(1, 3)},
            "command": torch.zeros(1, 3),
            "joints": {"pos": torch.zeros(1, ACT), "vel": torch.zeros(1, ACT)},
        }
    },
    then=HINT,
)
def composed() -> nn.Module:
    return Composed()
