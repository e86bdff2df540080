"""What a file holds, without running anything in it."""

from __future__ import annotations

import io
import json
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from roadworthy.errors import Finding, UsageError, need
from roadworthy.frameworks.files.archive import members
from roadworthy.frameworks.files.beginning import PICKLE, ZIP, is_safetensors
from roadworthy.frameworks.files.neighbours import Neighbours
from roadworthy.frameworks.reading import DAMAGED, NEEDS_TRUST, UNEXPLAINED
from roadworthy.spec.limits import FILE_BYTES, size_text

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["zip", "torch", "safetensors"]
_WHOLE = (
    "a whole module is exported in Python: rw.export(torch.load('{where}', weights_only=False), "
    "folder, example={{'obs': torch.zeros(1, 48)}})"
)
# The class that Tianshou's environments keep their statistics in, wherever a version has it.
_KNOWN = ("tianshou.utils.statistics.RunningMeanStd",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """A file, opened.

    kind        "zip" for an archive of files (Stable-Baselines3), "torch", or "safetensors"
    tree        what `torch.load` gives: dictionaries, lists, numbers, tensors on the CPU
    members     name → content of the files in a zip
    trusted     whether the user said that pickles in it may be run
    """

    path: Path
    kind: Kind
    tree: Any = None
    members: Mapping[str, bytes] = field(default_factory=dict)
    neighbours: Neighbours
    trusted: bool = False

    @property
    def where(self) -> str:
        """What messages call it."""
        return self.path.name

    def tensors(self, *keys: str) -> dict[str, Tensor]:
        """The state_dict at a place in the tree: `tensors("model")`; empty where there is none."""
        found = self.tree
        for key in keys:
            found = found.get(key) if isinstance(found, Mapping) else None
        return state_dict(found)


def open_checkpoint(path: Path, *, trust: bool = False) -> Contents:
    """The contents of a file, or an error that says what is wrong with it."""
    where = path.name
    if path.stat().st_size > FILE_BYTES:
        raise UsageError(f"{size_text(path.stat().st_size)} are more than is read", where=where,
                         code=DAMAGED)  # fmt: skip
    data = path.read_bytes()
    neighbours = Neighbours(path)
    if is_safetensors(data[:16], len(data)):
        tree: Any = _safetensors(data, where)
        return Contents(path=path, kind="safetensors", tree=tree, neighbours=neighbours)
    if not data.startswith(ZIP):
        if not data.startswith(PICKLE):
            raise UsageError(
                "this is no checkpoint: neither a zip, nor a file of torch.save, nor safetensors",
                where=where, code=UNEXPLAINED,
                hint="pass the file that the training wrote: model.zip, model_100.pt, agent.pth",
            )  # fmt: skip
        if b"VecNormalize" in data[:1024]:
            raise UsageError(
                "these are the statistics of a VecNormalize, not a policy", where=where,
                code=UNEXPLAINED,
                hint=f"roadworthy export model.zip -o folder --vecnormalize {where}",
            )  # fmt: skip
        tree = load_tensors(data, where=where, trust=trust)
        return Contents(path=path, kind="torch", tree=tree, neighbours=neighbours, trusted=trust)
    found = members(data, where=where)
    if any(name.endswith("/data.pkl") or name == "data.pkl" for name in found):
        _refuse_code(found, where)
        tree = load_tensors(data, where=where, trust=trust)
        return Contents(path=path, kind="torch", tree=tree, neighbours=neighbours, trusted=trust)
    return Contents(path=path, kind="zip", members=found, neighbours=neighbours, trusted=trust)


def load_tensors(data: bytes, *, where: str, trust: bool = False) -> Any:
    """What `torch.load` gives, tensors on the CPU; only tensors and plain data unless trusted."""
    torch: Any = need("torch", extra="export")
    if data.startswith(ZIP):
        members(data, where=where)  # torch.load compares no sums
    try:
        with torch.serialization.safe_globals(safe_globals()):
            return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        if trust:
            return _unpickled(torch, data, where)
        raise UsageError(
            f"it holds more than tensors and numbers: {_wanted(error)}",
            where=where,
            code=NEEDS_TRUST,
            hint="if you know who made it, --trust unpickles it, which runs what it says; "
            + _WHOLE.format(where=where),
        ) from error
    except (RuntimeError, EOFError, ValueError, OSError, KeyError, IndexError) as error:
        raise UsageError(
            f"torch.load cannot read it: {_first_line(error)}", where=where, code=DAMAGED,
            hint="copy the file again from its source",
        ) from error  # fmt: skip


def _unpickled(torch: Any, data: bytes, where: str) -> Any:
    found = torch.load(io.BytesIO(data), map_location="cpu", weights_only=False)
    if isinstance(found, torch.nn.Module):
        raise UsageError(
            f"it holds a whole module ({type(found).__name__}), which does not say what it takes",
            where=where, code=UNEXPLAINED, hint=_WHOLE.format(where=where),
        )  # fmt: skip
    return found


def state_dict(found: object) -> dict[str, Tensor]:
    """The tensors of a flat mapping from names to tensors; empty for anything else.

    Prefixes that only wrappers of the training left ("module.", "_orig_mod.") are taken off.
    """
    import torch

    if not isinstance(found, Mapping):
        return {}
    tensors = {str(name): value for name, value in found.items() if isinstance(value, torch.Tensor)}
    for prefix in ("_orig_mod.", "module."):
        if tensors and all(name.startswith(prefix) for name in tensors):
            tensors = {name.removeprefix(prefix): value for name, value in tensors.items()}
    return tensors


def refuse_bad_weights(weights: Mapping[str, Tensor], where: str) -> None:
    """An error for weights that are NaN or infinite, or no floating-point numbers."""
    findings = list(_bad_weights(weights, where))
    if findings:
        raise UsageError(findings=findings)


def _bad_weights(weights: Mapping[str, Tensor], where: str) -> Iterator[Finding]:
    import torch

    counters = ("num_batches_tracked", "count", "steps")
    for name, value in weights.items():
        if not value.is_floating_point():
            if not name.rpartition(".")[2].startswith(counters):
                yield Finding(
                    code=DAMAGED, where=f"{where}: {name}",
                    what=f"expected floating-point weights, got {str(value.dtype)[6:]}",
                    hint="quantised weights are not read; save the model in float32",
                )  # fmt: skip
        elif not bool(torch.isfinite(value).all()):
            broken = int((~torch.isfinite(value)).sum())
            yield Finding(
                code="RW115", where=f"{where}: {name}",
                what=f"{broken} of {value.numel()} weights are NaN or infinite",
                hint="export an earlier checkpoint: a training that diverged leaves NaN",
            )  # fmt: skip


def _refuse_code(found: Mapping[str, bytes], where: str) -> None:
    """TorchScript and torch.export archives look like checkpoints, and are programs."""
    folders = {name.split("/")[1] for name in found if name.count("/") > 1}
    if "code" in folders or any(name.endswith("constants.pkl") for name in found):
        raise UsageError(
            "this is a TorchScript program, not a checkpoint", where=where, code=UNEXPLAINED,
            hint="pass the checkpoint that the training wrote, or the Python module itself",
        )  # fmt: skip


def _safetensors(data: bytes, where: str) -> dict[str, Tensor]:
    library: Any = need("safetensors.torch", extra="export")
    try:
        found = library.load(data)
    except Exception as error:  # its own exception has no public name
        raise UsageError(
            f"not a readable safetensors file ({_first_line(error)})", where=where, code=DAMAGED,
            hint="copy the file again from its source",
        ) from error  # fmt: skip
    # The library hands tensors over in any order; layers follow each other by their numbers.
    return {name: found[name] for name in sorted(found, key=_counted)}


def _counted(name: str) -> list[tuple[int, str]]:
    """A key that puts layer 10 behind layer 9."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in name.split(".")]


def read_json(data: bytes, where: str) -> Mapping[str, Any]:
    """The JSON object in a member of an archive."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"this is no JSON ({_first_line(error)})", where=where, code=DAMAGED,
                         hint="copy the file again from its source") from error  # fmt: skip
    return found if isinstance(found, Mapping) else {}


def _wanted(error: BaseException) -> str:
    """The class that a pickle asks for, out of PyTorch's long advice."""
    found = re.search(r"GLOBAL ([\w.]+)", str(error))
    return f"it wants to build {found[1]}" if found else _first_line(error)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class Statistics:
    """The fields of a known class, as the file has them; of the class itself nothing is run."""


def safe_globals() -> list[tuple[Any, str]]:
    """What torch.load may build besides tensors, by the names that pickles know it by."""
    arrays: Any = np.empty(0).__reduce__()[0]
    scalars: Any = np.float64(0).__reduce__()[0]
    return [
        *((Statistics, name) for name in _KNOWN),
        *_of_numpy(arrays, "multiarray._reconstruct"),
        *_of_numpy(scalars, "multiarray.scalar"),
        (np.ndarray, "numpy.ndarray"),
        (np.dtype, "numpy.dtype"),
        *((type(np.dtype(name)), f"numpy.dtypes.{type(np.dtype(name)).__name__}")
          for name in ("float32", "float64", "int32", "int64")),
    ]  # fmt: skip


def _of_numpy(function: Callable[..., Any], name: str) -> list[tuple[Any, str]]:
    # NumPy 2 has moved them, and files of both are about.
    return [(function, f"numpy.core.{name}"), (function, f"numpy._core.{name}")]
