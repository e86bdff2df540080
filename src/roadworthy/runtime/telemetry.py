"""The one door to onnxruntime: since 1.29 it reports to its maker, and a robot must not."""

from __future__ import annotations

import os
from typing import Any

# onnxruntime reads it once, while it is imported, before it opens its files and its connection.
VARIABLE = "ORT_DISABLE_TELEMETRY"


def silent_onnxruntime() -> Any:
    """The module `onnxruntime`, which writes no file and opens no connection of its own.

    Who wants the telemetry sets the variable to 0. Where onnxruntime was imported before, the call
    switches off what can still be switched off.
    """
    wanted = os.environ.setdefault(VARIABLE, "1") == "0"
    import onnxruntime

    if not wanted:
        onnxruntime.disable_telemetry_events()
    return onnxruntime
