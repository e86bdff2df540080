"""Operators in C at their edges: NaN, ties, limits that cross, whole numbers that overflow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper

from roadworthy.runtime import compiler
from roadworthy.runtime.telemetry import silent_onnxruntime
from roadworthy.spec.onnx_graph import read
from roadworthy.targets.c.lowering import Unsupported
from roadworthy.targets.c.source import code
from tests.cfile.running import model, run

onnxruntime = silent_onnxruntime()
NAN, INF = np.nan, np.inf
F = np.float32


def one(
    op: str, *inputs: np.ndarray, out: tuple = (), dtype: object = None, **attributes: object
) -> np.ndarray:  # type: ignore[type-arg]
    """What C makes of one operator."""
    names = [f"x{i}" for i in range(len(inputs))]
    node = helper.make_node(op, names, ["y"], **attributes)
    shape = out or np.broadcast_shapes(*(each.shape for each in inputs))
    given = dict(zip(names, inputs, strict=True))
    made = model([node], given, {"y": (dtype or inputs[0].dtype, shape)})
    return run(made, given)["y"]


def f(*numbers: float) -> np.ndarray:
    return np.array(numbers, F)


def test_clip_lets_nan_through_and_its_upper_limit_wins() -> None:
    x = f(NAN, -5, 0.5, 5, INF, -INF)
    assert np.array_equal(
        one("Clip", x, f(-1)[0:1].reshape(()), f(1).reshape(())),
        f(NAN, -1, 0.5, 1, 1, -1),
        equal_nan=True,
    )
    crossed = one("Clip", x, np.asarray(2, F), np.asarray(1, F))
    assert np.array_equal(crossed, f(NAN, 1, 1, 1, 1, 1), equal_nan=True)


def test_log_of_a_sum_of_exponentials_knows_infinities() -> None:
    rows = np.stack([f(-INF, -INF), f(INF, 1), f(INF, -INF), f(NAN, INF), f(-INF, 2), f(3e38, 1)])
    node = helper.make_node("ReduceLogSumExp", ["x", "axes"], ["y"], keepdims=0)
    made = model([node], {"x": rows}, {"y": (F, (6,))}, {"axes": np.array([1])})
    got = run(made, {"x": rows})["y"]
    assert np.array_equal(got, f(-INF, INF, INF, NAN, 2, 3e38), equal_nan=True)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_zero_keeps_its_sign_within_limits_and_has_none_as_a_sign(kind: Any) -> None:
    x = f(-0.0, 0.0, -1.0, NAN).astype(kind)
    clipped = one("Clip", x, np.asarray(0, kind), np.asarray(6, kind))
    signs = one("Sign", x)
    assert np.signbit(clipped).tolist() == [True, False, False, False]
    assert np.signbit(signs).tolist() == [False, False, True, False]
    assert np.array_equal(signs, f(0, 0, -1, NAN), equal_nan=True)


@pytest.mark.parametrize("op", ["Max", "Min"])
def test_extremes_of_two_keep_nan_on_either_side(op: str) -> None:
    wanted = (np.maximum if op == "Max" else np.minimum)(f(NAN, 1, 2, -INF), f(1, NAN, 3, INF))
    assert np.array_equal(one(op, f(NAN, 1, 2, -INF), f(1, NAN, 3, INF)), wanted, equal_nan=True)


@pytest.mark.parametrize(
    "op", ["Relu", "Elu", "Tanh", "Sigmoid", "Exp", "Log", "Softplus", "Erf", "Sin", "Cos", "Sqrt"]
)
def test_nan_goes_through_every_activation(op: str) -> None:
    got = one(op, f(NAN, INF, -INF, 0.0))
    assert np.isnan(got[0])
    with np.errstate(all="ignore"):
        at_infinity = {
            "Relu": (INF, 0), "Elu": (INF, -1), "Tanh": (1, -1), "Sigmoid": (1, 0), "Exp": (INF, 0),
            "Log": (INF, NAN), "Softplus": (INF, 0), "Erf": (1, -1), "Sin": (NAN, NAN),
            "Cos": (NAN, NAN), "Sqrt": (INF, NAN),
        }[op]  # fmt: skip
    assert np.array_equal(got[1:3], f(*at_infinity), equal_nan=True)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.int8])
def test_whole_numbers_divide_and_wrap_as_onnx_says(dtype: type) -> None:
    low = np.iinfo(dtype).min
    a, b = np.array([7, -7, 7, -7, low, low], dtype), np.array([3, 3, -3, -3, 2, 7], dtype)
    assert one("Mod", a, b).tolist() == np.mod(a, b).tolist()
    assert one("Mod", a, b, fmod=1).tolist() == np.fmod(a, b).tolist()
    assert one("Div", a, b).tolist() == [2, -2, -2, 2, int(low / 2), -((-int(low)) // 7)]
    with np.errstate(all="ignore"):
        assert one("Add", a, a).tolist() == (a + a).tolist()
        assert one("Mul", a, a).tolist() == (a * a).tolist()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_sums_and_products_of_whole_numbers_wrap_around(
    dtype: type, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With a sign, C leaves open what an overflow gives, and a compiler may count on none."""
    flags = (*compiler.FLAGS, "-fsanitize=undefined")
    monkeypatch.setattr(compiler, "FLAGS", flags)
    ends = np.iinfo(dtype)
    x = np.array([[ends.max, ends.max, ends.min, 3], [ends.min, -7, 5, ends.max]], dtype)
    places = np.array([[0, 0, 1, 1], [2, 2, 2, 3]])
    make = helper.make_node
    nodes = [
        make("ReduceSum", ["x", "axis"], ["sum"], keepdims=0),
        make("ReduceProd", ["x", "axis"], ["product"], keepdims=0),
        make("CumSum", ["x", "one"], ["running"]),
        make("MatMul", ["x", "turned"], ["square"]),
        make("ScatterElements", ["x", "places", "x"], ["added"], axis=1, reduction="add"),
    ]
    outputs = {
        "sum": (dtype, (2,)), "product": (dtype, (2,)), "running": (dtype, (2, 4)),
        "square": (dtype, (2, 2)), "added": (dtype, (2, 4)),
    }  # fmt: skip
    known = {"axis": np.array([1]), "one": np.array(1), "turned": x.T.copy(), "places": places}
    got = run(model(nodes, {"x": x}, outputs, known), {"x": x})
    added = x.copy()
    with np.errstate(over="ignore"):
        for row, column in np.ndindex(2, 4):
            added[row, places[row, column]] += x[row, column]
        wanted = {
            "sum": x.sum(1, dtype=dtype), "product": x.prod(1, dtype=dtype),
            "running": x.cumsum(1, dtype=dtype), "square": x @ x.T, "added": added,
        }  # fmt: skip
    for name, numbers in wanted.items():
        np.testing.assert_array_equal(got[name], numbers, err_msg=name)
    assert "runtime error" not in capfd.readouterr().err


def test_division_by_zero_and_of_the_smallest_number_do_not_stop_the_program() -> None:
    low = np.iinfo(np.int32).min
    got = one("Div", np.array([5, low, 0], np.int32), np.array([0, -1, 0], np.int32))
    assert got.tolist() == [0, low, 0]


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, np.int8])
def test_casts_of_floats_saturate(dtype: type) -> None:
    limits = np.iinfo(dtype)
    number = {np.int32: 6, np.int64: 7, np.uint8: 2, np.int8: 3}[dtype]
    got = one("Cast", f(NAN, INF, -INF, 1e30, -2.7, 2.7), dtype=dtype, to=number)
    low = int(limits.min)
    assert got.tolist() == [0, limits.max, low, limits.max, max(-2, low), 2]


def test_rounding_takes_the_even_of_two() -> None:
    assert one("Round", f(0.5, 1.5, 2.5, -0.5, -1.5)).tolist() == [0, 2, 2, -0.0, -2]


def test_argmax_takes_the_first_of_equals() -> None:
    x = np.array([[1, 3, 3], [2, 2, 2]], F)
    got = one("ArgMax", x, out=(2,), dtype=np.int64, axis=1, keepdims=0)
    assert got.tolist() == [1, 0]


@pytest.mark.parametrize("largest", [0, 1])
def test_the_greatest_have_nan_before_all_as_in_pytorch(largest: int) -> None:
    x = np.array([[1, 2, NAN, 3, 0], [NAN, 5, 1, 3, NAN], [3, 1, 1, NAN, 3]], F)
    node = helper.make_node("TopK", ["x", "k"], ["y", "i"], largest=largest)
    outputs = {"y": ("float32", (3, 4)), "i": ("int64", (3, 4))}
    got = run(model([node], {"x": x}, outputs, {"k": np.array([4])}), {"x": x})
    wanted = torch.topk(torch.from_numpy(x), 4, largest=bool(largest)).values.numpy()
    np.testing.assert_array_equal(got["y"], wanted)
    np.testing.assert_array_equal(np.take_along_axis(x, got["i"], 1), wanted)


def test_index_beyond_the_axis_takes_its_end_and_nothing_else_is_read() -> None:
    data = np.arange(12, dtype=F).reshape(4, 3)
    index = np.array([0, 3, -1, 99, -99], np.int64)
    got = one("Gather", data, index, out=(5, 3))
    assert got.tolist() == data[[0, 3, 3, 3, 0]].tolist()


def onnxruntimes(made: bytes, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(made, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds), strict=True))


RNG = np.random.default_rng(3)
X = RNG.standard_normal((2, 3, 6, 6)).astype(F)
INDEX = np.array([[0, 2], [1, 0], [3, 1]], np.int64)
W = RNG.standard_normal((4, 3, 3, 3)).astype(F)
GROUPED = RNG.standard_normal((6, 1, 3, 3)).astype(F)
BIAS = W[0, 0, 0].copy()
# Name → input, weights and bias, attributes, shape of the result.
TRANSPOSED = {
    "plain": (X, [W[:3], BIAS], {}, (2, 3, 8, 8)),
    "stride_pads": (
        X, [W[:3]], {"strides": [2, 3], "pads": [1, 0, 2, 1], "output_padding": [1, 2]},
        (2, 3, 11, 19),
    ),
    "dilated": (X, [W[:3]], {"strides": [2, 1], "dilations": [2, 3]}, (2, 3, 15, 12)),
    "groups": (
        X.reshape(1, 4, 6, 9), [W[:, :2], W[0, 0].ravel()[:4]],
        {"group": 2, "strides": [2, 2], "dilations": [1, 2], "output_padding": [0, 1]},
        (1, 4, 13, 22),
    ),
    "cut": (X, [W[:3]], {"pads": [3, 0, 0, 4]}, (2, 3, 5, 4)),
    "line": (
        X[:, :, 0], [W[:3, :, 0], BIAS], {"strides": [2], "pads": [1, 0], "output_padding": [1]},
        (2, 3, 13),
    ),
    "line_groups": (
        X[:, :, 0], [W[:3, :, 0]], {"group": 3, "strides": [3], "dilations": [2]}, (2, 9, 20)
    ),
}  # fmt: skip
# Name → operator, inputs, constants, attributes, shape of the result.
LAYERS = {
    "conv": ("Conv", [X], [W, RNG.standard_normal(4).astype(F)], {}, (2, 4, 4, 4)),
    "conv_stride_pads": ("Conv", [X], [W], {"strides": [2, 1], "pads": [1, 0, 1, 2]}, (2, 4, 3, 6)),
    "conv_dilated": ("Conv", [X], [W], {"dilations": [2, 2]}, (2, 4, 2, 2)),
    "conv_groups": ("Conv", [X], [GROUPED], {"group": 3}, (2, 6, 4, 4)),
    "conv_line": ("Conv", [X[:, :, 0]], [W[:, :, 0]], {"pads": [1, 1]}, (2, 4, 6)),
    **{
        f"transposed_{name}": ("ConvTranspose", [each[0]], *each[1:])
        for name, each in TRANSPOSED.items()
    },
    "max_pool": ("MaxPool", [X], [], {"kernel_shape": [2, 3], "strides": [2, 1]}, (2, 3, 3, 4)),
    "average_pool": ("AveragePool", [X], [], {"kernel_shape": [2, 2]}, (2, 3, 5, 5)),
    "global_pool": ("GlobalAveragePool", [X], [], {}, (2, 3, 1, 1)),
    "softmax_middle": ("Softmax", [X], [], {"axis": 1}, X.shape),
    "log_softmax": ("LogSoftmax", [X], [], {}, X.shape),
    "layer_norm": (
        "LayerNormalization",
        [X],
        [W[0, 0, :2].ravel(), W[1, 0, :2].ravel()],
        {},
        X.shape,
    ),
    "matmul_batches": ("MatMul", [X, X.transpose(0, 1, 3, 2).copy()], [], {}, X.shape),
    "matmul_broadcast": ("MatMul", [X, X[0, 0]], [], {}, X.shape),
    "einsum": ("Einsum", [X, X], [], {"equation": "bchw,bcdw->bchd"}, X.shape),
    "reduce_some": ("ReduceMean", [X], [np.array([0, 2])], {"keepdims": 0}, (3, 6)),
    "reduce_l2": ("ReduceL2", [X], [np.array([-1])], {}, (2, 3, 6, 1)),
    "cumsum": ("CumSum", [X], [np.array(2)], {"reverse": 1}, X.shape),
    "scatter_runtime": (
        "ScatterElements",
        [X[0, 0], INDEX[:, :1], X[0, 1, :3, :1].copy()],
        [],
        {"axis": 1},
        (6, 6),
    ),
    "scatter_nd_add": (
        "ScatterND",
        [X[0, 0], INDEX, X[0, 1, 0, :3].copy()],
        [],
        {"reduction": "add"},
        (6, 6),
    ),
    "gather_nd": ("GatherND", [X[0], INDEX[:, :1] % 3], [], {}, (3, 6, 6)),
    "gather_elements": ("GatherElements", [X[0, 0], INDEX], [], {"axis": 0}, (3, 2)),
    "one_hot": ("OneHot", [INDEX], [np.array(4), np.array([-1, 5], F)], {}, (3, 2, 4)),
    "pad_reflect": (
        "Pad",
        [X],
        [np.array([0, 0, 1, 2, 0, 0, 2, 1])],
        {"mode": "reflect"},
        (2, 3, 9, 9),
    ),
    "slice_backwards": (
        "Slice",
        [X],
        [np.array([5, -1]), np.array([-99, 0]), np.array([3, 2]), np.array([-2, -1])],
        {},
        (2, 3, 5, 3),
    ),
    **{
        f"depth_to_space_{mode}": (
            "DepthToSpace",
            [RNG.standard_normal((2, 8, 3, 5)).astype(F)],
            [],
            {"blocksize": 2, "mode": mode},
            (2, 2, 6, 10),
        )
        for mode in ("DCR", "CRD")
    },
    "space_to_depth": ("SpaceToDepth", [X], [], {"blocksize": 3}, (2, 27, 2, 2)),
    "instance_norm": (
        "InstanceNormalization",
        [X],
        [W[:3, 0, 0, 0].copy(), W[:3, 0, 0, 1].copy()],
        {},
        X.shape,
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layer_is_onnxruntimes(name: str) -> None:
    op, inputs, constants, attributes, shape = LAYERS[name]
    given = {f"x{i}": np.ascontiguousarray(each) for i, each in enumerate(inputs)}
    held = {f"c{i}": np.ascontiguousarray(each) for i, each in enumerate(constants)}
    node = helper.make_node(op, [*given, *held], ["y"], **attributes)
    made = model([node], given, {"y": (F, shape)}, held)
    wanted = onnxruntimes(made, given)["y"]
    assert wanted.shape == shape
    assert np.abs(run(made, given)["y"] - wanted).max() <= 2e-5


@pytest.mark.parametrize("word", [{"auto_pad": "SAME_UPPER"}, {"output_shape": [12]}])
def test_transposed_convolution_to_a_size_that_is_asked_for_is_refused(
    word: dict[str, Any],
) -> None:
    x, w = X[:1, :, 0].copy(), W[:3, :, 0].copy()
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2], **word)
    with pytest.raises(Unsupported, match=rf"ConvTranspose: {next(iter(word))}="):
        run(model([node], {"x": x}, {"y": (F, (1, 3, 12))}, {"w": w}), {"x": x})


def test_branch_is_chosen_when_the_policy_runs() -> None:
    bodies = {}
    for name, op in (("then_branch", "Exp"), ("else_branch", "Neg")):
        out = helper.make_tensor_value_info(f"{op}_y", 1, [3])
        bodies[name] = helper.make_graph(
            [helper.make_node(op, ["doubled"], [f"{op}_y"])], op, [], [out]
        )
    nodes = [
        helper.make_node("Add", ["x", "x"], ["doubled"]),
        helper.make_node("If", ["flag"], ["y"], **bodies),
    ]
    x = f(0.5, -1, 2)
    made = model(nodes, {"x": x, "flag": np.array(True)}, {"y": (F, (3,))})
    assert np.allclose(run(made, {"x": x, "flag": np.array(True)})["y"], np.exp(2 * x), rtol=1e-6)
    assert np.array_equal(run(made, {"x": x, "flag": np.array(False)})["y"], -2 * x)


def test_unknown_operator_is_refused_by_its_name() -> None:
    node = helper.make_node("NonZero", ["x"], ["y"], name="node_nonzero")
    made = model([node], {"x": f(1, 2)}, {"y": (np.int64, (1, 2))})
    with pytest.raises(Unsupported) as caught:
        run(made, {"x": f(1, 2)})
    assert str(caught.value) == (
        "[RW131] node_nonzero: the C writer does not know the operator NonZero"
        "\n  → leave c out of targets=[…], or load with engine='onnx', or write that line with "
        "other operators"
    )


def test_attribute_that_the_operator_does_not_know_is_refused_by_its_name() -> None:
    with pytest.raises(Unsupported, match=r"Relu: steepness=2"):
        one("Relu", f(-1, 2), steepness=2)


def test_result_that_nobody_computes_is_refused_where_it_is_used() -> None:
    node = helper.make_node("Dropout", ["x"], ["y", "mask"])
    both = {"y": (F, (2,)), "mask": (np.bool_, (2,))}
    given = {"x": f(1, 2)}
    assert run(model([node], given, {"y": both["y"]}), given)["y"].tolist() == [1, 2]
    with pytest.raises(Unsupported, match=r"Dropout: its result 1, mask"):
        run(model([node], given, both), given)


def of_opset(made: bytes, version: int) -> bytes:
    older = onnx.ModelProto.FromString(made)
    older.opset_import[0].version = version
    return bytes(older.SerializeToString())


@pytest.mark.parametrize("inside", [False, True], ids=["", "in a branch"])
def test_softmax_is_refused_in_opsets_where_it_was_another(*, inside: bool) -> None:
    given = {"x": np.zeros((2, 3, 4), F), "chosen": np.array(True)}
    out = (F, (2, 3, 4))
    node = helper.make_node("Softmax", ["x"], ["y"], axis=1)
    if inside:
        port = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (2, 3, 4))
        body = helper.make_graph([node], "body", [], [port])
        node = helper.make_node("If", ["chosen"], ["y"], then_branch=body, else_branch=body)
    made = model([node], given, {"y": out})
    assert run(made, given)["y"].sum(axis=1) == pytest.approx(1)
    with pytest.raises(Unsupported, match=r"does not know the operator Softmax of opset 11"):
        run(of_opset(made, 11), given)


def test_axes_and_sizes_of_older_opsets_are_read() -> None:
    nodes = [
        helper.make_node("Unsqueeze", ["x"], ["wide"], axes=[0]),
        helper.make_node("ReduceSum", ["wide"], ["summed"], axes=[-1], keepdims=1),
        helper.make_node("Squeeze", ["summed"], ["column"], axes=[0]),
        helper.make_node("Split", ["column"], ["first", "rest"], split=[1, 2], axis=0),
    ]
    x = np.arange(12, dtype=F).reshape(3, 4)
    made = model(nodes, {"x": x}, {"first": (F, (1, 1)), "rest": (F, (2, 1))})
    got = run(of_opset(made, 11), {"x": x})
    assert (np.concatenate([got["first"], got["rest"]]) == x.sum(axis=1, keepdims=True)).all()


@pytest.mark.parametrize(("how", "far"), [("max", 9.0), ("min", -9.0)])
def test_nan_stays_and_spreads_where_extremes_are_scattered(how: str, far: float) -> None:
    data, index = f(np.nan, 1, 2, 0), np.array([0, 1, 2, 3])
    got = one("ScatterElements", data, index, f(far, np.nan, far, 0), reduction=how, out=(4,))
    np.testing.assert_array_equal(got, f(np.nan, np.nan, far, 0))
    whole = np.array([1, 2, 3, 4], np.int32)
    got = one("ScatterElements", whole, index, whole[::-1].copy(), reduction=how, out=(4,))
    assert got.tolist() == ([4, 3, 3, 4] if how == "max" else [1, 2, 2, 1])


def test_bits_are_shifted_out_and_never_back_in() -> None:
    x, by = np.array([1, 200, 255, 7], np.uint8), np.array([1, 1, 7, 9], np.uint8)
    assert one("BitShift", x, by, direction="LEFT").tolist() == [2, 144, 128, 0]
    assert one("BitShift", x, by, direction="RIGHT").tolist() == [0, 100, 1, 0]
    assert one("BitwiseNot", np.array([0, -1, 5], np.int32)).tolist() == [-1, 0, -6]


def test_eye_like_takes_a_shape_and_no_numbers() -> None:
    got = one("EyeLike", np.full((2, 3), NAN, F), k=1)
    assert np.array_equal(got, np.eye(2, 3, 1, dtype=F))


@pytest.mark.parametrize("size", [(2, 2), (2, 6), (6, 2), (5, 5)])
@pytest.mark.parametrize("filters", [1, 4, 5])
def test_convolution_to_a_single_place_or_line_is_one_too(
    size: tuple[int, int], filters: int
) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 2, *size)).astype(F)
    w, b = rng.standard_normal((filters, 2, 3, 3)).astype(F), rng.standard_normal(filters).astype(F)
    out = (1, filters, -(-size[0] // 2), -(-size[1] // 2))
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], strides=[2, 2], pads=[1, 1, 1, 1])
    made = model([node], {"x": x}, {"y": (F, out)}, {"w": w, "b": b})
    session = onnxruntime.InferenceSession(made, providers=["CPUExecutionProvider"])
    assert np.allclose(run(made, {"x": x})["y"], session.run(None, {"x": x})[0], atol=1e-5)


def frames(repeated: str = "Expand", **window: Any) -> tuple[bytes, np.ndarray]:
    """What a policy of a game begins with: grey frames, every second place, a convolution.

    Its two channels are one image, repeated by an operator of its own or by a sum that broadcasts.
    """
    frame = RNG.integers(0, 255, (1, 24, 20, 3)).astype(np.uint8)
    filters = RNG.standard_normal((8, 2 // window.get("group", 1), 4, 4)).astype(F)
    constants = {
        "axis": np.array([3]), "half": f(127.5), "starts": np.array([4, 0]), "w": filters,
        "ends": np.array([20, 20]), "axes": np.array([1, 2]), "steps": np.array([2, 2]),
        "one": np.array([1]), "Expand": np.array([1, 2, 8, 10]),
        "Add": np.array([0.5, -0.5], F).reshape(1, 2, 1, 1),
    }  # fmt: skip
    nodes = [
        helper.make_node("Cast", ["x"], ["real"], to=1),
        helper.make_node("ReduceMean", ["real", "axis"], ["grey"], keepdims=0),
        helper.make_node("Div", ["grey", "half"], ["scaled"]),
        helper.make_node("Slice", ["scaled", "starts", "ends", "axes", "steps"], ["small"]),
        helper.make_node("Unsqueeze", ["small", "one"], ["image"]),
        helper.make_node(repeated, ["image", repeated], ["twice"]),
        helper.make_node("Conv", ["twice", "w"], ["y"], **window),
    ]
    reach = 3 * window.get("dilations", [1])[0] - 2 * window.get("pads", [0])[0]
    out = (1, 8, 8 - reach, 10 - reach)
    used = {name: constants[name] for node in nodes for name in node.input if name in constants}
    return model(nodes, {"x": frame}, {"y": (F, out)}, used), frame


def evaluations(lines: Sequence[str], mark: str) -> int:
    """How often a step computes what a text stands for: once for each turn of the loops around."""
    found, turns = 0, [1]
    for line in lines:
        loop = re.match(r" *for \(int \w+ = 0; \w+ < (\d+);", line)
        if loop:
            turns.append(turns[-1] * int(loop[1]))
        elif line.strip() == "}":
            turns.pop()
        found += line.count(mark) * turns[-1]
    return found


@pytest.mark.parametrize("repeated", ["Expand", "Add"])
@pytest.mark.parametrize("window", [{}, {"dilations": [2, 2]}, {"group": 2}, {"pads": [1] * 4}])
def test_what_stands_before_a_convolution_is_computed_once_and_only_where_it_is_read(
    repeated: str, window: dict[str, Any]
) -> None:
    made, frame = frames(repeated, **window)
    got = run(made, {"x": frame})["y"]
    assert np.allclose(got, onnxruntimes(made, {"x": frame})["y"], atol=1e-4)
    lines = code(read(made), {}).step
    assert evaluations(lines, "/ 127.5f") == 8 * 10
    assert evaluations(lines, "in_x[") == 8 * 10 * 3


def test_tree_that_is_repeated_is_evaluated_once() -> None:
    x, y = (RNG.standard_normal(size).astype(F) for size in ((1, 5), (40, 5)))
    nodes = [helper.make_node("Tanh", ["x"], ["t"]), helper.make_node("Add", ["t", "y"], ["z"])]
    made = model(nodes, {"x": x, "y": y}, {"z": (F, (40, 5))})
    assert np.allclose(run(made, {"x": x, "y": y})["z"], np.tanh(x) + y, atol=1e-6)
    lines = [line.strip() for line in code(read(made), {}).step]
    place = next(place for place, line in enumerate(lines) if "rw_tanh" in line)
    assert lines[place - 1 : place + 2 : 2] == ["for (int i0 = 0; i0 < 5; i0++) {", "}"]


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2"])
@pytest.mark.parametrize("count", [2, 8, 9])
def test_few_elements_are_joined_as_many_are(op: str, count: int) -> None:
    x = RNG.standard_normal((4, count, 3)).astype(F)
    x[0, count - 1, 0] = np.nan
    nodes = [helper.make_node(op, ["x", "axis"], ["y"], keepdims=0)]
    made = model(nodes, {"x": x}, {"y": (F, (4, 3))}, {"axis": np.array([1])})
    wanted = {
        "ReduceSum": np.sum, "ReduceMax": np.max, "ReduceMin": np.min, "ReduceProd": np.prod,
        "ReduceL2": np.linalg.norm,
    }[op](x, axis=1)  # fmt: skip
    assert np.allclose(run(made, {"x": x})["y"], wanted, atol=1e-5, equal_nan=True)


def test_a_computed_number_picks_along_the_last_axis() -> None:
    x = np.arange(6, dtype=F).reshape(2, 3)
    got = one("Gather", x, np.asarray(2), out=(2,), axis=1)
    assert np.array_equal(got, x[:, 2])


def test_a_whole_number_has_a_root() -> None:
    x, half = np.array([9, 16, 2]), np.asarray(0.5, F)
    made = model([helper.make_node("Pow", ["x", "half"], ["y"])], {"x": x},
                 {"y": (np.int64, (3,))}, {"half": half})  # fmt: skip
    assert run(made, {"x": x})["y"].tolist() == [3, 4, 1]


def test_the_lowest_numbers_of_both_widths_are_written_as_they_are() -> None:
    x, low = np.zeros(3, np.int64), np.array([-(2**31), -(2**63), 5])
    made = model([helper.make_node("Add", ["x", "low"], ["y"])], {"x": x},
                 {"y": (np.int64, (3,))}, {"low": low})  # fmt: skip
    assert run(made, {"x": x})["y"].tolist() == low.tolist()


def test_an_operator_on_a_type_that_it_has_no_c_for_is_refused_by_name() -> None:
    node = helper.make_node("Erf", ["x"], ["y"], name="bent")
    x = np.zeros(2, np.int64)
    with pytest.raises(Unsupported, match=r"bent: the C writer does not know Erf of int64"):
        code(read(model([node], {"x": x}, {"y": (np.int64, (2,))})), {})


def test_a_column_that_is_added_to_a_product_is_a_number_for_each_row() -> None:
    """As many numbers as the product has columns: not to be taken for a row."""
    x = np.arange(12, dtype=F).reshape(4, 3)
    weights, column = np.eye(3, 4, dtype=F), np.arange(1, 5, dtype=F).reshape(4, 1)
    for bias in (column, column.T, column.ravel()):
        node = helper.make_node("Gemm", ["x", "w", "c"], ["y"])
        made = model([node], {"x": x}, {"y": (F, (4, 4))}, {"w": weights, "c": bias})
        assert np.array_equal(run(made, {"x": x})["y"], x @ weights + bias)


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_a_border_that_is_cut_off_is_seen_by_the_other_one(mode: str) -> None:
    x = np.arange(6, dtype=F)
    node = helper.make_node("Pad", ["x", "pads"], ["y"], mode=mode)
    made = model([node], {"x": x}, {"y": (F, (7,))}, {"pads": np.array([-1, 2])})
    wanted = np.pad(x, (0, 2), mode=mode)[1:]  # type: ignore[call-overload]
    assert np.array_equal(run(made, {"x": x})["y"], wanted)


@pytest.mark.parametrize(
    ("node", "shapes", "said"),
    [
        (helper.make_node("TopK", ["x", "k"], ["y", "i"]), ((3,),), "the 5 largest of 3"),
        (
            helper.make_node("Einsum", ["x", "z"], ["y"], equation="bij,bjk->bik"),
            ((1, 2, 3), (5, 3, 2)),
            "the equation 'bij,bjk->bik' of",
        ),
    ],
    ids=["TopK", "Einsum"],
)
def test_sizes_that_do_not_go_together_are_refused(
    node: onnx.NodeProto, shapes: tuple[tuple[int, ...], ...], said: str
) -> None:
    inputs = {name: np.zeros(shape, F) for name, shape in zip(("x", "z"), shapes, strict=False)}
    outputs: dict[str, tuple[Any, Sequence[int]]] = {"y": (F, (5, 2, 2))}
    constants = {}
    if node.op_type == "TopK":
        outputs, constants = {"y": (F, (5,)), "i": (np.int64, (5,))}, {"k": np.array([5])}
    with pytest.raises(Unsupported, match=said):
        code(read(model([node], inputs, outputs, constants)), {})


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_constants_are_divided_as_numbers_that_come_later(dtype: type) -> None:
    low = np.iinfo(dtype).min
    a, b = np.array([7, -7, 7, -7, low, low], dtype), np.array([3, 3, -3, -3, 2, 7], dtype)
    node = helper.make_node("Div", ["a", "b"], ["q"])
    whole = helper.make_node("Add", ["x", "q"], ["y"])
    zeros = np.zeros(6, dtype)
    made = model([node, whole], {"x": zeros}, {"y": (dtype, (6,))}, {"a": a, "b": b})
    wanted = [2, -2, -2, 2, int(low / 2), -((-int(low)) // 7)]
    assert run(made, {"x": zeros})["y"].tolist() == wanted == one("Div", a, b).tolist()
