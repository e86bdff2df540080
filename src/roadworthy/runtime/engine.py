"""Engines: what runs a graph over buffers that never move."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from roadworthy.errors import BundleError, UsageError
from roadworthy.spec.port import Array


class Engine(Protocol):
    """One method: tie a graph to its buffers; calling what comes back runs one step."""

    def bind(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
    ) -> Callable[[], None]: ...


class OnnxEngine:
    """onnxruntime on one thread, without spinning: a control loop is not alone on its machine."""

    def __init__(self, model: bytes, *, threads: int = 1) -> None:
        import onnxruntime

        if threads < 1:
            raise UsageError(f"threads must be at least 1, got {threads}")
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
                model, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime's exceptions share no narrower base
            raise BundleError(
                f"onnxruntime {onnxruntime.__version__} cannot load the model: {error}",
                hint="pip install --upgrade onnxruntime, or export with an older opset",
            ) from error

    @property
    def metadata(self) -> dict[str, str]:
        """The key-value pairs that the file carries."""
        return dict(self.session.get_modelmeta().custom_metadata_map)

    def bind(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Callable[[], None]:
        binding = self.session.io_binding()
        for tie, buffers in ((binding.bind_input, inputs), (binding.bind_output, outputs)):
            for name, buffer in buffers.items():
                tie(name, "cpu", 0, buffer.dtype, buffer.shape, buffer.ctypes.data)
        run = self.session.run_with_iobinding
        # The closure keeps the buffers alive: onnxruntime holds only their addresses.
        keep = (inputs, outputs)

        def step(run: Any = run, binding: Any = binding, keep: Any = keep) -> None:
            try:
                run(binding)
            except Exception as error:  # onnxruntime's exceptions share no narrower base
                raise BundleError(f"onnxruntime cannot run the model: {error}") from error

        return step
