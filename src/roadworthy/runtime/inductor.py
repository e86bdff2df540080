"""Inductor's cache in a folder that goes away."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_VARIABLES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "PATH")


@contextmanager
def passing_cache() -> Iterator[Path]:
    """A temporary folder that holds the cache; the environment is as before when it is gone.

    Inductor makes its folder, and sets a variable to it, as soon as anything imports it.
    """
    before = {name: os.environ.get(name) for name in _VARIABLES}
    with tempfile.TemporaryDirectory(prefix="roadworthy-") as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(folder) / "cache")
        try:
            yield Path(folder)
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
