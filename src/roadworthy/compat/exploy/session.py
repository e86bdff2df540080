"""A plain onnxruntime session on an exported file, in the form that Exploy's users know."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from roadworthy.errors import BundleError, PortMismatch, UsageError, did_you_mean
from roadworthy.runtime.telemetry import silent_onnxruntime
from roadworthy.spec.port import Array


class SessionWrapper:
    """Runs the file with every input given by hand; `actor` is kept for evaluation."""

    def __init__(
        self,
        onnx_folder: str | os.PathLike[str],
        onnx_file_name: str,
        actor: torch.nn.Module | None = None,
        optimize: bool = True,
    ) -> None:
        self.onnx_file_path = Path(onnx_folder) / onnx_file_name
        if not self.onnx_file_path.is_file():
            raise BundleError(
                f"{self.onnx_file_path} does not exist", hint="export the environment there first"
            )
        onnxruntime = silent_onnxruntime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        if optimize:
            debug = Path(onnx_folder) / "debug"
            debug.mkdir(exist_ok=True)
            level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
            options.graph_optimization_level = level
            name = f"{Path(onnx_file_name).stem}_optimized.onnx"
            options.optimized_model_filepath = str(debug / name)
        self.session: Any = onnxruntime.InferenceSession(
            str(self.onnx_file_path), options, providers=["CPUExecutionProvider"]
        )
        # onnxruntime lists apart what has a default: memory that does not begin with zeros.
        ports = (*self.session.get_inputs(), *self.session.get_overridable_initializers())
        self.input_names: list[str] = [port.name for port in ports]
        self.output_names: list[str] = [port.name for port in self.session.get_outputs()]
        self.metadata = self.session.get_modelmeta()
        self._actor = actor
        self._results: list[Array] | None = None

    def __call__(self, **inputs: Any) -> list[Array]:
        """All outputs, in the order of `output_names`."""
        missing = [name for name in self.input_names if name not in inputs]
        if missing:
            raise PortMismatch(
                f"missing input {missing[0]!r}", hint=did_you_mean(missing[0], inputs)
            )
        feeds = {name: inputs[name] for name in self.input_names}
        results: list[Array] = self.session.run(self.output_names, feeds)
        self._results = results
        return results

    def get_actor(self) -> torch.nn.Module | None:
        return self._actor

    def get_output_value(self, output_name: str) -> Array:
        """One output of the last call."""
        if output_name not in self.output_names:
            raise UsageError(
                f"no output {output_name!r}", hint=did_you_mean(output_name, self.output_names)
            )
        if self._results is None:
            raise UsageError("the session has not run yet", hint="call it once: session(**inputs)")
        return self._results[self.output_names.index(output_name)]

    def reset(self) -> None:
        self._results = None
