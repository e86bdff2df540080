"""Every task of mjlab that runs on a CPU, with the actor that its own runner makes."""

from __future__ import annotations

import contextlib
import io
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from mjlab.rl import MjlabOnPolicyRunner, RslRlVecEnvWrapper
from mjlab.tasks.registry import list_tasks, load_rl_cfg, load_runner_cls

import roadworthy as rw
from tests.adapters.mjlab.living import compare
from tests.adapters.mjlab.tasks import made, short_episodes, still_motion
from tests.adapters.mjlab.test_export import TOLERANCE, digest

pytestmark = [pytest.mark.long, pytest.mark.slow]


@pytest.mark.filterwarnings("ignore:MULTICCD")  # of rough ground, and MuJoCo Warp's own
@pytest.mark.parametrize("task", list_tasks())
def test_a_task_gives_what_mjlab_gives_over_300_steps_with_resets(
    task: str, tmp_path: Path
) -> None:
    def change(cfg: Any) -> None:
        short_episodes(cfg)
        for command in cfg.commands.values():
            if hasattr(command, "motion_file"):
                standing = made("Mjlab-Velocity-Flat-Unitree-G1")
                command.motion_file = str(still_motion(tmp_path / "motion.npz", standing))

    env = made(task, change)
    checkpoint, model = saved(env, task, tmp_path / "model.pt")
    before = digest(env)
    rw.export_environment(env, checkpoint, tmp_path / "out", task=task, progress=False)
    assert digest(env) == before
    found = compare(env, model, tmp_path / "out", 300)
    assert found.worst <= TOLERANCE
    assert found.resets >= 5


def saved(env: Any, task: str, path: Path) -> tuple[Path, torch.nn.Module]:
    """A checkpoint as the runner of the task writes it, and the actor in it."""
    cfg = load_rl_cfg(task)
    runner_class = load_runner_cls(task) or MjlabOnPolicyRunner
    torch.manual_seed(0)
    with contextlib.redirect_stdout(io.StringIO()):
        wrapped = RslRlVecEnvWrapper(env, cfg.clip_actions)
        runner = runner_class(wrapped, asdict(cfg), None, "cpu")
    model = runner.alg.get_policy()
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            if name.endswith("mean"):
                buffer += 0.1 * torch.randn_like(buffer)
            elif name.endswith(("std", "var")):
                buffer *= 1.3
    torch.save(runner.alg.save() | {"iter": 0, "infos": None}, path)
    return path, model.eval()
