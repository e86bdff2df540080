"""Rounding is measured inside of the graph too, where moved inputs say nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.capture.capture import capture
from roadworthy.spec.port import Port
from roadworthy.spec.signature import Signature
from roadworthy.verification.budget import measure
from roadworthy.verification.originals.exact import GraphYardstick
from roadworthy.verification.originals.interpreting import closing_transforms
from roadworthy.verification.originals.module import original_of
from roadworthy.verification.originals.original import Yardstick
from roadworthy.verification.states import StateLayout, States


class Behind(nn.Module):
    """A function behind a layer of 64."""

    def __init__(self, function: Callable[[Tensor], Tensor], first: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(4, 64), nn.Linear(64, 3)
        self.function = function
        with torch.no_grad():
            self.first.weight.mul_(first)

    def forward(self, obs: Tensor) -> Tensor:
        return self.function(self.second(torch.tanh(self.first(obs))))


def yardstick(module: nn.Module, size: int = 4) -> tuple[Yardstick, StateLayout]:
    source = rw.Source(module, example={"obs": torch.zeros(1, size)})
    program = capture(source)
    found = original_of(source, program).yardstick(program.signature)
    assert found is not None
    return found, StateLayout(program.signature)


def test_a_saturated_layer_hides_moved_inputs_but_not_rounding() -> None:
    graph, layout = yardstick(Behind(lambda y: 50 * y, first=1e4))
    rng = np.random.default_rng(0)
    states = States({"obs": rng.choice([-1e4, 1e4], (64, 4)).astype(np.float32)}, {})
    moved = {"obs": np.nextafter(states.inputs["obs"], 0)}
    still = graph.rounded(moved, {})["actions"]
    assert (still == graph.rounded(states.inputs, {})["actions"]).all()
    shaken = graph.shaken(states.inputs, {}, ulps=1, seed=0)["actions"]
    assert 5e-7 < np.abs(shaken - still).mean() < 2e-4
    rounding = measure(graph, layout, states, rng).rounding["actions"]
    # 64 products of about a tenth, each rounded at 6e-8, times 50: some 1e-6.
    assert (rounding > 5e-7).all()
    assert (rounding < 2e-4).all()


@pytest.mark.parametrize(
    "function",
    [
        lambda y: torch.atanh(torch.tanh(y) * 0.999),
        lambda y: torch.log(torch.sigmoid(y - 60)),
        lambda y: torch.acos(torch.tanh(30 * y)),
        lambda y: torch.log1p(nn.functional.elu(y - 5)),
        lambda y: torch.sqrt(torch.softmax(40 * y, dim=-1)),
    ],
    ids=["atanh", "log of sigmoid", "acos", "log1p of elu", "root of softmax"],
)
def test_nothing_that_is_moved_leaves_its_range(function: Callable[[Tensor], Tensor]) -> None:
    graph, _ = yardstick(Behind(function))
    inputs = {"obs": np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)}
    for seed in range(20):
        assert np.isfinite(graph.shaken(inputs, {}, ulps=20, seed=seed)["actions"]).all()


def test_what_is_counted_stays_whole() -> None:
    class Counts(nn.Module):
        def forward(self, obs: Tensor) -> Tensor:
            return ((obs > 0).float().sum(-1, keepdim=True) == 2).float()

    graph, _ = yardstick(Counts())
    inputs = {"obs": np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)}
    plain = graph.rounded(inputs, {})["actions"]
    assert 0 < plain.mean() < 1
    assert (graph.shaken(inputs, {}, ulps=20, seed=1)["actions"] == plain).all()


class Voting(nn.Module):
    """Members stacked and called by `vmap`, as TD-MPC2 calls its Q functions."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.members = nn.Parameter(torch.randn(3, 4, 2))

    def forward(self, obs: Tensor) -> Tensor:
        votes: Tensor = torch.vmap(lambda w: torch.tanh(obs @ w))(self.members)
        return votes.mean(0)


def test_rounding_is_measured_inside_of_a_vmap() -> None:
    graph, _ = yardstick(Voting())
    inputs = {"obs": np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)}
    apart = (
        graph.shaken(inputs, {}, ulps=20, seed=1)["actions"] - graph.rounded(inputs, {})["actions"]
    )
    assert 1e-8 < np.abs(apart).max() < 1e-4


def test_a_vmap_in_which_an_operator_raises_is_closed() -> None:
    def failing() -> None:
        with closing_transforms():
            torch._C._functorch._vmap_increment_nesting(3, "error")
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        failing()
    assert torch.rand(2).shape == (2,)  # refused inside of a vmap


class Around(nn.Module):
    """A layer, and something beside it that may or may not turn."""

    scale: Tensor

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.net, self.function = nn.Linear(4, 4), function
        self.register_buffer("scale", torch.arange(1.0, 5.0))

    def forward(self, obs: Tensor) -> Tensor:
        return self.function(self.net(obs), self.scale)


def _overwritten(y: Tensor, s: Tensor) -> Tensor:
    kept = torch.zeros_like(y)
    kept.copy_(y.round())
    return kept


@pytest.mark.parametrize(
    ("function", "smooth"),
    [
        (lambda y, s: (y / s.sqrt()).clamp(-1, 1), True),
        (lambda y, s: y / s.round(), True),
        (lambda y, s: y / y.exp(), False),
        (lambda y, s: s / y, False),
        (lambda y, s: y.round(), False),
        (_overwritten, False),
    ],
)
def test_what_no_input_enters_turns_nothing(
    function: Callable[[Tensor, Tensor], Tensor], smooth: bool
) -> None:
    graph, _ = yardstick(Around(function))
    assert graph.smooth is smooth


class Counting(nn.Module):
    """Writes into a view of a buffer, between products: the buffer must stay what it was."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 3)
        self.register_buffer("table", torch.arange(12.0).reshape(2, 6))

    def forward(self, obs: Tensor) -> Tensor:
        hidden = nn.functional.elu(self.first(obs))
        row = self.table.view(-1)[:6]
        row.add_(hidden.sum())
        return torch.sigmoid(self.second(hidden + row).softmax(-1))


def test_code_gives_what_the_interpreters_give_bit_for_bit() -> None:
    module = Counting()
    arguments = (torch.randn(1, 4),)
    exported = torch.export.export(module, arguments, strict=False)
    port = Port(name="obs", dtype="float32", shape=(1, 4))
    out = Port(name="out", dtype="float32", shape=(1, 3))
    graph = GraphYardstick(Signature(inputs=(port,), outputs=(out,)), exported)
    inputs = {"obs": np.random.default_rng(0).normal(size=(1, 4)).astype(np.float32)}

    def given() -> list[np.ndarray]:
        exact = graph.exact(inputs, {})
        assert exact is not None
        shaken = [graph.shaken(inputs, {}, ulps=4, seed=seed)["out"] for seed in (0, 1, 0)]
        return [*shaken, exact["out"], graph.rounded(inputs, {})["out"]]

    assert graph._code is not None
    assert graph._written == [4]  # the buffer, and none of the four weights
    by_code, graph._code = given(), None
    by_interpreter = given()
    for one, other in zip(by_code, by_interpreter, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()
    assert by_code[0].tobytes() == by_code[2].tobytes() != by_code[1].tobytes()
    assert by_code[3].dtype == np.float64
    assert torch.equal(module.table, torch.arange(12.0).reshape(2, 6))
