"""The machine a result was measured on, and where results are written."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import roadworthy

RESULTS = Path(__file__).parent / "results"


def described() -> dict[str, Any]:
    """Processor, cores and versions: what a figure means nothing without."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        models = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = models[0].partition(":")[2].strip() if models else cpu
    packages = ("numpy", "onnxruntime", "torch")
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "roadworthy": roadworthy.__version__,
        **{name: version(name) for name in packages},
    }


def write(path: Path, results: dict[str, Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"machine": described(), **results}, indent=2) + "\n")
    return path
