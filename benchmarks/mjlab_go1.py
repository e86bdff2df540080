"""mjlab's Go1 on flat ground: the processor time of an export, and a step beside eager PyTorch.

The actor is the task's own, with weights of its own; times do not depend on what it has learned.
Needs mjlab (`pip install roadworthy[mjlab]`). Eager is mjlab's own code on the CPU, without the
simulation: observe, act, process and apply at a decision, apply alone at a tick between two.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import machine
import mjlab.tasks  # noqa: F401  # registers the tasks
import torch
from mjlab.envs import ManagerBasedRlEnv
from mjlab.rl import MjlabOnPolicyRunner, RslRlVecEnvWrapper
from mjlab.tasks.registry import load_env_cfg, load_rl_cfg

import roadworthy as rw
from roadworthy.frameworks.mjlab.live import describe
from roadworthy.runtime.latency import interleaved

TASK = "Mjlab-Velocity-Flat-Unitree-Go1"
STEPS = 40


def made(task: str) -> tuple[ManagerBasedRlEnv, torch.nn.Module]:
    """One environment as it is played, and the actor of the task."""
    cfg, rl_cfg = load_env_cfg(task, play=True), load_rl_cfg(task)
    cfg.scene.num_envs, cfg.seed, rl_cfg.upload_model = 1, 3, False
    with contextlib.redirect_stdout(sys.stderr):
        env = ManagerBasedRlEnv(cfg, device="cpu")
        wrapped = RslRlVecEnvWrapper(env, rl_cfg.clip_actions)
        runner = MjlabOnPolicyRunner(wrapped, asdict(rl_cfg), None, "cpu")
    return env, runner.alg.get_policy().eval()


def simulated(env: ManagerBasedRlEnv, model: torch.nn.Module) -> float:
    """Seconds of one step of mjlab, of which an export takes more than a hundred."""
    with torch.inference_mode():
        obs, _ = env.reset()
        start = time.process_time()
        for _ in range(STEPS):
            obs, *_ = env.step(model(obs))
    return (time.process_time() - start) / STEPS


def speed(env: ManagerBasedRlEnv, model: torch.nn.Module, policy: rw.Policy) -> dict[str, Any]:
    """A decision and a tick between two, each beside what mjlab does in eager mode."""
    source = describe(env, actor=model)
    with torch.inference_mode():
        source.env.prepare_export()
        source.step()
    feed = {name: read().numpy().copy() for name, read in source.inputs.items()}
    policy.step(feed)

    def at(tick: int) -> Any:
        policy._buffers.ticks[...] = tick
        return policy.step(feed)

    def decide() -> None:
        with torch.inference_mode():
            obs = env.observation_manager.compute_group("actor", update_history=True)
            env.action_manager.process_action(model({"actor": obs}))
            env.action_manager.apply_action()

    def apply() -> None:
        with torch.inference_mode():
            env.action_manager.apply_action()

    measured = {
        "decide": interleaved({"Policy.step": lambda: at(0), "eager": decide}),
        "tick": interleaved({"Policy.step": lambda: at(1), "eager": apply}),
    }
    return {
        name: {
            **{rival: each.to_json() for rival, each in rivals.items()},
            "times_eager": rivals["Policy.step"].p50_us / rivals["eager"].p50_us,
        }
        for name, rivals in measured.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default=TASK)
    parser.add_argument("--exports", type=int, default=2)
    parser.add_argument("--out", type=Path, default=machine.RESULTS / "mjlab_go1.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    env, model = made(arguments.task)
    step_s = simulated(env, model)
    export_s = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "bundle"
        # The first one of a process also imports what captures and lowers.
        for _ in range(arguments.exports):
            start = time.process_time()
            rw.export_environment(env, model, folder, progress=False)
            export_s.append(time.process_time() - start)
        results = speed(env, model, rw.load(folder))
    for name, each in results.items():
        ours, theirs = each["Policy.step"]["p50_us"], each["eager"]["p50_us"]
        print(f"{name:<8}{ours:8.1f} µs, eager {theirs:8.1f} µs ({each['times_eager']:.2f}×)")
    print("export", ", ".join(f"{each:.1f} s" for each in export_s), "of processor time")
    print(f"mjlab's own step {1e3 * step_s:.1f} ms")
    found = {
        "task": arguments.task,
        "export_processor_s": export_s,
        "mjlab_step_processor_s": step_s,
        **results,
    }
    print(f"written to {machine.write(arguments.out, found)}")


if __name__ == "__main__":
    main()
