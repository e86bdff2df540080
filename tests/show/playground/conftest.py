"""The browser, and a site for each policy that is written once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import roadworthy as rw
from tests.browser import browser
from tests.conftest import Exported, ExportedEnvironment
from tests.policies import CASES

__all__ = ["browser"]
LENT = "pip install 'roadworthy[wasm]', which `make test-rest` and `make test-all` do"


@pytest.fixture(scope="session")
def site_of(
    export_once: Callable[[str], Exported],
    export_environment_once: Callable[[str], ExportedEnvironment],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str, str], tuple[Path, Path]]:
    """The bundle and, for an engine, the index.html of a policy of the registries or a walker."""
    root = tmp_path_factory.mktemp("sites")

    @functools.cache
    def bundle(name: str) -> Path:
        if name == "walker":
            return _walker(root / "bundle")
        if name in CASES:
            return export_once(name).folder
        return export_environment_once(name).bundle.folder

    @functools.cache
    def made(name: str, engine: str) -> tuple[Path, Path]:
        if engine == "wasm":
            pytest.importorskip("ziglang", reason=LENT)
        folder = bundle(name)
        return folder, rw.web(folder, root / f"{name}-{engine}", engine=engine) / "index.html"

    return made


def _walker(folder: Path) -> Path:
    torch.manual_seed(0)
    layers = torch.nn.Linear(48, 128), torch.nn.ELU(), torch.nn.Linear(128, 12)
    normalizer = rw.EpsOutsideRoot(mean=[0.1] * 48, std=[0.9] * 48, eps=1e-2)
    rw.export(
        torch.nn.Sequential(*layers), folder, example={"obs": torch.zeros(1, 48)},
        normalizer=normalizer, action=[rw.ScaleOffset(scale=0.25), rw.Clip(low=-1.0, high=1.0)],
    )  # fmt: skip
    return folder
