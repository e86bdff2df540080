"""Every example and every benchmark runs."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import roadworthy as rw
from tests.tiers import by_framework, named, representative

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
WORDS = {
    "walker": "FL_hip",
    "recurrent": "a reset row is fresh:  True",
    "masked_discrete": "allowed 1 of 4",
    "isaaclab_dropin": "['obs', 'h_in', 'c_in'] → ['actions', 'h_out', 'c_out']",
    "on_the_robot": "torch imported: False",
}


# `import torch` fails in the script that is named behind it.
WITHOUT_TORCH = """
import runpy, sys
from pathlib import Path
for name in ("torch", "tensordict", "torchrl", "onnx"):
    sys.modules[name] = None
del sys.argv[0]
sys.path.insert(0, str(Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(*command: str, cwd: Path) -> str:
    result = subprocess.run(
        [sys.executable, *command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_says_what_it_promises(example: Path, tmp_path: Path) -> None:
    rw.export(
        rw.Source(torch.nn.Linear(4, 2), example={"obs": torch.zeros(1, 4)}, period_s=0.005),
        tmp_path / "demo-bundle",
    )
    assert WORDS[example.stem] in run(str(example), cwd=tmp_path)


@dataclass(frozen=True, slots=True)
class Trained:
    """A folder of examples after its train.py and its export.py, with what the latter said."""

    folder: Path
    checkpoint: Path
    bundle: Path
    said: str

    def rollout(self, *arguments: str) -> str:
        """What rollout.py says where there is no PyTorch."""
        script = str(self.folder / "rollout.py")
        return run(
            "-c", WITHOUT_TORCH, script, str(self.bundle), *arguments, cwd=self.bundle.parent
        )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Trained]:
    """Trains and exports an example, once for all tests."""

    @functools.cache
    def made(name: str, frames: int) -> Trained:
        folder, scratch = ROOT / "examples" / name, tmp_path_factory.mktemp(name)
        checkpoint, bundle = scratch / "trained.pt", scratch / "bundle"
        train, export = str(folder / "train.py"), str(folder / "export.py")
        run(train, "--frames", str(frames), "--out", str(checkpoint), cwd=scratch)
        said = run(export, str(checkpoint), "--out", str(bundle), cwd=scratch)
        return Trained(folder, checkpoint, bundle, said)

    return made


@pytest.fixture(scope="module")
def pong(trained: Callable[..., Trained]) -> Trained:
    return trained("pong", 400)


@pytest.mark.framework
def test_pong_takes_the_raw_screen_and_says_what_the_emulator_calls_its_actions(
    pong: Trained,
) -> None:
    assert "uint8 (batch, 210, 160, 3)" in pong.said
    assert "discrete, one of 0, 1, 3, 4, 11, 12" in pong.said


@pytest.mark.framework
def test_pong_is_played_where_there_is_no_torch(pong: Trained) -> None:
    said = pong.rollout("--steps", "40")
    assert "40 of 40" in said
    assert "TorchRL" not in said


@pytest.mark.framework
def test_pong_is_played_as_torchrl_plays_it(pong: Trained, tmp_path: Path) -> None:
    script, out = str(pong.folder / "rollout.py"), tmp_path / "played.json"
    said = run(
        script, str(pong.bundle), "--steps", "400", "--beside", str(pong.checkpoint),
        "--out", str(out), cwd=tmp_path,
    )  # fmt: skip
    played = json.loads(out.read_text())
    assert played["ONNX"]["actions"] == played["TorchRL"]["actions"]
    assert played["ONNX"]["reward"] == played["TorchRL"]["reward"]
    # A policy that always did the same would agree with anything.
    assert len(set(played["ONNX"]["actions"])) > 1
    assert len(played["ONNX"]["actions"]) == 400
    assert said.count("400 of 400") == 2


@pytest.mark.framework
def test_ppo_plays_pendulum_as_torchrl_does(trained: Callable[..., Trained]) -> None:
    pendulum = trained("ppo_continuous", 500)
    assert "continuous in [-2.0, 2.0]" in pendulum.said
    worst = re.search(r"200 steps in closed loop, .* TorchRL: (\S+) N·m", pendulum.said)
    assert worst is not None, pendulum.said
    assert float(worst[1]) <= 1e-5
    said = pendulum.rollout("--episodes", "2")
    assert "seed 1: return -" in said


@pytest.mark.framework
def test_ppo_normalises_with_the_statistics_of_its_training(
    trained: Callable[..., Trained],
) -> None:
    pendulum = trained("ppo_continuous", 500)
    saved = torch.load(pendulum.checkpoint, weights_only=True)
    statistics = saved["transform"]["transforms.0._extra_state"]
    mean, squares, count = (statistics[f"{n}.-|-.observation"] for n in ("loc", "var", "count"))
    weight_so_far = 1 - 0.9999**count  # VecNormV2 forgets slowly, and both sums began at zero
    deviation = ((squares - mean**2) / weight_so_far).sqrt()
    observation = torch.tensor([0.6, 0.8, -3.0])
    x = (observation - mean / weight_so_far) / deviation
    values = list(saved["policy"].values())
    for weight, bias in zip(values[::2], values[1::2], strict=True):
        x = (weight @ x + bias).tanh()
    got = rw.load(pendulum.bundle).act(observation.numpy())
    assert got == pytest.approx(2 * x[:1].numpy(), abs=1e-4)


@pytest.mark.framework
def test_a_recurrent_policy_plays_cartpole_as_torchrl_does(
    trained: Callable[..., Trained],
) -> None:
    cartpole = trained("recurrent", 2000)
    assert "memory  recurrent_state_h" in cartpole.said
    assert cartpole.said.count("the same actions") == 5
    assert "DIFFERENT" not in cartpole.said
    lengths = re.findall(r"seed (\d): (\d+) steps", cartpole.said)
    assert re.findall(r"seed (\d): return (\d+)", cartpole.rollout()) == lengths


BENCHMARKS = (
    "step_latency", "start_up", "environment", "export_time", "verification", "c_speed",
    "flight_recorder", "torchrl_rollouts",
)  # fmt: skip
SMALL = {
    "export_time": ("--policies", "MLP 48-512-256-128-12", "--rounds", "1"),
    "torchrl_rollouts": ("--frames", "100", "--steps", "50", "--rounds", "2"),
    "c_speed": ("--policies", "MLP 4-64-64-2"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *representative([name for name in BENCHMARKS if not named(name)], ["start_up"]),
        *by_framework(filter(named, BENCHMARKS), str),
    ],
)
def test_a_benchmark_runs_and_writes_its_result(name: str, tmp_path: Path) -> None:
    script, out = ROOT / "benchmarks" / f"{name}.py", tmp_path / "result.json"
    run(str(script), "--rounds", "2", "--out", str(out), *SMALL.get(name, ()), cwd=tmp_path)
    result = json.loads(out.read_text())
    assert result["machine"]["cores"] >= 1
    if name == "torchrl_rollouts":
        assert result["pong"]["actions_equal"] == {"ONNX": 100}


def test_the_stored_benchmark_results_describe_their_machine() -> None:
    stored = sorted((ROOT / "benchmarks" / "results").glob("*.json"))
    assert [path.stem for path in stored] == [
        "c_coverage",
        "c_engines",
        "c_math",
        "c_speed",
        "checkpoint_export",
        "environment",
        "export_time",
        "flight_recorder",
        "gpu",
        "mjlab_go1",
        "operators",
        "people",
        "random_c",
        "start_up",
        "step_latency",
        "torchrl_rollouts",
        "verification",
    ]
    for path in stored:
        assert {"cpu", "cores", "torch"} <= set(json.loads(path.read_text())["machine"])


@pytest.mark.framework
@pytest.mark.long
def test_mjlab_runs_in_mujoco_alone(tmp_path: Path) -> None:
    folder = ROOT / "examples" / "mjlab"
    assert "cartpole.joint_pos" in run(str(folder / "export.py"), cwd=tmp_path)
    told = run("-c", WITHOUT_TORCH, str(folder / "run_in_mujoco.py"), cwd=tmp_path)
    assert "MuJoCo: the pole ends at" in told
