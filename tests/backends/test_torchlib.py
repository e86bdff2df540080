"""torch's table of operators is read once, and nothing else is different for it."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest
import torch
from onnxscript import opset18
from onnxscript.function_libs.torch_lib import registration
from torch import Tensor, nn
from torch.onnx._internal import exporter
from torch.onnx._internal.exporter import _core

from roadworthy.targets.onnx import torchlib
from roadworthy.targets.onnx.torchlib import onnx_program
from tests.conftest import Exported

# torch.onnx warns of its own parts; the backend keeps it quiet.
pytestmark = pytest.mark.filterwarnings("ignore")
ROOT = Path(__file__).parent.parent.parent
TANH = torch.ops.aten.tanh.default


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(6, 8)

    def forward(self, obs: Tensor) -> Tensor:
        features, _ = self.rnn(obs[None])
        return torch.tanh(features[0])


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, obs: Tensor) -> Tensor:
        return self.layer(obs.repeat(1, 4).unflatten(1, (3, 8)))[:, -1]


MODULES = {
    "mlp": lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)),
    "cnn": lambda: nn.Sequential(nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 2), nn.Flatten()),
    "lstm": Recurrent,
    "transformer": Attending,
}


def graph(module: nn.Module) -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch", min=1)
    return torch.export.export(
        module.eval(), (torch.zeros(3, 6),), dynamic_shapes=({0: batch},), strict=False
    )


def bytes_of(program: torch.onnx.ONNXProgram | None) -> bytes:
    assert program is not None
    return ir.to_proto(program.model).SerializeToString(deterministic=True)


def wiring(program: torch.onnx.ONNXProgram | None) -> list[object]:
    """Every node with what goes in and out, and every weight; names count, what they are does not.

    A graph that is not traced anew keeps its own.
    """
    assert program is not None
    numbers: dict[ir.Value | None, int] = {None: -1}
    found: list[object] = []
    for node in program.model.graph:
        values = [*node.inputs, *node.outputs]
        weights = [v.const_value.numpy().tobytes() for v in node.inputs if v and v.const_value]
        places = [numbers.setdefault(value, len(numbers)) for value in values]
        settings = sorted(map(str, node.attributes.values()))
        found.append((node.op_type, places, weights, settings))
    return found


def publicly(
    graph: torch.export.ExportedProgram, opset: int, translations: dict[Any, Any]
) -> torch.onnx.ONNXProgram | None:
    return torch.onnx.export(
        graph, opset_version=opset, custom_translation_table=translations, verbose=False
    )


def doubled(x: Any) -> Any:
    return opset18.Add(x, x)


@pytest.fixture
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torchlib, "_kept", {})


def test_table_is_read_once_for_an_opset() -> None:
    mlp = graph(MODULES["mlp"]())
    onnx_program(mlp, 20, {})
    kept, _ = torchlib._kept[20]
    onnx_program(mlp, 20, {})
    assert torchlib._kept[20][0] is kept


@pytest.mark.parametrize(
    ("name", "opset"), [("mlp", 18), ("cnn", 20), ("lstm", 20), ("transformer", 23)]
)
def test_file_is_the_one_of_the_public_call(name: str, opset: int) -> None:
    given = graph(MODULES[name]())
    onnx_program(given, opset, {})
    assert wiring(onnx_program(given, opset, {})) == wiring(publicly(given, opset, {}))


def test_translations_stay_with_the_export_they_are_for() -> None:
    mlp = graph(MODULES["mlp"]())
    without = bytes_of(onnx_program(mlp, 20, {}))
    translated = bytes_of(onnx_program(mlp, 20, {TANH: doubled}))
    assert translated == bytes_of(publicly(mlp, 20, {TANH: doubled}))
    assert translated != without
    assert bytes_of(onnx_program(mlp, 20, {})) == without


def hide_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(exporter, "_core")
    monkeypatch.setitem(sys.modules, _core.__name__, None)


def hide_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = inspect.signature(_core.export)
    others = [each for each in whole.parameters.values() if each.name != "registry"]
    fewer = whole.replace(parameters=others)
    monkeypatch.setattr(_core.export, "__signature__", fewer, raising=False)


def hide_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._C, "_dispatch_get_all_op_names")


@pytest.mark.usefixtures("nothing_kept")
@pytest.mark.parametrize("hide", [hide_module, hide_parameter, hide_count])
def test_public_call_is_made_where_torch_has_changed_inside(
    hide: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mlp = graph(MODULES["mlp"]())
    # It has loaded what it needs by then: only our way in is hidden.
    expected = bytes_of(publicly(mlp, 20, {TANH: doubled}))
    with monkeypatch.context() as hidden:
        hide(hidden)
        written = bytes_of(onnx_program(mlp, 20, {TANH: doubled}))
    assert written == expected
    assert torchlib._kept == {}


@pytest.fixture
def late_library() -> Iterator[Callable[[], None]]:
    """Brings an operator and torchlib's function for it, as importing torchvision does."""
    name = "late::doubled"
    library = torch.library.Library("late", "DEF")

    def bring() -> None:
        library.define("doubled(Tensor x) -> Tensor")
        library.impl("doubled", lambda x: x + x, "CompositeExplicitAutograd")
        library.impl("doubled", torch.empty_like, "Meta")
        registration.torch_op(name, trace_only=True)(doubled)

    yield bring
    registration.default_registry._registry.pop(name, None)
    library._destroy()


class Late(nn.Module):
    def forward(self, obs: Tensor) -> Tensor:
        return torch.ops.late.doubled(obs)


def test_operators_that_come_later_are_known(late_library: Callable[[], None]) -> None:
    onnx_program(graph(MODULES["mlp"]()), 20, {})
    late_library()
    program = onnx_program(graph(Late()), 20, {})
    assert [node.op_type for node in program.model.graph] == ["Add"]


@pytest.mark.usefixtures("nothing_kept")
def test_threads_share_a_table_and_write_to_copies() -> None:
    with ThreadPoolExecutor(4) as threads:
        tables = list(threads.map(torchlib._table, [20] * 4))
    kept, _ = torchlib._kept[20]
    assert len({id(each.functions) for each in (kept, *tables)}) == 5
    assert all(each.functions == kept.functions for each in tables)
    tables[0].register_op(TANH, doubled)
    assert tables[1].functions == kept.functions != tables[0].functions


BEFORE_AND_AFTER = """
import sys, torch, roadworthy as rw
from torch import nn
from torch.onnx._internal._lazy_import import _LazyModule
from tests.policies import CASES

PACKAGES = ("torch.onnx", "onnxscript")

def own():
    program = torch.onnx.export(module, (torch.zeros(2, 6),), opset_version=20, verbose=False)
    return program.model_proto.SerializeToString(deterministic=True)

def inside(value):
    own = isinstance(value, type) and value.__module__.startswith(PACKAGES)
    return dict(vars(value)) if own or isinstance(value, _LazyModule) else {}

def values():
    return {
        (module, name): (value, inside(value))
        for module in list(sys.modules) if module.startswith(PACKAGES)
        for name, value in vars(sys.modules[module]).items()
    }

torch.manual_seed(0)
module = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
written, before = own(), values()
rw.export(CASES["lstm"].make(), "first")
rw.export(CASES["lstm"].make(), "second")
after = values()
for place, (value, parts) in before.items():
    assert after[place][0] is value and after[place][1] == parts, place
assert own() == written
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_users_own_export_is_untouched_and_a_fresh_process_writes_the_same(
    export_once: Callable[..., Exported], tmp_path: Path
) -> None:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": path}
    subprocess.run(
        [sys.executable, "-c", BEFORE_AND_AFTER], cwd=tmp_path, check=True, env=environment
    )
    here = contents(export_once("lstm").folder)
    assert contents(tmp_path / "first") == here
    assert contents(tmp_path / "second") == here
