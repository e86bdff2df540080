"""Every operator that a policy may use, as the ONNX backend writes it, beside PyTorch.

Each is exported by the project's own backend and run by onnxruntime over the corners: zeros of both
signs, denormals, 1e-30 … 1e30, infinities, NaN, multiples of π, ties, empty masks. A result may be
as far from the float64 value as a few times PyTorch's own; NaN, infinities and the sign of zero
must be the same. `python benchmarks/operator_sweep.py` writes results/operators.json and
docs/operators.md; tests/cfile/test_sweep.py asks the same of the policy as C.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import machine
import numpy as np
import onnxruntime
import torch
from operator_cases import ALONE, Function, Kind, kinds
from torch import Tensor, nn

from roadworthy.capture.program import Program
from roadworthy.errors import ExportError
from roadworthy.operators.row import KnownDifference as Known
from roadworthy.operators.table import OPERATORS
from roadworthy.spec.port import Port
from roadworthy.spec.signature import Signature
from roadworthy.targets.backend import Settings
from roadworthy.targets.onnx.backend import OnnxBackend
from roadworthy.targets.onnx.translations import own_translations

# As far from the float64 value as so many times PyTorch's own result, and so many ulps, is near.
TIMES, ULPS = 4.0, 8.0
TOGETHER = 20
DOCS = Path(__file__).parent.parent / "docs"
Arrays = list[np.ndarray[Any, Any]]
Feeds = dict[str, np.ndarray[Any, Any]]
Ran = Callable[[Feeds], Arrays]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """What differs between the two results of one operator, and at which inputs."""

    what: str
    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Result:
    """One operator: refused with a code, or what differs; nothing where all is the same."""

    kind: str
    operator: str
    refused: str = ""
    differences: tuple[Difference, ...] = ()


class Together(nn.Module):
    """Many operators on the same inputs, each an output of its own."""

    def __init__(self, functions: Sequence[Function]) -> None:
        super().__init__()
        self.functions = functions
        self.layers = nn.ModuleList(each.layer for each in functions if hasattr(each, "layer"))

    def forward(self, *inputs: Tensor) -> list[Tensor]:
        return [each(*inputs).clone() for each in self.functions]


def by_onnxruntime(path: Path) -> Ran:
    """What runs a file: arrays by their names in, the outputs in their order out."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda feeds: list(session.run(None, feeds))


def swept(
    kind: Kind, settings: Settings | None = None, opened: Callable[[Path], Ran] = by_onnxruntime
) -> Iterator[Result]:
    """The operators of a kind, one result each."""
    names = [name for name in kind.functions if name not in ALONE]
    batches = [names[start : start + TOGETHER] for start in range(0, len(names), TOGETHER)]
    for batch in [*batches, *([name] for name in kind.functions if name in ALONE)]:
        yield from _results(kind, batch, settings or Settings(), opened)


def _results(
    kind: Kind, names: list[str], settings: Settings, opened: Callable[[Path], Ran]
) -> Iterator[Result]:
    """Halves of what cannot be exported together, until the one that cannot is alone."""
    try:
        run = exported(kind, names, settings, opened)
    except Exception as error:  # torch.export raises what it likes
        if len(names) > 1:
            half = len(names) // 2
            yield from _results(kind, names[:half], settings, opened)
            yield from _results(kind, names[half:], settings, opened)
        else:
            yield Result(kind=kind.name, operator=names[0], refused=_refusal(error))
        return
    compared = zip(*_computed(kind, names, run), strict=True)
    for name, (rounded, exact, got, alone) in zip(names, compared, strict=True):
        found = dict.fromkeys(
            each for ran in (got, alone) for each in _differences(kind, rounded, exact, ran)
        )
        yield Result(kind=kind.name, operator=name, differences=tuple(found))


def exported(
    kind: Kind, names: Sequence[str], settings: Settings,
    opened: Callable[[Path], Ran] = by_onnxruntime,
) -> Ran:  # fmt: skip
    """The operators in one ONNX file, written by the backend and opened."""
    inputs = kind.inputs()
    batch = torch.export.Dim("batch", min=1)
    module = Together([kind.functions[name] for name in names]).eval()
    shapes = (({0: batch},) * len(inputs),)
    graph = torch.export.export(module, inputs, dynamic_shapes=shapes, strict=False)
    with torch.no_grad():
        outputs = module(*inputs)
    program = Program(
        signature=Signature(
            inputs=tuple(_port(f"in_{i}", value) for i, value in enumerate(inputs)),
            outputs=tuple(_port(f"out_{i}", value) for i, value in enumerate(outputs)),
        ),
        graph=graph, recipe={}, source_name="operators",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        (path,) = OnnxBackend(settings=settings).lower(program, Path(folder))
        return opened(path)


def _port(name: str, value: Tensor) -> Port:
    dtype = str(value.dtype).removeprefix("torch.")
    return Port(name=name, dtype=dtype, shape=("batch", *value.shape[1:]))


def _computed(kind: Kind, names: Sequence[str], run: Ran) -> tuple[Arrays, Arrays, Arrays, Arrays]:
    """PyTorch's results, those in float64, the file's, and the file's row by row."""
    inputs = kind.inputs()
    module = Together([kind.functions[name] for name in names]).eval()
    doubles = tuple(each.double() if each.is_floating_point() else each for each in inputs)
    with torch.no_grad():
        rounded = [each.numpy() for each in module(*inputs)]
        module.double()
        doubled = [_exactly(function, doubles) for function in module.functions]
        module.float()
    arrays = [each.numpy() for each in inputs]
    labels = [f"in_{i}" for i in range(len(arrays))]
    got = run(dict(zip(labels, arrays, strict=True)))
    rows = []
    for row in range(len(arrays[0])):
        single = [each[row : row + 1] for each in arrays]
        rows.append(run(dict(zip(labels, single, strict=True))))
    alone = [np.concatenate(each) for each in zip(*rows, strict=True)]
    exact = [r if e is None else e for e, r in zip(doubled, rounded, strict=True)]
    return rounded, exact, got, alone


def _exactly(function: Function, doubles: tuple[Tensor, ...]) -> np.ndarray[Any, Any] | None:
    """The result in float64; None where the function has float32 constants of its own."""
    try:
        return function(*doubles).numpy()
    except RuntimeError:
        return None


def _differences(kind: Kind, rounded: Any, exact: Any, got: Any) -> Iterator[Difference]:
    inputs = [each.numpy() for each in kind.inputs()]
    if got.shape != rounded.shape or got.dtype != rounded.dtype:
        yield Difference(
            what=f"{got.dtype} {got.shape} for {rounded.dtype} {rounded.shape}",
            count=1,
            examples=(),
        )
        return
    for what, where in _parted(rounded, exact, got, along=kind.along).items():
        places = np.argwhere(where)
        if len(places):
            examples = [_example(inputs, rounded, got, tuple(each)) for each in places]
            chosen = tuple(dict.fromkeys(examples))[:6]
            yield Difference(what=what, count=len(places), examples=chosen)


def _parted(rounded: Any, exact: Any, got: Any, *, along: bool) -> dict[str, Any]:
    """What differs → where."""
    if rounded.dtype.kind != "f":
        return {"another value": rounded != got}
    missing = np.isnan(rounded) & ~np.isnan(got)
    added = ~np.isnan(rounded) & np.isnan(got)
    both = ~np.isnan(rounded) & ~np.isnan(got)
    infinite = both & (rounded != got) & (np.isinf(rounded) | np.isinf(got))
    zero = both & (rounded == 0) & (got == 0) & (np.signbit(rounded) != np.signbit(got))
    with np.errstate(all="ignore"):
        far = both & np.isfinite(rounded) & np.isfinite(got) & ~_near(rounded, exact, got, along)
    return {
        "a number for NaN": missing,
        "NaN for a number": added,
        "infinite or not": infinite,
        "sign of zero": zero,
        "another value": far,
    }


def _near(rounded: Any, exact: Any, got: Any, along: bool) -> Any:
    exact = np.where(np.isfinite(exact), exact, rounded).astype(np.float64)
    own = np.abs(rounded.astype(np.float64) - exact)
    size = np.abs(exact)
    if along and exact.ndim > 1:
        finite = np.where(np.isfinite(rounded), size, 0)
        largest = finite.reshape(len(finite), -1).max(1)
        size = np.maximum(size, largest.reshape(-1, *[1] * (exact.ndim - 1)))
    unit = np.spacing(np.minimum(size, 3e38).astype(rounded.dtype)).astype(np.float64)
    return np.abs(got.astype(np.float64) - exact) <= TIMES * own + ULPS * unit


def _example(inputs: Arrays, rounded: Any, got: Any, place: tuple[int, ...]) -> str:
    row = ", ".join(_shown(each[place[0]]) for each in inputs)
    return f"({row}): {_shown(rounded[place])}, got {_shown(got[place])}"


def _shown(value: Any) -> str:
    if np.ndim(value):
        return "[" + " ".join(map(_shown, value)) + "]"
    return f"{value:.9g}" if np.asarray(value).dtype.kind == "f" else str(value)


def _refusal(error: Exception) -> str:
    if isinstance(error, ExportError):
        return str(error).splitlines()[0]
    return f"{type(error).__name__}: {error}".splitlines()[0][:160]


def table(results: Sequence[Result]) -> str:
    """docs/operators.md: what was mended, what is named in certificates, and all that was found."""
    refused = [each for each in results if each.refused]
    differing = [each for each in results if each.differences]
    lines = [
        "# Operators, compared with PyTorch at their corners",
        "",
        "Written by `benchmarks/operator_sweep.py`, which says what is compared and how: "
        f"{len(results)} operators, {len(results) - len(refused) - len(differing)} the same "
        f"everywhere, {len(differing)} that differ somewhere, {len(refused)} that ONNX does not "
        "have.",
        "",
        "## Written by this project, because the usual ONNX form differs",
        "",
        ", ".join(f"`{name}`" for name in sorted({_aten(each) for each in own_translations()})),
        "",
        "## Named in the certificate of every policy that uses them (RW340)",
        "",
        "| operators | range | what differs |",
        "| --- | --- | --- |",
        *(
            f"| {', '.join(f'`{name}`' for name in names)} | {known.where} | {known.what} |"
            for known, names in _differing().items()
        ),
        "",
        "## All that the sweep finds",
        "",
        "Signs of zero and numbers that overflow in PyTorch itself are listed here and not in "
        "certificates.",
        "",
        "| operator | inputs | what differs | places | for example: inputs: PyTorch, onnxruntime |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| `{each.operator}` | {each.kind} | {found.what} | {found.count} | "
            f"{found.examples[0] if found.examples else ''} |"
            for each in differing
            for found in {d.what: d for d in each.differences}.values()
        ),
        "",
        "## Refused",
        "",
        ", ".join(f"`{each.operator}`" for each in refused),
    ]
    return "\n".join(lines) + "\n"


def _differing() -> dict[Known, list[str]]:
    """Each kind of difference, and the operators that have it."""
    found: dict[Known, list[str]] = {}
    for row in OPERATORS:
        if row.differs is not None:
            found.setdefault(row.differs, []).append(row.name)
    return found


def _aten(operator: Any) -> str:
    return str(operator).removeprefix("aten.").partition(".")[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=machine.RESULTS / "operators.json")
    parser.add_argument("--docs", type=Path, default=DOCS / "operators.md")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results: list[Result] = []
    for kind in kinds():
        results += swept(kind)
        print(f"{kind.name}: {len(results)} operators so far", flush=True)
    machine.write(arguments.out, {"operators": [asdict(each) for each in results]})
    arguments.docs.write_text(table(results))


if __name__ == "__main__":
    main()
