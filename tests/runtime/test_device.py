"""A policy on a device: tensors in and out, memory that stays there. Here on a stand-in."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import roadworthy as rw
from roadworthy.errors import BundleError, PortMismatch, UsageError
from roadworthy.runtime.cuda_engines import CudaEngine
from roadworthy.runtime.cuda_graph import Recording, Work, as_exported
from roadworthy.runtime.device_frame import Graph
from roadworthy.runtime.device_tensors import ADDRESSES
from roadworthy.runtime.feeds import LOOK_EVERY
from roadworthy.runtime.policy import Policy
from roadworthy.spec.samples import draw
from roadworthy.spec.signature import Signature
from roadworthy.spec.targets import TARGETS
from tests.conftest import Exported
from tests.environment.environments import ENVIRONMENTS
from tests.runtime.stand_in import DEVICE, NAME, recorded_in_place, with_stand_in
from tests.tiers import representative

ExportOnce = Callable[..., Exported]
MEMORY = ("lstm", "lstm_pair", "keeps_buffer", "nonzero_memory", "integer_clock", "action_filter")
OTHERS = ("mlp", "cnn", "transformer", "masked_discrete", "half_precision", "dict_outputs", "flags")


@pytest.fixture(autouse=True)
def listed() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("torch_export", "aoti"):
            patch.setitem(TARGETS, name, with_stand_in(name))
        yield


def loaded(folder: Path, **options: Any) -> Policy:
    return rw.load(folder, engine="torch_export", device=NAME, trust=True, **options)


def tensors(values: dict[str, Any]) -> dict[str, Any]:
    return {name: torch.from_numpy(np.array(each)) for name, each in values.items()}


@pytest.mark.parametrize("name", representative((*MEMORY, *OTHERS), ("lstm", "mlp")))
def test_tensors_and_arrays_give_what_the_processor_gives(
    name: str, export_once: ExportOnce
) -> None:
    folder = export_once(name, "torch_export").folder
    plain = rw.load(folder, engine="torch_export", trust=True)
    by_tensor, by_array = loaded(folder), loaded(folder)
    rng, signature = np.random.default_rng(0), plain.signature
    script = draw(signature, rng, steps=6, rows=3, sampling=rw.Bundle.open(folder).sampling)
    for step in range(6):
        now = {key: values[step] for key, values in script.items()}
        if step == 4:
            for each in (plain, by_array):
                each.reset(np.array([True, False, True]))
            by_tensor.reset(torch.tensor([True, False, True]))
        expected, got, array = plain.step(now), by_tensor.step(tensors(now)), by_array.step(now)
        for port, value in expected.items():
            assert type(got[port]) is torch.Tensor
            assert type(array[port]) is np.ndarray
            assert close(got[port].numpy(), value), (port, step)
            assert close(array[port], value), (port, step)
        for key, value in plain.memory.items():
            assert close(by_tensor.memory[key], value), (key, step)


def close(one: Any, other: Any) -> bool:
    """Equal up to the rounding that follows where in memory an array begins."""
    return np.allclose(one, other, rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize(
    "name", representative(("lstm", "fixed_batch_lstm", "mlp", "keeps_pair"), ("lstm",))
)
def test_device_has_a_certificate_of_its_own(name: str, export_once: ExportOnce) -> None:
    folder = export_once(name, "torch_export").folder
    certificate = rw.verify(folder, device=NAME, trust=True).raise_if_failed()
    assert {(each.target, each.device) for each in certificate.checks} == {("torch_export", NAME)}
    assert {"replay", "reset"} <= {each.name for each in certificate.checks}


def test_outputs_are_the_callers_own(export_once: ExportOnce) -> None:
    policy = loaded(export_once("mlp", "torch_export").folder)
    for make in (
        lambda value: torch.full((2, 6), value),
        lambda value: np.full((2, 6), value, "f4"),
    ):
        first = policy.step({"obs": make(0.0)})["actions"]
        kept = first.clone() if isinstance(first, torch.Tensor) else first.copy()
        policy.step({"obs": make(1.0)})
        assert (first == kept).all()


def test_own_buffers_are_read_where_they_are(export_once: ExportOnce) -> None:
    folder = export_once("lstm", "torch_export").folder
    policy, other = loaded(folder), loaded(folder)
    buffers = policy.buffers(4)
    assert {name: tuple(each.shape) for name, each in buffers.items()} == {"obs": (4, 6)}
    for step in range(3):
        buffers["obs"].fill_(step / 3)
        got = policy.step(buffers)["actions"]
        assert torch.equal(got, other.step({"obs": torch.full((4, 6), step / 3)})["actions"])
    assert policy.buffers(4)["obs"] is buffers["obs"]
    assert policy.step(buffers)["actions"] is got  # a buffer too, that the next step writes
    obs = buffers["obs"].clone()
    assert policy.step({"obs": obs})["actions"] is not policy.step({"obs": obs})["actions"]


def test_own_buffers_of_numpy_are_read_where_they_are(export_once: ExportOnce) -> None:
    policy = rw.load(export_once("mlp").folder)
    buffers = policy.buffers(2)
    buffers["obs"][...] = 0.5
    expected = rw.load(export_once("mlp").folder).act(np.full((2, 6), 0.5, np.float32))
    assert np.array_equal(policy.step(buffers)["actions"], expected)
    assert policy.buffers(2)["obs"] is buffers["obs"]


def test_row_without_a_batch_axis_comes_back_without(export_once: ExportOnce) -> None:
    policy = loaded(export_once("mlp", "torch_export").folder)
    row = torch.arange(6.0)
    alone, among = policy.act(row), policy.act(torch.stack([row, row]))
    assert alone.shape == among.shape[1:]
    assert torch.allclose(alone, among[0], atol=1e-6)


class Foreign:
    """What another library hands over: nothing but DLPack."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor, self.asked = tensor, 0

    def __dlpack__(self, **keywords: Any) -> Any:
        self.asked += 1
        return self.tensor.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (12, 0)  # a device of somebody's own, as the stand-in is meant to be


def test_dlpack_goes_in_and_comes_out(export_once: ExportOnce) -> None:
    policy = loaded(export_once("mlp", "torch_export").folder)
    obs = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    foreign = Foreign(obs)
    got = policy.step({"obs": foreign})["actions"]
    assert foreign.asked == 1
    assert np.array_equal(np.from_dlpack(got), policy.step({"obs": obs})["actions"].numpy())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.zeros(2, 6, dtype=torch.bfloat16), "expected float32 (batch, 6), got bfloat16"),
        (torch.zeros(2, 6, dtype=torch.int64), "expected float32 (batch, 6), got int64 (2, 6)"),
        (torch.zeros(2, 5), "expected float32 (batch, 6), got torch.float32 (2, 5)"),
        (torch.zeros(0, 6), "the batch is empty"),
    ],
)
def test_tensor_that_does_not_fit_is_refused(
    value: torch.Tensor, text: str, export_once: ExportOnce
) -> None:
    with pytest.raises(PortMismatch) as caught:
        loaded(export_once("mlp", "torch_export").folder).step({"obs": value})
    assert text in str(caught.value)


def test_float64_is_rounded_and_said_once(export_once: ExportOnce) -> None:
    policy = loaded(export_once("mlp", "torch_export").folder)
    obs = torch.ones(2, 6, dtype=torch.float64)
    with pytest.warns(UserWarning, match="float64 values are rounded"):
        got = policy.step({"obs": obs})["actions"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        policy.step({"obs": obs})
    assert torch.equal(got, policy.step({"obs": obs.float()})["actions"])


def test_gradients_autocast_and_inference_mode_of_the_caller_change_nothing(
    export_once: ExportOnce,
) -> None:
    folder = export_once("lstm", "torch_export").folder
    obs = torch.ones(2, 6)
    expected = loaded(folder).step({"obs": obs})["actions"]
    policy = loaded(folder)
    got = policy.step({"obs": obs.clone().requires_grad_()})["actions"]
    assert not got.requires_grad
    assert torch.equal(got, expected)
    with torch.inference_mode():
        other = loaded(folder)
        assert torch.equal(other.step({"obs": obs})["actions"], expected)
    other.reset()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(other.step({"obs": obs})["actions"], expected)


def test_settings_of_the_process_are_put_back() -> None:
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = (matmul.fp32_precision, cudnn.conv.fp32_precision, cudnn.benchmark)
    try:
        matmul.fp32_precision, cudnn.benchmark = "tf32", True
        with as_exported(DEVICE):
            assert (matmul.fp32_precision, cudnn.benchmark) == ("ieee", False)
        assert (matmul.fp32_precision, cudnn.benchmark) == ("tf32", True)
    finally:
        matmul.fp32_precision, cudnn.conv.fp32_precision, cudnn.benchmark = before


def test_copy_and_state_go_on_from_the_same_memory(export_once: ExportOnce) -> None:
    policy = loaded(export_once("lstm", "torch_export").folder)
    obs = {"obs": torch.ones(2, 6)}
    policy.step(obs)
    twin, state = copy.copy(policy), policy.state()
    expected = policy.step(obs)["actions"]
    assert torch.equal(twin.step(obs)["actions"], expected)
    policy.restore(state)
    assert torch.equal(policy.step(obs)["actions"], expected)
    values = {name: value * 0 for name, value in state.memory.items()}
    policy.set_memory(values)
    assert not any(value.any() for value in policy.memory.values())


def test_nan_is_said_once_on_a_device_too(export_once: ExportOnce) -> None:
    policy = loaded(export_once("mlp", "torch_export").folder)
    obs = torch.zeros(2, 6)
    obs[1, 3] = float("nan")
    with pytest.warns(UserWarning, match=r"obs\[1\]\[3\]: not a number"):
        policy.step({"obs": obs})


SIGNATURE = {
    "inputs": [{"name": "obs", "dtype": "float32", "shape": ["batch", 1]}],
    "outputs": [{"name": "actions", "dtype": "float32", "shape": ["batch", 1]}],
    "memory": [
        {"name": name, "dtype": "float32", "shape": ["batch", 1], "initial": value,
         "input": f"{name}_in", "output": f"{name}_out"}
        for name, value in (("a", 1.0), ("b", 2.0))
    ],
    "action": None,
    "period_s": None,
    "decimation": 1,
}  # fmt: skip


def made(graph: Graph, *, watch: bool = False) -> Policy:
    signature = Signature.from_json(SIGNATURE)
    engine = CudaEngine([graph], signature, device=DEVICE, where="policy.pt2")
    return Policy(signature, engine, watch=watch)


def test_memories_that_change_places_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """What shares its storage with a buffer is read before the buffer is written."""
    monkeypatch.setattr("roadworthy.runtime.device_frame.recorded", recorded_in_place)

    def swap(values: Any) -> Any:
        _, a, b = values
        return [a, b, a.view(-1, 1)]

    policy = made(swap)
    got = [float(policy.step({"obs": torch.zeros(1, 1)})["actions"]) for _ in range(4)]
    assert got == [1.0, 2.0, 1.0, 2.0]


def test_tensors_are_read_where_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the second sight of an address on; a few addresses, and none after the first steps."""
    recordings = []

    def recorded(work: Work, device: torch.device, *, where: str) -> Recording:
        recordings.append(work)
        return recorded_in_place(work, device, where=where)

    monkeypatch.setattr("roadworthy.runtime.device_frame.recorded", recorded)
    policy = made(lambda values: [values[0] * values[1], values[1] + 1, values[2]])
    buffer = policy.buffers(1)["obs"]
    one, other = torch.ones(1, 1), torch.full((1, 1), 10.0)
    got = [float(policy.step({"obs": (one, other)[step % 2]})["actions"]) for step in range(6)]
    assert got == [1, 20, 3, 40, 5, 60]
    assert len(recordings) == 3
    assert float(buffer) == 1  # of the third step: then both had been seen
    one.fill_(100)
    first = policy.step({"obs": one})["actions"]
    assert float(first) == 700
    policy.step({"obs": one.fill_(0)})
    assert float(first) == 700  # the caller's own
    kept = [torch.full((1, 1), float(index)) for index in range(9)]
    for step in range(9, 36):  # the memory counts the steps
        each = kept[step % 9]
        assert float(policy.step({"obs": each})["actions"]) == float(each) * step
    assert len(recordings) == 1 + ADDRESSES


def test_nan_is_seen_where_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roadworthy.runtime.device_frame.recorded", recorded_in_place)
    monkeypatch.setattr("roadworthy.runtime.device_buffers.LOOK_AT", 1)
    policy = made(lambda values: [values[0], values[1], values[2]], watch=True)
    obs = torch.ones(1, 1)
    for _ in range(4):
        policy.step({"obs": obs})
    obs.fill_(float("nan"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2 * LOOK_EVERY):
            policy.step({"obs": obs})
    assert ["not a number" in str(each.message) for each in caught] == [True]


def test_part_of_a_larger_tensor_is_copied_where_it_is_not_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("roadworthy.runtime.device_frame.recorded", recorded_in_place)
    policy = made(lambda values: [values[0] * 2, values[1], values[2]])
    table = torch.arange(12.0).view(4, 3)
    for _ in range(3):
        for column in range(3):
            got = policy.step({"obs": table[:, column : column + 1]})["actions"]
            assert got.flatten().tolist() == [2 * (3 * row + column) for row in range(4)]
        policy.reset()
        for row in range(4):
            assert float(policy.step({"obs": table[row : row + 1, :1]})["actions"]) == 6 * row
        policy.reset()


def test_result_that_does_not_fit_is_neither_broadcast_nor_cast() -> None:
    policy = made(lambda values: [values[0], values[1][:1], values[2]])
    with pytest.raises(BundleError) as caught:
        policy.step({"obs": torch.zeros(3, 1)})
    assert "a_out: expected float32 (3, 1), got torch.float32 (1, 1)" in str(caught.value)


def test_graph_that_raises_is_explained() -> None:
    def broken(values: Any) -> Any:
        raise RuntimeError("no kernel image is available")

    with pytest.raises(BundleError, match="PyTorch cannot run the graph on cpu: no kernel image"):
        made(broken).step({"obs": torch.zeros(1, 1)})


def test_two_rates_take_turns_on_a_device(tmp_path: Path) -> None:
    env, actor = ENVIRONMENTS["pd_four_ticks"]()
    rw.export_environment(env, actor, tmp_path / "b", targets=["torch_export"])
    plain = rw.load(tmp_path / "b", engine="torch_export", trust=True)
    policy = loaded(tmp_path / "b")
    rng, sampling = np.random.default_rng(0), rw.Bundle.open(tmp_path / "b").sampling
    rows = plain.signature.fixed_rows or 1
    script = draw(plain.signature, rng, steps=9, rows=rows, sampling=sampling)
    for step in range(9):
        now = {key: values[step] for key, values in script.items()}
        expected, got = plain.step(now), policy.step(tensors(now))
        for port, value in expected.items():
            assert np.array_equal(got[port].numpy(), value), (port, step)


def test_device_that_is_not_there_is_refused_with_what_to_install(
    export_once: ExportOnce,
) -> None:
    folder = export_once("mlp", "onnx", "torch_export").folder
    if not torch.cuda.is_available():
        with pytest.raises(BundleError) as caught:
            rw.load(folder, device="cuda", trust=True)
        assert "[RW214] there is no device 'cuda' here" in str(caught.value)
        assert "sees none that it can use" in str(caught.value)
    for keywords in (
        {"engine": "onnx", "device": "tensorrt"},
        {"providers": ["TensorrtExecutionProvider"]},
    ):
        with pytest.raises(BundleError) as caught:
            rw.load(folder, **keywords)
        assert "[RW214] this onnxruntime has no TensorrtExecutionProvider" in str(caught.value)
        assert "pip install onnxruntime-gpu tensorrt" in str(caught.value)


def test_providers_are_onnxruntimes(export_once: ExportOnce) -> None:
    folder = export_once("mlp", "onnx", "torch_export").folder
    obs = np.ones(6, np.float32)
    named = rw.load(folder, providers=["CPUExecutionProvider"])
    assert np.array_equal(named.act(obs), rw.load(folder).act(obs))
    with pytest.raises(BundleError, match="did you mean 'CPUExecutionProvider'"):
        rw.load(folder, providers=["CPUExecutionProvidr"])
    with pytest.raises(UsageError, match="providers are onnxruntime's"):
        rw.load(folder, engine="torch_export", trust=True, providers=["CPUExecutionProvider"])
    with pytest.raises(UsageError, match="expected a list"):
        rw.load(folder, providers="CPUExecutionProvider")


def test_target_that_a_machine_cannot_run_is_left_out_and_said(export_once: ExportOnce) -> None:
    folder = export_once("mlp", "onnx", "torch_export").folder
    certificate = rw.verify(folder, device="tensorrt", trust=True)
    assert not certificate.passed
    said = [str(each) for each in certificate.findings if each.code == "RW213"]
    assert any("onnx: was not run: this onnxruntime has no Tensorrt" in each for each in said)
    assert any(
        "torch_export: was not run: it has no engine for the device" in each for each in said
    )
