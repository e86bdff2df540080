"""Each policy of the registry is exported once in a run, and every test shares it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import roadworthy as rw
from tests.policies import CASES, Case


@dataclass(frozen=True)
class Exported:
    """A case, the source it was exported from, and the bundle. Do not write to the folder."""

    case: Case
    source: rw.Source
    folder: Path
    bundle: rw.Bundle


@pytest.fixture(scope="session")
def export_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Exported]:
    """Exports a case of the registry by name and targets, at the first call only."""
    root = tmp_path_factory.mktemp("bundles")
    done: dict[tuple[str, ...], Exported] = {}

    def exported(name: str, *targets: str) -> Exported:
        key = (name, *(targets or ("onnx",)))
        if key not in done:
            source = CASES[name].make()
            folder = root / "-".join(key)
            bundle = rw.export(source, folder, targets=key[1:])
            done[key] = Exported(CASES[name], source, folder, bundle)
        return done[key]

    return exported


@pytest.fixture(params=CASES)
def exported(request: pytest.FixtureRequest, export_once: Callable[[str], Exported]) -> Exported:
    """Every policy of the registry, one after another."""
    return export_once(request.param)


# What is made once for many tests, and takes seconds: these tests stay in one worker.
SHARED = ("trained", "bundle")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of one policy go to one worker, so that it is exported there and nowhere else."""
    for item in items:
        given = item.callspec.params.values() if hasattr(item, "callspec") else ()
        named = [each for each in given if isinstance(each, str) and each in CASES]
        shared = item.path.name if set(SHARED) & set(item.fixturenames) else None
        if named or shared:
            item.add_marker(pytest.mark.xdist_group(named[0] if named else shared))
