"""Stand-ins with the documented interface of IsaacLab's managers; IsaacLab needs a GPU to run."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch


class CircularBuffer:
    """As IsaacLab's newer one: the first push fills all frames, behind a flag of Python's."""

    def __init__(self, max_len: int, batch_size: int) -> None:
        self.max_length, self.batch_size = max_len, batch_size
        self._pointer = -1
        self._num_pushes = torch.zeros(batch_size, dtype=torch.long)
        self._buffer: torch.Tensor | None = None
        self._need_reset = True

    @property
    def current_length(self) -> torch.Tensor:
        return self._num_pushes.clamp(max=self.max_length)

    @property
    def buffer(self) -> torch.Tensor:
        assert self._buffer is not None
        rolled = torch.roll(self._buffer, shifts=self.max_length - self._pointer - 1, dims=0)
        return rolled.transpose(0, 1)

    def reset(self, batch_ids: Sequence[int] | None = None) -> None:
        self._num_pushes[:] = 0
        self._need_reset = True
        if self._buffer is not None:
            self._buffer[:] = 0.0

    def append(self, data: torch.Tensor) -> None:
        if self._buffer is None:
            self._pointer = -1
            self._buffer = torch.empty((self.max_length, *data.shape))
        self._pointer = (self._pointer + 1) % self.max_length
        self._buffer[self._pointer] = data
        if self._need_reset:
            first = (self._num_pushes == 0).view(1, -1, 1)
            self._buffer = torch.where(first, data.unsqueeze(0), self._buffer)
            self._need_reset = False
        self._num_pushes += 1


class ObservationManager:
    def __init__(self, env: Any, history: int) -> None:
        self._env = env
        self.cfg = SimpleNamespace(
            policy=SimpleNamespace(concatenate_terms=True, enable_corruption=False)
        )
        plain: dict[str, Any] = {"clip": None, "noise": None, "scale": None}
        self._group_obs_term_cfgs = {
            "policy": [
                SimpleNamespace(
                    func=lambda e: e.robot.data.joint_pos, history_length=history, **plain
                ),
                SimpleNamespace(func=lambda e: e.action_manager.action, history_length=0, **plain),
            ]
        }
        self.active_terms = {"policy": ["joint_pos", "actions"]}
        self.group_obs_term_dim = {"policy": [(2 * max(history, 1),), (2,)]}
        self.group_obs_dim = {"policy": (2 * max(history, 1) + 2,)}
        ring = {"joint_pos": CircularBuffer(history, env.num_envs)} if history else {}
        self._group_obs_term_history_buffer = {"policy": ring}

    def compute(self, update_history: bool = False) -> dict[str, torch.Tensor]:
        return {name: self.compute_group(name, update_history) for name in self.active_terms}

    def compute_group(self, name: str, update_history: bool = False) -> torch.Tensor:
        found = []
        for term, cfg in zip(self.active_terms[name], self._group_obs_term_cfgs[name], strict=True):
            seen = cfg.func(self._env).clone()
            ring = self._group_obs_term_history_buffer[name].get(term)
            if ring is not None:
                if update_history or ring._buffer is None:
                    ring.append(seen)
                seen = ring.buffer.reshape(self._env.num_envs, -1)
            found.append(seen)
        return torch.cat(found, dim=-1)

    def reset(self) -> None:
        for ring in self._group_obs_term_history_buffer["policy"].values():
            ring.reset()


class JointPositionAction:
    action_dim = 2

    def __init__(self, env: Any) -> None:
        self._asset = env.robot
        self.raw_actions = torch.zeros(env.num_envs, 2)
        self.processed_actions = torch.zeros(env.num_envs, 2)

    def process_actions(self, actions: torch.Tensor) -> None:
        self.raw_actions[:] = actions
        self.processed_actions = 0.5 * self.raw_actions + 0.1

    def apply_actions(self) -> None:
        self._asset.data.joint_pos_target[:, [0, 2]] = self.processed_actions


class ActionManager:
    def __init__(self, env: Any) -> None:
        self._terms = {"joint_pos": JointPositionAction(env)}
        self.active_terms = list(self._terms)
        self._action = torch.zeros(env.num_envs, 2)
        self._prev_action = torch.zeros(env.num_envs, 2)

    @property
    def action(self) -> torch.Tensor:
        return self._action

    @property
    def total_action_dim(self) -> int:
        return 2

    def get_term(self, name: str) -> JointPositionAction:
        return self._terms[name]

    def process_action(self, action: torch.Tensor) -> None:
        self._prev_action[:] = self._action
        self._action[:] = action
        self._terms["joint_pos"].process_actions(action)

    def apply_action(self) -> None:
        self._terms["joint_pos"].apply_actions()

    def reset(self) -> None:
        self._action[:] = 0.0
        self._prev_action[:] = 0.0


class Scene:
    def __init__(self, robot: Any) -> None:
        self.articulations = {"robot": robot}

    def write_data_to_sim(self) -> None:
        pass


class ManagerBasedRLEnv:
    """Two joints that follow their targets, and a third target that nobody writes."""

    device, physics_dt, step_dt = "cpu", 0.005, 0.02

    def __init__(self, history: int = 0) -> None:
        self.num_envs = 1
        self.cfg = SimpleNamespace(decimation=4)
        targets = {f"joint_{kind}_target": torch.zeros(1, 3) for kind in ("pos", "vel", "effort")}
        data = SimpleNamespace(joint_pos=torch.zeros(1, 2), joint_vel=torch.zeros(1, 2), **targets)
        self.robot = SimpleNamespace(data=data, joint_names=["hip", "knee", "toe"])
        self.scene = Scene(self.robot)
        self.command_manager = SimpleNamespace(active_terms=[])
        self.action_manager = ActionManager(self)
        self.observation_manager = ObservationManager(self, history)
        self.episode_length_buf = torch.zeros(1, dtype=torch.long)

    @property
    def unwrapped(self) -> ManagerBasedRLEnv:
        return self

    def reset(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        self.robot.data.joint_pos[:] = torch.tensor([[0.3, -0.2]])
        self.robot.data.joint_vel.zero_()
        self.episode_length_buf.zero_()
        self.action_manager.reset()
        self.observation_manager.reset()
        return self.observation_manager.compute(update_history=True), {}

    def step(self, action: torch.Tensor) -> tuple[Any, ...]:
        self.action_manager.process_action(action)
        data = self.robot.data
        for _ in range(self.cfg.decimation):
            self.action_manager.apply_action()
            self.scene.write_data_to_sim()
            data.joint_vel += 0.1 * (data.joint_pos_target[:, [0, 2]] - data.joint_pos)
            data.joint_pos += 0.1 * data.joint_vel
        self.episode_length_buf += 1
        ended = self.episode_length_buf >= 11
        if bool(ended.any()):
            seen = self.reset()[0]
        else:
            seen = self.observation_manager.compute(update_history=True)
        return seen, torch.zeros(1), ended, torch.zeros_like(ended), {}


# As the adapter knows the class: by the package that it comes from.
ManagerBasedRLEnv.__module__ = "isaaclab.envs"
