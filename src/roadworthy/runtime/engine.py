"""Engines: what runs a graph over buffers that never move."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from roadworthy.errors import BundleError, did_you_mean
from roadworthy.runtime.between import Between, between
from roadworthy.runtime.canary import refuse_unsafe
from roadworthy.runtime.telemetry import silent_onnxruntime
from roadworthy.spec.port import Array, Memory, Port
from roadworthy.spec.signature import Signature


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Artifact:
    """A policy as one target: its files, the one that is opened first, and their signature.

    `where` names it in messages. Files are bytes, not paths: they are those that were compared
    with their sums; what is code among them is `TrustedCode`, and is opened as nothing else.
    `canary` says whether a file that is data is tried in a child process before it is opened here,
    where nobody has tried it before. `providers` are those of onnxruntime that the caller named.
    """

    files: Mapping[str, bytes] = field(repr=False)
    signature: Signature
    where: str
    canary: bool = True
    providers: tuple[str, ...] = ()

    @property
    def main(self) -> bytes:
        """The file that is opened first."""
        return next(iter(self.files.values()))


class Engine(Protocol):
    """One method: tie a graph to its buffers; calling what comes back runs one step."""

    def bind(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
    ) -> Callable[[], None]: ...


class Steps(Protocol):
    """The buffers for one set of sizes, and the step over them."""

    @property
    def step(self) -> Callable[[Any], dict[str, Any] | None]:
        """What `run` gives, from a dict of exactly what these buffers hold; None for all else."""
        ...

    def fill(self, values: Mapping[str, Any]) -> None:
        """Puts values into the buffers that were checked and cast."""
        ...

    def inputs(self) -> dict[str, Any]:
        """What a step reads, by name; not copies."""
        ...

    def first_nan(self) -> str:
        """Where the first NaN among the inputs is; nothing where there is none."""
        ...

    def run(self) -> dict[str, Any]:
        """The outputs of one step, the caller's own; memory moves on."""
        ...


class Buffers(Protocol):
    """Memory for a number of rows, in the place where an engine computes."""

    rows: int
    ticks: Array

    def reset(self, mask: Any = None) -> None: ...

    def forget(self, memories: Iterable[Memory]) -> None: ...

    def write(self, values: Mapping[str, Array], mask: Array | None = None) -> None: ...

    def copies(self) -> dict[str, Array]:
        """What is remembered now, by name."""
        ...

    def first_nan(self) -> str:
        """Where the first NaN in memory is; nothing where there is none."""
        ...

    def frame(self, dims: Mapping[str, int], *, unbatched: bool, staged: bool) -> Steps:
        """Buffers for sizes; `staged` values come from elsewhere, and the outputs go back there."""
        ...

    def staged(self, values: Iterable[Any]) -> bool:
        """Whether none of the values is in the place where the engine computes."""
        ...

    def value(self, port: Port, value: Any, noted: set[str]) -> Any:
        """The value with the port's dtype, or an error; `noted` are ports warned about."""
        ...

    def flags(self, mask: Any) -> Any:
        """One flag for each row, as an array."""
        ...


@runtime_checkable
class BufferedEngine(Protocol):
    """An engine with buffers of its own: on a device, or stepped by code of its own."""

    def buffers(self, rows: int) -> Buffers: ...


AnyEngine = Engine | BufferedEngine


@runtime_checkable
class CompiledEngine(Protocol):
    """An engine whose artifact promises the same bits from every compiler."""

    def compiled_otherwise(self) -> AnyEngine:
        """The same artifact in another build."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Ticks:
    """What runs the ticks between decisions by itself, and what they compute."""

    engine: Engine
    between: Between


@runtime_checkable
class TickingEngine(Protocol):
    """An engine that may have something quicker for the ticks between decisions."""

    ticks: Ticks | None


class EngineType(Protocol):
    """A class of engines, as the table of targets names it: for one target, on some devices."""

    def open(self, artifact: Artifact, *, threads: int, device: str) -> AnyEngine:
        """The engine over the files of a target, on a device that the table names for it."""
        ...


class OnnxEngine:
    """onnxruntime on one thread, without spinning: a control loop is not alone on its machine."""

    ticks: Ticks | None = None

    def __init__(
        self,
        model: bytes,
        *,
        threads: int = 1,
        device: str = "cpu",
        providers: Sequence[str] = (),
    ) -> None:
        onnxruntime = silent_onnxruntime()
        asked = _asked_for(providers, device, onnxruntime.get_available_providers())
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
            self.session: Any = onnxruntime.InferenceSession(model, options, providers=asked)
        except Exception as error:  # onnxruntime's exceptions share no narrower base
            raise BundleError(
                f"onnxruntime {onnxruntime.__version__} cannot load the model: {error}",
                hint="pip install --upgrade onnxruntime, or export with an older opset",
            ) from error

    @classmethod
    def open(cls, artifact: Artifact, *, threads: int, device: str) -> OnnxEngine:
        refuse_unsafe(artifact.main, where=artifact.where, canary=artifact.canary)
        engine = cls(artifact.main, threads=threads, device=device, providers=artifact.providers)
        if artifact.signature.clock and device == "cpu" and not artifact.providers:
            found = between(artifact.main, artifact.signature)
            if found is not None:
                engine.ticks = Ticks(cls(found.model, threads=threads), found)
        return engine

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


def _asked_for(providers: Sequence[str], device: str, present: Sequence[str]) -> list[Any]:
    """The providers that were named, or those of the device; refused where this build lacks one."""
    kind, _, number = device.partition(":")
    names = providers or _PROVIDERS[kind]
    for name in names:
        if name not in present:
            package = _PACKAGES.get(name)
            raise BundleError(
                f"this onnxruntime has no {name}, only {', '.join(present)}",
                code="RW214",
                hint=f"pip uninstall onnxruntime && pip install {package}; "
                "torch_export is the target for a GPU where PyTorch is there"
                if package
                else did_you_mean(name, present),
            )
    options: dict[str, dict[str, Any]] = {name: dict(_OPTIONS.get(name, {})) for name in names}
    if number:
        for name in options.keys() & _OPTIONS.keys():
            options[name]["device_id"] = number
    return [(name, told) if told else name for name, told in options.items()]


# Device → what onnxruntime calls it; what a provider cannot run, the next one does.
_CPU, _CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
_PROVIDERS = {
    "cpu": (_CPU,),
    "cuda": (_CUDA, _CPU),
    "tensorrt": ("TensorrtExecutionProvider", _CUDA, _CPU),
}
_PACKAGES = {_CUDA: "onnxruntime-gpu", "TensorrtExecutionProvider": "onnxruntime-gpu tensorrt"}
# float32 is float32: TF32 has ten bits of it.
_OPTIONS: dict[str, dict[str, Any]] = {_CUDA: {"use_tf32": "0"}, "TensorrtExecutionProvider": {}}
