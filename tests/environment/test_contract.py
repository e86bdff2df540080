"""The file of the tutorial environment, port by port, as Exploy's controller expects it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from roadworthy.compat.exploy import export_environment_as_onnx
from roadworthy.environment import Group, Input, Memory, Output
from tests.environment.test_tutorial import (
    Actor,
    DataSource,
    Environment,
    ExportableEnv,
)

INPUTS = ["ctx.step_count", "foo", "bar_baz_group.bar", "bar_baz_group.baz"]
DTYPES = {onnx.TensorProto.FLOAT, onnx.TensorProto.INT32, onnx.TensorProto.BOOL}


def tutorial() -> tuple[ExportableEnv, Actor]:
    env = ExportableEnv(Environment(DataSource()))
    inner, context = env.env, env.context_manager()
    about = {"joint_names": ["a", "b"], "gain": 2.5}
    context.add_components(
        [
            Input("foo", lambda: inner.data_source.foo, metadata=about),
            Output("out", lambda: inner._output, metadata={"unit": "rad"}),
            Memory("actions", lambda: inner._actions),
        ]
    )
    items = [
        Input("bar", lambda: inner.data_source.bar),
        Input("baz", lambda: inner.data_source.baz),
    ]
    context.add_group(Group("bar_baz_group", items, metadata={"type": "pair"}))
    torch.manual_seed(0)
    return env, Actor(inner.num_obs, inner.num_act).eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("contract")
    env, actor = tutorial()
    source = {"type": "wandb", "run": "a/b/1"}
    assert export_environment_as_onnx(env, actor, root, model_source=source) == root / "policy.onnx"
    return root


@pytest.fixture(scope="module")
def model(folder: Path) -> onnx.ModelProto:
    return onnx.load(folder / "policy.onnx")


def shapes(values: list[onnx.ValueInfoProto]) -> dict[str, tuple[int, ...]]:
    return {
        value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in values
    }


def feeds(session: onnxruntime.InferenceSession, step_count: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    found = {
        port.name: rng.standard_normal(port.shape).astype(np.float32)
        for port in session.get_inputs()
    }
    if "ctx.step_count" in found:
        found["ctx.step_count"] = np.asarray(step_count, dtype=np.int32)
    return found


def plain_session(path: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def test_inputs_come_in_the_order_of_the_contract(model: onnx.ModelProto) -> None:
    found = shapes(model.graph.input)
    registered = [name for name in found if name in (*INPUTS, "memory.actions.in")]
    assert registered == [*INPUTS, "memory.actions.in"]
    assert found["ctx.step_count"] == ()
    assert found["foo"] == (1, 4)
    assert found["bar_baz_group.bar"] == found["bar_baz_group.baz"] == (1, 2)
    assert all(name.startswith("memory.") for name in list(found)[len(INPUTS) :])


def test_outputs_come_in_the_order_of_the_contract(model: onnx.ModelProto) -> None:
    found = shapes(model.graph.output)
    assert list(found)[:4] == ["actions", "obs", "out", "memory.actions.out"]
    assert (found["actions"], found["obs"], found["out"]) == ((1, 2), (1, 10), (1, 2))
    assert all(name.startswith("memory.") for name in list(found)[3:])


def test_each_memory_enters_and_leaves_in_one_shape(model: onnx.ModelProto) -> None:
    ins, outs = shapes(model.graph.input), shapes(model.graph.output)
    entering = {n.removesuffix(".in"): s for n, s in ins.items() if n.startswith("memory.")}
    leaving = {n.removesuffix(".out"): s for n, s in outs.items() if n.startswith("memory.")}
    assert entering == leaving


def test_dtypes_are_those_that_the_controller_knows(model: onnx.ModelProto) -> None:
    kinds = {
        v.name: v.type.tensor_type.elem_type for v in (*model.graph.input, *model.graph.output)
    }
    assert set(kinds.values()) <= DTYPES
    assert kinds["ctx.step_count"] == onnx.TensorProto.INT32


def test_all_sizes_are_static(model: onnx.ModelProto) -> None:
    for value in (*model.graph.input, *model.graph.output):
        assert all(dim.HasField("dim_value") for dim in value.type.tensor_type.shape.dim)


def test_one_if_on_the_step_count_chooses_the_half(model: onnx.ModelProto) -> None:
    producer = {name: node for node in model.graph.node for name in node.output}
    constants = {c.name: onnx.numpy_helper.to_array(c) for c in model.graph.initializer}
    (choice,) = [node for node in model.graph.node if node.op_type == "If"]
    equal = producer[choice.input[0]]
    mod = producer[equal.input[0]]
    assert (equal.op_type, mod.op_type) == ("Equal", "Mod")
    assert mod.input[0] == "ctx.step_count"
    assert (constants[mod.input[1]], constants[equal.input[1]]) == (4, 0)
    assert list(choice.output) == [value.name for value in model.graph.output]


def test_metadata_has_the_keys_of_the_contract(model: onnx.ModelProto) -> None:
    said = {each.key: each.value for each in model.metadata_props}
    assert json.loads(said["model_source"]) == {"type": "wandb", "run": "a/b/1"}
    assert isinstance(json.loads(said["exploy_version"]), str)
    assert (said["env_name"], said["version"]) == ("Env", "1.0")
    assert json.loads(said["foo"]) == {"joint_names": ["a", "b"], "gain": 2.5}
    assert json.loads(said["out"]) == {"unit": "rad"}
    assert json.loads(said["bar_baz_group"]) == {"type": "pair"}
    assert "date" not in " ".join(said).lower()


def test_the_opset_and_ir_version_are_those_asked_for(tmp_path: Path) -> None:
    path = export_environment_as_onnx(
        *tutorial(), tmp_path, filename="walk.onnx", opset_version=18, ir_version=9
    )
    model = onnx.load(path)
    assert ({o.version for o in model.opset_import if not o.domain}, model.ir_version) == ({18}, 9)
    debug = sorted(each.name for each in (tmp_path / "debug").iterdir())
    assert debug == ["walk_default.onnx", "walk_process_actions.onnx"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["debug", "walk.onnx"]


def test_a_second_file_has_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    source = {"type": "wandb", "run": "a/b/1"}
    again = export_environment_as_onnx(*tutorial(), tmp_path, model_source=source)
    assert again.read_bytes() == (folder / "policy.onnx").read_bytes()


def test_plain_onnxruntime_decides_at_0_and_applies_at_1(folder: Path) -> None:
    session = plain_session(folder / "policy.onnx")
    names = [port.name for port in session.get_outputs()]
    env, actor = tutorial()
    given = feeds(session)
    env.env.data_source.foo[:] = torch.from_numpy(given["foo"])
    env.env.data_source.bar[:] = torch.from_numpy(given["bar_baz_group.bar"])
    env.env.data_source.baz[:] = torch.from_numpy(given["bar_baz_group.baz"])
    env.env._actions[:] = torch.from_numpy(given["memory.actions.in"])
    with torch.no_grad():
        observations = env.compute_observations()
        actions = actor(observations)
    decided = dict(zip(names, session.run(None, given), strict=True))
    np.testing.assert_allclose(decided["obs"], observations, atol=1e-5)
    np.testing.assert_allclose(decided["actions"], actions, atol=1e-5)
    np.testing.assert_allclose(decided["out"], 3 * actions + 2, atol=1e-5)
    np.testing.assert_allclose(decided["memory.actions.out"], actions, atol=1e-5)
    between = feeds(session, step_count=1)
    between |= {n.replace(".out", ".in"): v for n, v in decided.items() if n.startswith("memory.")}
    applied = dict(zip(names, session.run(None, between), strict=True))
    np.testing.assert_array_equal(applied["out"], decided["out"])
    np.testing.assert_array_equal(applied["memory.actions.out"], decided["memory.actions.out"])


@pytest.mark.parametrize("name", ["default", "process_actions"])
def test_debug_graphs_load_and_run(name: str, folder: Path) -> None:
    session = plain_session(folder / "debug" / f"policy_{name}.onnx")
    assert "ctx.step_count" not in [port.name for port in session.get_inputs()]
    outputs = session.run(None, feeds(session))
    assert [port.name for port in session.get_outputs()][:3] == ["actions", "obs", "out"]
    assert all(np.isfinite(value).all() for value in outputs)
