from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import roadworthy

SPACES = """
import gymnasium as gym
import numpy as np

class Env(gym.Env):
    def __init__(self, seen=np.float32, count=2):
        self.observation_space = gym.spaces.Box(0, 1, (4,), seen)
        self.action_space = gym.spaces.Discrete(count)

    def reset(self, seed=None, options=None):
        return np.zeros(4, self.observation_space.dtype), {}

    def step(self, action):
        return np.zeros(4, np.float32), float(action), True, False, {}

class Raising(Env):
    def step(self, action):
        raise RuntimeError("the simulator is not there")

def two_actions():
    return Env(count=1)

def bytes_seen():
    return Env(seen=np.uint8)

def raises():
    return Raising()

def codes():
    return Env(count=8)

def coded():
    import torch, roadworthy as rw
    return rw.Source(torch.nn.Linear(4, 2), example={"obs": torch.zeros(1, 4)},
                     action=rw.Argmax(table=(5, 7)))

def pushing():
    import torch, roadworthy as rw
    return rw.Source(torch.nn.Linear(3, 1), example={"obs": torch.zeros(1, 3)},
                     action=rw.Clip(low=-50.0, high=50.0))
"""

VERBS = ("export", "verify", "run", "inspect", "bench", "report", "compare", "web", "demo")


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_every_verb_has_an_example_and_its_options(verb: str, tmp_path: Path) -> None:
    result = roadworthy(verb, "--help", cwd=tmp_path)
    assert result.code == 0
    assert "--json" in result.out
    assert verb == "demo" or f"roadworthy {verb} " in result.out


def test_the_program_lists_its_verbs(tmp_path: Path) -> None:
    result = roadworthy("--help", cwd=tmp_path)
    assert all(verb in result.out for verb in VERBS)


def test_an_unknown_verb_or_option_is_a_usage_error(tmp_path: Path) -> None:
    assert roadworthy("exprt", cwd=tmp_path).code == 2
    assert roadworthy("verify", "--nonsense", cwd=tmp_path).code == 2


def test_verify_alone_says_that_the_live_module_was_not_part_of_it(workshop: Path) -> None:
    result = roadworthy("verify", "cartpole", cwd=workshop)
    assert result.code == 0
    assert "Certificate passed" in result.out
    assert "compared with the recorded steps only" in result.out


def test_verify_against_the_module_adds_the_live_check(workshop: Path) -> None:
    words = ["verify", "cartpole", "--against", "my_policy.py:actor", "--json"]
    data = roadworthy(*words, cwd=workshop).json()
    assert [check["name"] for check in data["checks"]] == [
        "replay",
        "batch",
        "reset",
        "fresh steps",
        "logits",
    ]
    assert data["passed"] is True


def test_verify_against_another_module_fails_with_port_and_step(workshop: Path) -> None:
    (workshop / "other.py").write_text(
        "import torch\ntorch.manual_seed(1)\n"
        "actor = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(),"
        " torch.nn.Linear(16, 2))\n"
    )
    result = roadworthy("verify", "cartpole", "--against", "other.py:actor", cwd=workshop)
    assert result.code == 1
    assert "Certificate FAILED" in result.out
    assert "RW300 fresh steps: actions[" in result.out
    assert "→ RW320 names the likely cause" in result.out


@pytest.mark.parametrize("verb", ["verify", "inspect", "bench", "run"])
def test_a_damaged_bundle_is_refused(workshop: Path, verb: str) -> None:
    damaged = workshop / f"damaged-{verb}"
    shutil.copytree(workshop / "cartpole", damaged)
    data = bytearray((damaged / "policy.onnx").read_bytes())
    data[len(data) // 2] ^= 1
    (damaged / "policy.onnx").write_bytes(data)
    env = ["--env", "CartPole-v1"] if verb == "run" else []
    result = roadworthy(verb, damaged.name, *env, cwd=workshop)
    assert result.code == 2
    assert "policy.onnx is not the file that was certified" in result.err


@pytest.mark.parametrize("verb", ["verify", "inspect", "bench"])
def test_a_path_that_is_no_bundle_is_refused(workshop: Path, verb: str) -> None:
    result = roadworthy(verb, "nowhere", cwd=workshop)
    assert result.code == 2
    assert "nowhere" in result.err
    assert "Traceback" not in result.err


def test_inspect_shows_ports_operators_sums_and_provenance(workshop: Path) -> None:
    result = roadworthy("inspect", "cartpole", cwd=workshop, columns=80)
    for text in ("float32 (batch, 4)", "ArgMax×1", "sha256", "opset      20, IR 10", "torch 2."):
        assert text in result.out
    assert max(len(line) for line in result.out.splitlines()) <= 80


def test_inspect_reads_a_lone_file_and_prints_json(workshop: Path) -> None:
    data = roadworthy("inspect", "cartpole/policy.onnx", "--json", cwd=workshop).json()
    assert data["signature"]["action"]["kind"] == "discrete"
    assert len(data["files"]["policy.onnx"]["sha256"]) == 64
    assert data["certificate"] is None


def test_inspect_lists_every_value_beside_pytorch(workshop: Path) -> None:
    words = ["inspect", "cartpole", "--values", "--against", "my_policy.py:cartpole"]
    data = roadworthy(*words, "--json", cwd=workshop).json()["values"]
    operators = [each["operator"] for each in data]
    assert operators[0] == "Gemm"
    assert operators[-1] in ("ArgMax", "Cast")
    compared = [each for each in data if each["off_by"] is not None]
    assert len(compared) >= 2
    assert all(each["off_by"] < 1e-5 and each["not_finite"] == 0 for each in compared)
    shown = roadworthy(*words, cwd=workshop)
    assert "off by" in shown.out
    assert "Values of one step" in roadworthy("inspect", "cartpole", "--values", cwd=workshop).out


def test_verify_plays_in_closed_loop(workshop: Path) -> None:
    words = ["verify", "cartpole", "--against", "my_policy.py:cartpole", "--env", "CartPole-v1"]
    result = roadworthy(*words, "--episodes", "3", cwd=workshop)
    assert result.code == 0, result.err
    assert "3 episodes that the artifact drives are those of the original" in " ".join(
        result.out.split()
    )


def test_run_plays_episodes_and_prints_their_returns(workshop: Path) -> None:
    words = ["run", "cartpole", "--env", "CartPole-v1", "--episodes", "3", "--seed", "7"]
    result = roadworthy(*words, cwd=workshop)
    assert result.code == 0
    assert "mean return" in result.out
    first, again = (roadworthy(*words, "--json", cwd=workshop).json() for _ in range(2))
    assert first == again
    assert len(first["returns"]) == 3


def test_run_takes_an_environment_from_a_file(workshop: Path) -> None:
    (workshop / "my_env.py").write_text(
        "import gymnasium\ndef make_env():\n    return gymnasium.make('CartPole-v1')\n"
    )
    words = ["run", "cartpole", "--env", "my_env.py:make_env", "--max-steps", "5", "--json"]
    assert max(roadworthy(*words, cwd=workshop).json()["steps"]) <= 5


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("CartPol-v1", "no environment 'CartPol-v1'"),
        ("Pendulum-v1", "the policy takes rows of (4,), the environment observes (3,)"),
        ("spaces.py:two_actions", "the policy chooses among 2 actions, the environment has 1"),
        ("spaces.py:bytes_seen", "the policy takes float32, the environment observes uint8"),
        ("spaces.py:raises", "RuntimeError: the simulator is not there"),
        ("no_such_module:Env-v0", "no_such_module"),
    ],
)
def test_run_refuses_an_environment_that_does_not_fit(
    workshop: Path, env: str, message: str
) -> None:
    (workshop / "spaces.py").write_text(SPACES)
    result = roadworthy("run", "cartpole", "--env", env, cwd=workshop, columns=300)
    assert result.code == 2
    assert message in result.err
    assert "Traceback" not in result.err


def test_run_plays_the_codes_of_the_table_and_knows_the_bounds(workshop: Path) -> None:
    (workshop / "spaces.py").write_text(SPACES)
    for name in ("coded", "pushing"):
        made = roadworthy("export", f"spaces.py:{name}", "-o", name, cwd=workshop)
        assert made.code == 0, made.err
    played = roadworthy("run", "coded", "--env", "spaces.py:codes", "--json", cwd=workshop)
    assert set(played.json()["returns"]) <= {5.0, 7.0}
    wide = roadworthy("run", "pushing", "--env", "Pendulum-v1", cwd=workshop, columns=300)
    assert wide.code == 2
    assert "the policy gives continuous in [-50.0, 50.0], the environment takes [-2, 2]" in wide.err


TALKS = """
import torch

class Actor(torch.nn.Linear):
    def forward(self, obs):
        print("acting")
        return super().forward(obs)

actor = Actor(4, 2)
"""


def test_what_a_file_prints_or_how_it_quits_does_not_disturb_the_result(workshop: Path) -> None:
    (workshop / "chatty.py").write_text("print('loading')\nfrom my_policy import cartpole\n")
    words = ["export", "chatty.py:cartpole", "-o", "chatty", "--json"]
    assert roadworthy(*words, cwd=workshop).json()["certificate"]["passed"] is True
    (workshop / "talks.py").write_text(TALKS)
    words = ["export", "talks.py:actor", "--input", "obs=4", "-o", "talks", "--json"]
    assert roadworthy(*words, cwd=workshop).json()["certificate"]["passed"] is True
    (workshop / "quits.py").write_text("import sys\nsys.exit(3)\nactor = None\n")
    result = roadworthy("export", "quits.py:actor", "-o", "x", cwd=workshop)
    assert result.code == 2
    assert "quits.py:2: SystemExit: 3" in result.err


def test_a_place_that_cannot_be_written_is_a_usage_error(workshop: Path) -> None:
    result = roadworthy("export", "my_policy.py:cartpole", "-o", "/proc/x", cwd=workshop)
    assert result.code == 2
    assert "Traceback" not in result.err


def test_the_version_is_shown(tmp_path: Path) -> None:
    assert roadworthy("--version", cwd=tmp_path).out.startswith("roadworthy 0.")


def test_run_asks_for_argmax_where_the_policy_gives_logits(workshop: Path) -> None:
    roadworthy("export", "my_policy.py:actor", "--input", "obs=4", "-o", "logits", cwd=workshop)
    result = roadworthy("run", "logits", "--env", "CartPole-v1", cwd=workshop, columns=300)
    assert result.code == 2
    assert "export with action=rw.Argmax()" in result.err


def test_bench_measures_step_and_plain_session_side_by_side(workshop: Path) -> None:
    words = ["bench", "cartpole", "--rounds", "2", "--batch", "3"]
    assert "InferenceSession.run" in roadworthy(*words, cwd=workshop).out
    data = roadworthy(*words, "--json", cwd=workshop).json()
    assert data["batch"] == 3
    assert data["latency"]["Policy.step"]["calls"] == 20


def test_the_verbs_of_the_robot_run_without_torch_and_onnx(workshop: Path) -> None:
    script = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in ('torch', 'onnx', 'onnxscript'):
            raise ModuleNotFoundError(f'blocked: {name}', name=name.partition('.')[0])
sys.meta_path.insert(0, Block())
from roadworthy.cli.app import app
for words in (['verify', 'cartpole'], ['bench', 'cartpole', '--rounds', '1'],
              ['run', 'cartpole', '--env', 'CartPole-v1', '--episodes', '1']):
    app(words, standalone_mode=False)
assert not {'torch', 'onnx', 'onnxscript'} & set(sys.modules)
from roadworthy.cli.app import run
run(['export', 'my_policy.py:actor', '--input', 'obs=4', '-o', 'never'])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=workshop, capture_output=True, text=True
    )
    assert done.returncode == 2, done.stderr
    assert "torch is not installed" in done.stderr
    assert "pip install 'roadworthy[export]'" in done.stderr


def test_without_typer_the_program_says_what_to_install(tmp_path: Path) -> None:
    script = "import sys; sys.modules['typer'] = None; from roadworthy.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "pip install 'roadworthy[cli]'" in done.stderr


def test_the_demo_plays_the_same_actions_and_shows_what_forgetting_costs(tmp_path: Path) -> None:
    data = roadworthy("demo", "--episodes", "3", "--json", cwd=tmp_path).json()
    torch_row, bundle_row, forgetful = data["rows"]
    assert torch_row["returns"] == bundle_row["returns"] == [500.0] * 3
    assert bundle_row["equal"] == torch_row["equal"] == 1500
    assert max(forgetful["returns"]) < 100
    assert forgetful["equal"] < 1300
    assert data["certificate"]["passed"] is True
    assert (tmp_path / "demo-bundle" / "SHA256SUMS").is_file()
    second = data["checkpoint"]
    assert second["wrote"].startswith("Stable-Baselines3 2.")
    assert (second["passed"], second["returns"]) == (True, [500.0] * 3)
    assert 'id="verdict" class="verdict passed"' in (tmp_path / data["report"]).read_text()


def test_the_makefile_runs_the_demo_that_is_tested_here() -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    assert "\t$(BIN)/roadworthy demo --out demo-bundle\n" in makefile


def test_debug_shows_the_traceback_before_and_behind_the_verb(workshop: Path) -> None:
    words = ("export", "my_policy.py:broken", "-o", "bundle")
    plain = roadworthy(*words, cwd=workshop)
    assert plain.code == 2
    assert "Traceback" not in plain.err
    for debugged in (("--debug", *words), (*words, "--debug")):
        result = roadworthy(*debugged, cwd=workshop)
        assert result.code == 2
        assert "RuntimeError: no such checkpoint" in result.err.partition("Traceback")[2]
        assert "roadworthy.errors" in result.err
