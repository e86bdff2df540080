"""One door: what a user holds becomes a source, by whichever adapter knows it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomllib
import torch
from torch import nn

import roadworthy as rw
from roadworthy import frameworks
from roadworthy.environment.source import EnvironmentSource
from roadworthy.frameworks import Adapter, adapter_for
from tests.environment.environments import ENVIRONMENTS

PLUGIN = Path(__file__).parent.parent / "examples" / "adapter_plugin"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The plug-in of the examples as pip would install it: its modules, and what it declares."""
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text())
    site = tmp_path / "site"
    info = site / "toylab_roadworthy-0.1.dist-info"
    info.mkdir(parents=True)
    for name in project["tool"]["setuptools"]["py-modules"]:
        (site / f"{name}.py").write_text((PLUGIN / f"{name}.py").read_text())
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toylab-roadworthy\nVersion: 0.1\n")
    lines = []
    for group, entries in project["project"]["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    frameworks.plug_ins.cache_clear()
    yield site
    frameworks.plug_ins.cache_clear()
    for name in ("toylab", "toylab_roadworthy"):
        sys.modules.pop(name, None)


def test_a_plain_module_is_described_by_the_common_keywords() -> None:
    source = rw.to_source(
        nn.Linear(4, 2),
        example={"obs": torch.zeros(1, 4)},
        about={"obs": rw.About(unit="rad")},
        period_s=0.02,
        batch=1,
    )
    assert isinstance(source, rw.Source)
    assert (source.about["obs"].unit, source.period_s, source.batch) == ("rad", 0.02, 1)


def test_a_source_passes_through_and_takes_nothing_more() -> None:
    source = rw.Source(nn.Linear(4, 2), example={"obs": torch.zeros(1, 4)})
    assert rw.to_source(source) is source
    with pytest.raises(rw.UsageError) as caught:
        rw.to_source(source, period_s=0.02)
    assert str(caught.value) == (
        "[RW001] given twice, in the Source and beside it: period_s\n  → set every option in "
        "rw.Source(…) alone"
    )


def test_an_environment_comes_in_by_the_same_door() -> None:
    env, actor = ENVIRONMENTS["pd"]()
    source = rw.to_source(env, actor=actor)
    assert isinstance(source, EnvironmentSource)
    with pytest.raises(rw.UsageError, match="the actor is missing"):
        rw.to_source(env)
    with pytest.raises(rw.UsageError) as caught:
        rw.to_source(env, actor=actor, exmaple={})
    assert "an environment takes no 'exmaple'" in str(caught.value)


def test_a_misspelt_keyword_is_answered_with_the_nearest() -> None:
    with pytest.raises(rw.UsageError) as caught:
        rw.to_source(nn.Linear(4, 2), example={"obs": torch.zeros(1, 4)}, preiod_s=0.02)
    assert str(caught.value) == (
        "[RW001] export(…, preiod_s=…): a plain Linear takes no 'preiod_s'\n"
        "  → did you mean 'period_s'?"
    )


def test_what_is_exported_comes_first_and_the_folder_second(tmp_path: Path) -> None:
    with pytest.raises(rw.UsageError, match="the second argument is the folder to write, got a L"):
        rw.export(str(tmp_path), nn.Linear(4, 2), example=torch.zeros(1, 4))  # type: ignore[arg-type]


def test_a_file_that_nobody_knows_is_refused_with_a_way_on(tmp_path: Path) -> None:
    file = tmp_path / "weights.bin"
    file.write_bytes(b"\x00" * 64)
    with pytest.raises(rw.UsageError) as caught:
        rw.export(str(file), tmp_path / "bundle")
    assert f"no installed adapter can read {file}" in str(caught.value)
    assert not (tmp_path / "bundle").exists()
    with pytest.raises(rw.UsageError, match=r"did you mean 'weights\.bin'"):
        rw.to_source(tmp_path / "weight.bin")


def test_an_object_of_an_installed_plug_in_is_exported(installed: Path, tmp_path: Path) -> None:
    toylab = importlib.import_module("toylab")
    torch.manual_seed(1)
    agent = toylab.Agent(5, 3)
    agent.mean = torch.randn(5)
    bundle = rw.export(agent, tmp_path / "bundle", period_s=0.01)
    assert bundle.signature.period_s == 0.01
    obs = torch.randn(4, 5)
    policy = rw.load(tmp_path / "bundle")
    torch.testing.assert_close(torch.from_numpy(policy.act(obs.numpy())), agent.act(obs))
    assert rw.verify(tmp_path / "bundle", against=agent).passed
    other = toylab.Agent(5, 3)
    assert not rw.verify(tmp_path / "bundle", against=other).passed


def test_a_file_of_an_installed_plug_in_is_known_by_its_content(
    installed: Path, tmp_path: Path
) -> None:
    toylab = importlib.import_module("toylab")
    toylab.Agent(5, 3).save(tmp_path / "anything.xyz")
    source = rw.to_source(tmp_path / "anything.xyz", clip=False)
    assert isinstance(source, rw.Source)
    assert [type(step).__name__ for step in source.steps] == ["Tanh", "ScaleOffset"]
    torch.save({"weight": torch.zeros(2)}, tmp_path / "foreign.pt")
    row = adapter_for(tmp_path / "foreign.pt")
    assert row is not None
    assert row.name == "checkpoint"


def test_a_plug_in_may_add_keywords_and_no_others_are_taken(installed: Path) -> None:
    agent = importlib.import_module("toylab").Agent(5, 3)
    with pytest.raises(rw.UsageError) as caught:
        rw.to_source(agent, clop=False)
    assert "a toylab policy takes no 'clop'\n  → did you mean 'clip'?" in str(caught.value)
    with pytest.raises(rw.UsageError, match="takes no 'example'"):
        rw.to_source(agent, example={"obs": torch.zeros(1, 5)})


def test_a_broken_plug_in_is_warned_about_and_stops_nobody(installed: Path, tmp_path: Path) -> None:
    (installed / "toylab_roadworthy.py").write_text("raise RuntimeError('half installed')")
    with pytest.warns(UserWarning, match="the adapter 'toylab' does not load: half installed"):
        source = rw.to_source(nn.Linear(4, 2), example={"obs": torch.zeros(1, 4)})
    assert isinstance(source, rw.Source)


def test_an_adapter_that_gives_no_source_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Adapter(name="odd", classes=("torch.Linear",), describe=lambda thing: 3)  # type: ignore[arg-type, return-value]
    monkeypatch.setattr(frameworks, "BUILT_IN", (row,))
    with pytest.raises(rw.UsageError, match="the adapter 'odd' returned a int, expected a Source"):
        rw.to_source(nn.Linear(4, 2))


def test_the_nearest_class_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (
        Adapter(name="far", classes=("torch.Module",), describe="x:y"),
        Adapter(name="near", classes=("torch.Linear",), describe="x:y"),
    )
    monkeypatch.setattr(frameworks, "BUILT_IN", rows)
    found = adapter_for(nn.Linear(4, 2))
    assert found is not None
    assert found.name == "near"


def test_looking_for_an_adapter_imports_no_framework(tmp_path: Path) -> None:
    script = (
        "import sys, torch\n"
        "from roadworthy.frameworks import adapter_for\n"
        "assert adapter_for(torch.nn.Linear(2, 1)) is None\n"
        "print({'tensordict', 'torchrl', 'gymnasium', 'onnx'} & set(sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path
    )
    assert run.stdout.strip() == "set()", run.stderr


def test_an_environment_is_verified_again_beside_its_bundle(tmp_path: Path) -> None:
    env, actor = ENVIRONMENTS["pd_four_ticks"]()
    rw.export_environment(env, actor, tmp_path / "bundle")
    certificate = rw.verify(tmp_path / "bundle", against=env, actor=actor).raise_if_failed()
    assert [check.name for check in certificate.checks] == [
        "replay",
        "reset",
        "fresh steps",
        "free run",
    ]
    with torch.no_grad():
        next(actor.parameters()).view(-1)[0] += 0.05
    failed = rw.verify(tmp_path / "bundle", against=env, actor=actor)
    assert not failed.passed
    with pytest.raises(rw.UsageError, match=r"against=env, actor=actor"):
        rw.verify(tmp_path / "bundle", against=actor)
    other, its_actor = ENVIRONMENTS["two_arms"]()
    with pytest.raises(rw.UsageError, match="other ports than the bundle"):
        rw.verify(tmp_path / "bundle", against=other, actor=its_actor)
