"""Each policy and each environment of the registries is exported once, and every test shares it."""

from __future__ import annotations

import functools
import gc
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from xdist.remote import Producer

import roadworthy as rw
from tests import tiers
from tests.environment import eager
from tests.environment.environments import ENVIRONMENTS
from tests.facts import differing, facts, give_gradients
from tests.policies import CASES, Case
from tests.sharing import ByExport, policy


@dataclass(frozen=True)
class Exported:
    """A case, the source it was exported from, and the bundle. Do not write to the folder.

    `changed` names what the export left otherwise than it was: nothing, as a test claims.
    """

    case: Case
    source: rw.Source
    folder: Path
    bundle: rw.Bundle
    changed: list[str]


@dataclass(frozen=True)
class Verified:
    """The certificate of a case beside its own source, and what this `verify` changed there."""

    exported: Exported
    certificate: rw.Certificate
    changed: list[str]


@dataclass(frozen=True)
class ExportedEnvironment:
    """The bundle of an environment, and what its export changed. Do not write to the folder."""

    style: str
    bundle: rw.Bundle
    changed: list[str]


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the tests load is remembered in a folder of theirs, not in the user's.

    But for zig's own libc, which takes it a minute to compile and is the same for everyone.
    """
    usual = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    with pytest.MonkeyPatch.context() as patch:
        if "ZIG_GLOBAL_CACHE_DIR" not in os.environ:
            patch.setenv("ZIG_GLOBAL_CACHE_DIR", str(usual / "zig"))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def export_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Exported]:
    """Exports a case of the registry by name and targets, at the first call only."""
    root = tmp_path_factory.mktemp("bundles")

    @functools.cache
    def exported(name: str, *targets: str) -> Exported:
        source = CASES[name].make()
        give_gradients(source.module)
        folder = root / "-".join((name, *targets))
        before = facts(source)
        bundle = rw.export(source, folder, targets=targets)
        return Exported(CASES[name], source, folder, bundle, differing(before, facts(source)))

    return lambda name, *targets: exported(name, *(targets or ("onnx",)))


@pytest.fixture(scope="session")
def verify_once(export_once: Callable[[str], Exported]) -> Callable[[str], Verified]:
    """Verifies a case of the registry beside its own source, at the first call only."""

    @functools.cache
    def verified(name: str) -> Verified:
        exported = export_once(name)
        before = facts(exported.source)
        certificate = rw.verify(exported.folder, against=exported.source, seed=11)
        return Verified(exported, certificate, differing(before, facts(exported.source)))

    return verified


@pytest.fixture(scope="session")
def export_environment_once(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], ExportedEnvironment]:
    """Exports an environment of the registry by its style, at the first call only."""
    root = tmp_path_factory.mktemp("environments")

    @functools.cache
    def exported(style: str) -> ExportedEnvironment:
        env, actor = ENVIRONMENTS[style]()
        actor.train()
        before = eager.facts(env, actor)
        bundle = rw.export_environment(env, actor, root / style)
        changed = eager.differing(before, eager.facts(env, actor))
        return ExportedEnvironment(style, bundle, changed)

    return exported


@pytest.fixture(params=CASES)
def exported(request: pytest.FixtureRequest, export_once: Callable[[str], Exported]) -> Exported:
    """Every policy of the registry, one after another."""
    return export_once(request.param)


@pytest.fixture(params=CASES)
def verified(request: pytest.FixtureRequest, verify_once: Callable[[str], Verified]) -> Verified:
    """Every policy of the registry beside its own source, one after another."""
    return verify_once(request.param)


def without_frameworks(config: pytest.Config) -> bool:
    return "not framework" in config.getoption("markexpr")


def pytest_configure(config: pytest.Config) -> None:
    """Hides the frameworks from `make test`: where it passes it passes without them too."""
    if without_frameworks(config):
        sys.meta_path.insert(0, tiers.Hidden())


def pytest_sessionstart(session: pytest.Session) -> None:
    """Sets apart what the libraries made, in a worker of many tests.

    An export asks Python who holds a module, and Python looks at every object that is not set
    apart: with all tests collected that takes a fifth of an export. Nothing of a test is set apart.
    """
    if hasattr(session.config, "workerinput"):
        importlib.import_module("roadworthy.api.export")
        gc.collect()
        gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    hidden = without_frameworks(config) and tiers.framework_folder(collection_path)
    return True if hidden else None


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByExport:
    return ByExport(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what its place says about a test, before anything is deselected by its markers."""
    for item in items:
        if tiers.framework_folder(item.path):
            item.add_marker(pytest.mark.framework)
        name = item.name.partition("[")[0]
        if tiers.quick(item.path, name, policy(item.nodeid)):
            item.add_marker(pytest.mark.quick)
    by_id = {item.nodeid: item for item in items if not item.get_closest_marker("long")}
    here = [test for test, item in by_id.items() if not _is_rest(item)]
    for test in set(here) - tiers.share(here, tiers.fitting):
        by_id[test].add_marker(pytest.mark.slow)
    rest = [test for test, item in by_id.items() if _is_rest(item)]
    for test in set(rest) - tiers.share(rest, tiers.eighth):
        by_id[test].add_marker(pytest.mark.slow)
        by_id[test].add_marker(pytest.mark.long)


def _is_rest(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("slow", "framework"))
