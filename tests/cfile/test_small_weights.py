"""Weights of fewer bytes: what the kernels make of them, and who may use them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from onnx import helper
from typer.testing import CliRunner

import roadworthy as rw
from roadworthy.api.shrink import shrink
from roadworthy.cli.app import app
from roadworthy.errors import CertificateFailed
from roadworthy.targets.c.folder.files import written
from roadworthy.targets.c.folder.interface import interface
from roadworthy.targets.c.kernels.panels import Storage, stored
from tests.cfile.running import STRICT, built, model, run
from tests.conftest import Exported

RNG = np.random.default_rng(0)


def rounded(weights: np.ndarray, storage: Storage) -> np.ndarray:
    """What a storage leaves of (k, n) weights, in double."""
    if storage == "float16":
        return weights.astype(np.float16).astype(np.float64)
    scale = np.abs(weights).max(axis=0) / 127
    return np.rint(weights / scale) * scale


@pytest.mark.parametrize("storage", ["float16", "int8"])
@pytest.mark.parametrize(("rows", "n"), [(1, 3), (1, 40), (5, 17)])
def test_product_is_that_of_the_rounded_weights(storage: Storage, rows: int, n: int) -> None:
    x, w, b = (RNG.standard_normal(s).astype(np.float32) for s in ((rows, 33), (33, n), (n,)))
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"])
    made = model([node], {"x": x}, {"y": (np.float32, (rows, n))}, {"w": w, "b": b})
    wanted = x.astype(np.float64) @ rounded(w, storage) + b
    assert np.abs(run(made, {"x": x}, weights=storage)["y"] - wanted).max() < 2e-5


@pytest.mark.parametrize("storage", ["float16", "int8"])
def test_filters_are_stored_small_too(storage: Storage) -> None:
    x = RNG.standard_normal((1, 2, 6, 6)).astype(np.float32)
    w = RNG.standard_normal((8, 2, 3, 3)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    made = model([node], {"x": x}, {"y": (np.float32, (1, 8, 4, 4))}, {"w": w})
    kept = rounded(w.reshape(8, -1).T, storage).T.reshape(w.shape)
    windows = np.lib.stride_tricks.sliding_window_view(x[0], (3, 3), axis=(1, 2))
    wanted = np.einsum("cijhw,fchw->fij", windows, kept)[None]
    assert np.abs(run(made, {"x": x}, weights=storage)["y"] - wanted).max() < 2e-5


class Echo(gym.Env[np.ndarray, np.ndarray]):
    """Rewards what a reference policy would do, and nothing else: any other action costs."""

    def __init__(self, folder: Path) -> None:
        self._wanted = rw.load(folder)
        port = self._wanted.signature.inputs[0]
        size = (int(port.shape[1]),)
        self.observation_space = gym.spaces.Box(-9, 9, size, np.float32)
        width = (int(self._wanted.signature.outputs[0].shape[1]),)
        self.action_space = gym.spaces.Box(-99, 99, width, np.float32)

    def reset(self, *, seed: int | None = None, options: object = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._steps = 0
        return self._seen(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        lost = float(np.abs(action - self._wanted.act(self._obs)).sum())
        self._steps += 1
        return self._seen(), 1 - lost, False, self._steps == 20, {}

    def _seen(self) -> np.ndarray:
        self._obs = self.np_random.standard_normal(self.observation_space.shape).astype(np.float32)
        return self._obs


def test_smaller_weights_are_refused_where_the_return_is_lost(
    export_once: Callable[[str], Exported], tmp_path: Path
) -> None:
    folder = export_once("mlp").folder
    full, half, byte = shrink(folder, env=lambda: Echo(folder), episodes=2, margin=0.02)
    # So few weights that the scales of their rows outweigh what bytes save beside half floats.
    assert full.constant_bytes > max(half.constant_bytes, byte.constant_bytes)
    assert full.played is not None
    assert full.played.mean_return == pytest.approx(20, abs=1e-3)
    assert 0 < half.lost < 0.02 < byte.lost
    half.write(tmp_path / "half")
    assert (
        " 0 values beyond"
        in subprocess.run(
            [built(tmp_path / "half", *STRICT, "-O2")], capture_output=True, text=True
        ).stdout
    )
    with pytest.raises(CertificateFailed, match=r"with weights of int8 the mean return is"):
        byte.write(tmp_path / "byte")
    assert not (tmp_path / "byte").exists()


def test_weights_that_half_floats_cannot_hold_are_refused(tmp_path: Path) -> None:
    """They would be infinite, and NaN wherever an observation is 0."""
    torch.manual_seed(0)
    actor = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    with torch.no_grad():
        actor[0].weight[0, 0] = 7e4
    folder = tmp_path / "bundle"
    rw.export(actor, folder, example={"obs": torch.zeros(1, 3)})
    full, half, byte = shrink(folder, env=lambda: Echo(folder), episodes=1, margin=1e9)
    assert full.passed
    assert byte.passed
    assert not half.passed
    assert half.refused.endswith("weights of float16, which end at 65504, where one is 7e+04")
    with pytest.raises(CertificateFailed, match="where one is 7e"):
        half.write(tmp_path / "half")
    assert not (tmp_path / "half").exists()


@pytest.mark.parametrize("weight", [np.nan, np.inf])
def test_weights_that_bytes_cannot_hold_are_refused(weight: float) -> None:
    with pytest.raises(NotImplementedError, match="int8 where one is NaN or infinite"):
        stored(np.array([[weight, 1.0, 2.0]], np.float32), rows=1, storage="int8")


def test_command_prints_one_row_for_each_storage(
    export_once: Callable[[str], Exported], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = export_once("mlp").folder
    (tmp_path / "envs.py").write_text(
        "from pathlib import Path\nfrom tests.cfile.test_small_weights import Echo\n"
        f"def make():\n    return Echo(Path({str(folder)!r}))\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["shrink", str(folder), "--env", "envs.py:make", "--episodes", "1", "--margin", "19"]
    done = CliRunner().invoke(app, [*words, "--weights", "int8", "-o", "small"])
    assert done.exit_code == 0, done.output
    for name in ("float32", "float16", "int8", "mean return", "policy.c"):
        assert name in done.output
    assert '#define POLICY_WEIGHTS "int8"' in (tmp_path / "small" / "policy.h").read_text()
    shown = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert [row["weights"] for row in shown["rows"]] == ["float32", "float16", "int8"]
    assert all(row["passed"] for row in shown["rows"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lstm_pair", "cnn", "half_precision"])
@pytest.mark.parametrize("storage", ["float16", "int8"])
def test_every_kind_of_policy_compiles_with_small_weights(
    name: str, storage: Storage, export_once: Callable[[str], Exported], tmp_path: Path
) -> None:
    bundle = export_once(name).bundle
    plain = interface(bundle.files["policy.onnx"], bundle.signature)
    small = interface(bundle.files["policy.onnx"], bundle.signature, weights=storage)
    sizes = [sum(each.nbytes for each in own.code.constants.values()) for own in (plain, small)]
    assert sizes[1] < sizes[0]
    for file, text in {**written(small), "user.c": '#include "policy.h"\n'}.items():
        (tmp_path / file).write_text(text)
    subprocess.run(["gcc", *STRICT, "-O1", "-c", "policy.c"], cwd=tmp_path, check=True)
