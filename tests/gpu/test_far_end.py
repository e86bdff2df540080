"""A GPU at the far end: tensors of the device in and out, one CUDA graph a step, a certificate."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import roadworthy as rw
from roadworthy.runtime.cuda_engines import CudaEngine
from roadworthy.runtime.policy import Policy
from roadworthy.spec.samples import draw
from roadworthy.spec.signature import Signature
from tests.conftest import Exported
from tests.environment.environments import ENVIRONMENTS
from tests.runtime.test_device import SIGNATURE

ExportOnce = Callable[..., Exported]
NAMES = (
    "mlp", "cnn", "gru", "keeps_buffer", "nonzero_memory", "transformer", "half_precision",
    "masked_discrete", "fixed_batch", "integer_clock", "squashed_gaussian", "own_cell",
)  # fmt: skip
# Bundles that another machine exported, where there are some: LSTMs need a later torch than 2.11,
# and an AOTInductor library of a machine's own ended its process there. Their graphs run.
CARRIED = sorted(Path(os.environ.get("ROADWORTHY_BUNDLES", "nowhere")).glob("*/manifest.json"))


def steps(policy: Policy, folder: Path, count: int, rows: int) -> list[dict[str, Any]]:
    sampling = rw.Bundle.open(folder).sampling
    rows = policy.signature.fixed_rows or rows
    script = draw(
        policy.signature, np.random.default_rng(0), steps=count, rows=rows, sampling=sampling
    )
    return [{name: values[step] for name, values in script.items()} for step in range(count)]


def on_gpu(values: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(np.array(each)).cuda() for name, each in values.items()}


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_policy_is_certified_on_the_gpu(name: str, export_once: ExportOnce) -> None:
    exported = export_once(name, "torch_export")
    certificate = rw.verify(exported.folder, against=exported.source, device="cuda", trust=True)
    certificate.raise_if_failed()
    assert {(each.target, each.device) for each in certificate.checks} == {("torch_export", "cuda")}
    assert "fresh steps" in {each.name for each in certificate.checks}


@pytest.mark.parametrize("manifest", CARRIED, ids=lambda path: path.parent.name)
def test_bundles_of_another_machine_are_certified_here(manifest: Path) -> None:
    rw.verify(manifest.parent, device="cuda", trust=True).raise_if_failed()


@pytest.mark.parametrize("name", ["mlp", "gru", "keeps_buffer"])
def test_nothing_waits_and_memory_stays(name: str, export_once: ExportOnce) -> None:
    folder = export_once(name, "torch_export").folder
    policy = rw.load(folder, device="cuda", trust=True)
    plain = rw.load(folder, engine="torch_export", trust=True)
    script = steps(plain, folder, 20, rows=5)
    there = [on_gpu(each) for each in script]
    policy.step(there[0])
    policy.reset()
    mask = torch.tensor([True, False, False, True, False], device="cuda")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is a prototype, it says
            torch.cuda.set_sync_debug_mode("error")
        got = []
        for index, now in enumerate(there):
            if index == 9:
                policy.reset(mask)
            got.append(policy.step(now)["actions"])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for index, now in enumerate(script):
        if index == 9:
            plain.reset(mask.cpu().numpy())
        expected = plain.step(now)["actions"]
        assert got[index].is_cuda
        assert np.allclose(got[index].cpu().numpy(), expected, rtol=1e-3, atol=1e-4), index


def test_a_step_is_one_launch(export_once: ExportOnce) -> None:
    policy = rw.load(export_once("gru", "torch_export").folder, device="cuda", trust=True)
    buffers = policy.buffers(7)
    for _ in range(3):
        policy.step(buffers)
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the profiler says about itself
        with torch.profiler.profile(activities=activities) as profile:
            for _ in range(10):
                policy.step(buffers)
            torch.cuda.synchronize()
    counted = Counter(event.name for event in profile.events())
    assert counted["cudaGraphLaunch"] == 10
    assert counted["cudaLaunchKernel"] == 0
    assert counted["cudaMemcpyAsync"] == 0


def test_tensors_are_read_where_they_lie(export_once: ExportOnce) -> None:
    """From the second sight of an address on: one graph, and a copy of the output."""
    folder = export_once("gru", "torch_export").folder
    policy, plain = (rw.load(folder, device="cuda", trust=True) for _ in range(2))
    obs = [torch.zeros(7, policy.signature.inputs[0].sizes({"batch": 7})[1], device="cuda")] * 2
    obs[1] = obs[0].clone()
    buffers = plain.buffers(7)
    generator = torch.Generator("cuda").manual_seed(0)
    for step in range(12):
        now = obs[step % 2].normal_(generator=generator)
        got = policy.step({"obs": now})["actions"]
        buffers["obs"].copy_(now)
        assert torch.equal(got, plain.step(buffers)["actions"]), step
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    torch.cuda.synchronize()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the profiler says about itself
        with torch.profiler.profile(activities=activities) as profile:
            for step in range(10):
                policy.step({"obs": obs[step % 2]})
            torch.cuda.synchronize()
    counted = Counter(event.name for event in profile.events())
    assert counted["cudaGraphLaunch"] == 10
    assert counted["cudaMemcpyAsync"] + counted["cudaLaunchKernel"] == 10


def test_arrays_of_numpy_go_through_the_same_graph(export_once: ExportOnce) -> None:
    folder = export_once("gru", "torch_export").folder
    by_array = rw.load(folder, device="cuda", trust=True)
    by_tensor = rw.load(folder, device="cuda:0", trust=True)
    for now in steps(by_array, folder, 10, rows=3):
        array, tensor = by_array.step(now), by_tensor.step(on_gpu(now))
        assert type(array["actions"]) is np.ndarray
        assert np.array_equal(array["actions"], tensor["actions"].cpu().numpy())
    alone = steps(by_array, folder, 1, rows=1)[0]["obs"][0]
    by_array.reset()
    assert by_array.act(alone).ndim == 1


def test_another_stream_is_followed(export_once: ExportOnce) -> None:
    folder = export_once("gru", "torch_export").folder
    one, other = (rw.load(folder, device="cuda", trust=True) for _ in range(2))
    script = [on_gpu(each) for each in steps(one, folder, 5, rows=64)]
    expected = [one.step(now)["actions"] for now in script]
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        got = [other.step(now)["actions"] for now in script]
    stream.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(expected, got, strict=True))


def test_the_precision_of_the_process_does_not_matter(export_once: ExportOnce) -> None:
    folder = export_once("cnn", "torch_export").folder
    exact, other = (rw.load(folder, device="cuda", trust=True) for _ in range(2))
    now = on_gpu(steps(exact, folder, 1, rows=16)[0])
    expected = exact.step(now)
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    try:
        matmul.allow_tf32 = cudnn.allow_tf32 = True
        with torch.autocast("cuda", dtype=torch.bfloat16):
            got = other.step(now)
        assert (matmul.allow_tf32, cudnn.allow_tf32) == (True, True)
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before
    for name, value in expected.items():
        assert torch.equal(got[name], value), name


def test_other_libraries_hand_over_by_dlpack(export_once: ExportOnce) -> None:
    cupy = pytest.importorskip("cupy")
    policy = rw.load(export_once("mlp", "torch_export").folder, device="cuda", trust=True)
    obs = cupy.ones((4, 6), dtype=cupy.float32)
    got = policy.step({"obs": obs})["actions"]
    assert got.is_cuda
    back = cupy.from_dlpack(got)
    assert back.data.ptr == got.data_ptr()
    expected = policy.step({"obs": torch.ones(4, 6, device="cuda")})["actions"]
    assert np.array_equal(back.get(), expected.cpu().numpy())


def test_what_no_graph_can_hold_runs_without_one() -> None:
    def waits(values: Any) -> Any:
        obs, a, b = values
        return [obs * float(a.sum().item()), a + 1, b]

    signature = Signature.from_json(SIGNATURE)
    engine = CudaEngine([waits], signature, device=torch.device("cuda", 0), where="policy.pt2")
    policy, stream = Policy(signature, engine), torch.cuda.current_stream()
    obs = torch.ones(1, 1, device="cuda")
    with pytest.warns(rw.RoadworthyWarning, match=r"RW215.*runs operator by operator"):
        first = float(policy.step({"obs": obs})["actions"])
    assert [first, *(float(policy.step({"obs": obs})["actions"]) for _ in range(2))] == [1, 2, 3]
    assert torch.cuda.current_stream() == stream


def test_two_rates_take_turns(tmp_path: Path) -> None:
    env, actor = ENVIRONMENTS["pd_four_ticks"]()
    rw.export_environment(env, actor, tmp_path / "b", targets=["torch_export"])
    rw.verify(tmp_path / "b", device="cuda", trust=True).raise_if_failed()


def test_number_of_a_device_that_is_not_there(export_once: ExportOnce) -> None:
    folder = export_once("mlp", "torch_export").folder
    with pytest.raises(rw.RoadworthyError, match=r"RW214.*no device 'cuda:99'"):
        rw.load(folder, device="cuda:99", trust=True)
