"""Engines on a GPU: the exported graph of a `.pt2`, moved there and recorded as a CUDA graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roadworthy.errors import BundleError, need
from roadworthy.runtime.device_buffers import DeviceBuffers
from roadworthy.runtime.device_frame import Graph
from roadworthy.runtime.device_recurrent import gru, lstm
from roadworthy.runtime.engine import Artifact
from roadworthy.runtime.torch_engines import flat, graph_names, programs_in
from roadworthy.spec.signature import Signature


class CudaEngine:
    """The exported graph on a device; a step is one launch over buffers that stay there.

    For `torch_export` and for `aoti`: a library that AOTInductor compiles for CUDA waits for its
    own events, which no CUDA graph can hold, and launched by itself it takes longer at batch 1.
    """

    def __init__(
        self, graphs: Sequence[Graph], signature: Signature, *, device: Any, where: str
    ) -> None:
        self._graphs, self._signature = tuple(graphs), signature
        self._device, self._where = device, where

    @classmethod
    def open(cls, artifact: Artifact, *, threads: int, device: str) -> CudaEngine:
        place = device_here(device)
        programs = programs_in(artifact)
        names = graph_names(artifact.signature)
        absent = [name for name in names if name not in programs]
        if absent:
            raise BundleError(
                "it holds a library for the processor alone, and no graph for a GPU",
                code="RW212",
                where=artifact.where,
                hint="export it again, with this version of Roadworthy or a later one",
            )
        graphs = [flat(moved(programs[name], place), place) for name in names]
        return cls(graphs, artifact.signature, device=place, where=artifact.where)

    def buffers(self, rows: int) -> DeviceBuffers:
        return DeviceBuffers(
            self._graphs, self._signature, device=self._device, where=self._where, rows=rows
        )


def device_here(device: str) -> Any:
    """The device that PyTorch has under this name, with its number; an error where it has none."""
    torch: Any = need("torch", extra="export")
    try:
        place = torch.device(device)
    except RuntimeError:
        place = None
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if place is None or place.type != "cuda" or (place.index or 0) >= count:
        has = f"{count} of them" if count else "none that it can use"
        raise BundleError(
            f"there is no device {device!r} here: torch {torch.__version__} sees {has}",
            code="RW214",
            hint="nvidia-smi shows the driver; pip install torch as pytorch.org says for your CUDA "
            "brings a build for it; device='cpu' runs the policy without",
        )
    index = torch.cuda.current_device() if place.index is None else place.index
    return torch.device("cuda", index)


def moved(program: Any, device: Any) -> Any:
    """Changes the program: what its graph makes on the processor, it makes on the device.

    Operators of which the device has a variant with other roundings or strides keep to those of
    the processor, where the graph was captured.
    """
    torch: Any = need("torch", extra="export")
    aggregate: Any = need("torch.fx.node", extra="export").map_aggregate
    aten = torch.ops.aten
    instead = {
        aten.view.default: aten.reshape.default,
        aten.lstm.input: lstm,
        aten.gru.input: gru,
    }

    def there(value: Any) -> Any:
        return device if isinstance(value, torch.device) else value

    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                node.args = aggregate(node.args, there)
                node.kwargs = aggregate(node.kwargs, there)
                if node.op == "call_function":
                    node.target = instead.get(node.target, node.target)
            module.recompile()
    return program
