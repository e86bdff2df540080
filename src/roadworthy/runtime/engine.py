"""Engines: what runs a graph over buffers that never move."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from roadworthy.errors import BundleError
from roadworthy.runtime.canary import refuse_unsafe
from roadworthy.runtime.telemetry import silent_onnxruntime
from roadworthy.spec.port import Array
from roadworthy.spec.signature import Signature


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Artifact:
    """A policy as one target: its files, the one that is opened first, and their signature.

    `where` names it in messages. Files are bytes, not paths: they are those that were compared
    with their sums. `canary` says whether a file that is data is tried in a child process before
    it is opened here, where nobody has tried it before.
    """

    files: Mapping[str, bytes] = field(repr=False)
    signature: Signature
    where: str
    canary: bool = True

    @property
    def main(self) -> bytes:
        """The file that is opened first."""
        return next(iter(self.files.values()))


class Engine(Protocol):
    """One method: tie a graph to its buffers; calling what comes back runs one step."""

    def bind(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
    ) -> Callable[[], None]: ...


class EngineType(Protocol):
    """A class of engines, as the table of targets names it: for one target, on some devices."""

    def open(self, artifact: Artifact, *, threads: int, device: str) -> Engine:
        """The engine over the files of a target, on a device that the table names for it."""
        ...


class OnnxEngine:
    """onnxruntime on one thread, without spinning: a control loop is not alone on its machine."""

    def __init__(self, model: bytes, *, threads: int = 1, device: str = "cpu") -> None:
        onnxruntime = silent_onnxruntime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # The arena keeps the memory of the largest batch ever seen and saves no time without it.
        options.enable_cpu_mem_arena = False
        # Fatal only: what onnxruntime would print is in the error that is raised.
        options.log_severity_level = 4
        try:
            self.session: Any = onnxruntime.InferenceSession(
                model, options, providers=[_PROVIDERS[device]]
            )
        except Exception as error:  # onnxruntime's exceptions share no narrower base
            raise BundleError(
                f"onnxruntime {onnxruntime.__version__} cannot load the model: {error}",
                hint="pip install --upgrade onnxruntime, or export with an older opset",
            ) from error

    @classmethod
    def open(cls, artifact: Artifact, *, threads: int, device: str) -> OnnxEngine:
        refuse_unsafe(artifact.main, where=artifact.where, canary=artifact.canary)
        return cls(artifact.main, threads=threads, device=device)

    def bind(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Callable[[], None]:
        binding = self.session.io_binding()
        for tie, buffers in ((binding.bind_input, inputs), (binding.bind_output, outputs)):
            for name, buffer in buffers.items():
                _tie(tie, name, buffer)
        run = self.session.run_with_iobinding
        # The closure keeps the buffers alive: onnxruntime holds only their addresses.
        keep = (inputs, outputs)

        def step(run: Any = run, binding: Any = binding, keep: Any = keep) -> None:
            try:
                run(binding)
            except Exception as error:  # onnxruntime's exceptions share no narrower base
                raise BundleError(
                    f"onnxruntime cannot run the model: {error}",
                    hint="roadworthy verify FOLDER tests the bundle on this machine",
                ) from error

        return step


def _tie(tie: Callable[..., None], name: str, buffer: Array) -> None:
    try:
        tie(name, "cpu", 0, buffer.dtype, buffer.shape, buffer.ctypes.data)
    except Exception as error:  # onnxruntime's exceptions share no narrower base
        raise BundleError(
            f"the model has no such port of {buffer.dtype} {buffer.shape}: {error}",
            where=name,
            hint="the file does not match its signature: export it again",
        ) from error


# Device → what onnxruntime calls it.
_PROVIDERS = {"cpu": "CPUExecutionProvider"}
