"""The published schemas are what is written: strict, and true for every kind of bundle."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from jsonschema import Draft202012Validator
from torch import nn

import roadworthy as rw
from roadworthy.spec import bundle as bundles
from roadworthy.spec import certificate as certificates
from roadworthy.spec.port import DTYPES
from roadworthy.spec.targets import IR_VERSIONS, OPSETS, TARGETS
from tests.capture import refused
from tests.conftest import Exported
from tests.environment.environments import ENVIRONMENTS
from tests.schemas import SCHEMAS, Json, as_written, bundle_problems, problems

OBS = {"obs": torch.zeros(1, 4)}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_schema_is_a_schema(kind: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[kind])


def test_every_policy_of_the_registry_fits(exported: Exported) -> None:
    assert bundle_problems(exported.bundle) == []


def test_several_targets_fit_and_onnx_alone_has_an_opset(
    export_once: Callable[..., Exported],
) -> None:
    both = export_once("mlp", "onnx", "torch_export").bundle
    assert bundle_problems(both) == []
    alone = export_once("mlp", "torch_export").bundle
    assert bundle_problems(alone) == []
    assert "opset" not in alone.manifest
    assert problems("manifest", {**alone.manifest, "opset": 20}) != []


def test_environment_fits(tmp_path: Path) -> None:
    env, actor = ENVIRONMENTS["pd_four_ticks"]()
    bundle = rw.export_environment(env, actor, tmp_path / "env")
    assert bundle_problems(bundle) == []
    assert set(bundle.manifest["recipe"]) == {"environment", "constants", "handed_over"}


def test_waived_bundle_fits(tmp_path: Path) -> None:
    options = rw.ExportOptions(allow_uncertified=True)
    bundle = rw.export(refused.MixesRows(), tmp_path / "waived", example=OBS, options=options)
    assert bundle_problems(bundle) == []
    assert bundle.manifest["waivers"] == ["uncertified"]


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 4)
        self.register_buffer("flag", torch.tensor(True))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.net(obs) if self.flag else obs


def test_repaired_bundle_fits(tmp_path: Path) -> None:
    bundle = rw.export(Branches(), tmp_path / "repaired", example=OBS, fix=True)
    assert bundle_problems(bundle) == []
    assert bundle.manifest["fixes"]


def test_certificate_of_a_closed_loop_fits(tmp_path: Path) -> None:
    actor = nn.Linear(4, 2)
    rw.export(actor, tmp_path / "cartpole", example=OBS, action=rw.Argmax())
    certificate = rw.verify(tmp_path / "cartpole", against=actor, env="CartPole-v1", episodes=2)
    assert {"teacher", "closed loop"} <= {check.name for check in certificate.checks}
    assert problems("certificate", as_written(certificate)) == []


def test_certificate_with_numbers_that_are_not_finite_fits() -> None:
    nan, inf = float("nan"), float("inf")
    place = certificates.Difference(
        port="actions", absolute=inf, relative=0.0, step=3, index=(0,), expected=nan, got=-inf
    )
    check = certificates.Check(
        name="replay", claim="it holds", passed=False, steps=4, differences=(place,),
        first_failure=place,
    )  # fmt: skip
    certificate = rw.Certificate(checks=(check,), seed=0)
    assert problems("certificate", as_written(certificate)) == []


BROKEN: dict[str, tuple[str, Callable[[Json], object]]] = {
    "another version": ("$.version", lambda m: m.update(version=1)),
    "a key that nobody writes": ("$", lambda m: m.update(date="today")),
    "a signature without a clock": ("$.signature", lambda m: m["signature"].pop("clock")),
    "no inputs": ("$.signature.inputs", lambda m: m["signature"].update(inputs=[])),
    "a dtype of PyTorch": (
        "$.signature.outputs[0].dtype", lambda m: m["signature"]["outputs"][0].update(dtype="half"),
    ),
    "a size of zero": (
        "$.signature.inputs[0].shape[1]",
        lambda m: m["signature"]["inputs"][0].update(shape=["batch", 0]),
    ),
    "memory that begins nowhere": (
        "$.signature.memory[0]", lambda m: m["signature"]["memory"][0].pop("initial"),
    ),
    "memory that begins at infinity": (
        "$.signature.memory[0].initial",
        lambda m: m["signature"]["memory"][0].update(initial="inf"),
    ),
    "an empty unit": (
        "$.signature.inputs[0].unit", lambda m: m["signature"]["inputs"][0].update(unit=""),
    ),
    "an action of no kind": (
        "$.signature.action", lambda m: m["signature"].update(action={"output": "actions"}),
    ),
    "a recipe of both kinds": ("$.recipe", lambda m: m["recipe"].update(environment="Robot")),
    "a normaliser that nobody knows": (
        "$.recipe", lambda m: m["recipe"].update(normalizers={"obs": {"kind": "Mean"}}),
    ),
    "no target": ("$.targets", lambda m: m.update(targets={})),
    "a target without files": ("$.targets.onnx", lambda m: m["targets"].update(onnx=[])),
    "a file outside": ("$.targets.onnx[0]", lambda m: m["targets"].update(onnx=["../policy.onnx"])),
    "onnx without its opset": ("$", lambda m: m.pop("opset")),
    "an opset of the past": ("$.opset", lambda m: m.update(opset=17)),
    "a waiver that nobody gave": ("$.waivers[0]", lambda m: m.update(waivers=["unchecked"])),
    "a fix without a code": ("$.fixes[0]", lambda m: m.update(fixes=[{"what": "float32"}])),
    "a translation to nothing": (
        "$.translations.sin", lambda m: m.update(translations={"sin": ""}),
    ),
    "a clock in the provenance": ("$.provenance", lambda m: m["provenance"].update(time="noon")),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_manifest_is_refused_at_the_place(
    name: str, export_once: Callable[..., Exported]
) -> None:
    place, broken = BROKEN[name]
    manifest = copy.deepcopy(dict(export_once("lstm").bundle.manifest))
    assert problems("manifest", manifest) == []
    broken(manifest)
    assert place in [problem.partition(": ")[0] for problem in problems("manifest", manifest)]


def test_certificate_that_passed_with_a_failed_check_is_refused(
    export_once: Callable[..., Exported],
) -> None:
    certificate = json.loads(export_once("lstm").bundle.files["certificate.json"])
    certificate["checks"][1]["passed"] = False
    assert problems("certificate", certificate) == ["$.checks[1].passed: True was expected"]


def test_schemas_follow_the_code() -> None:
    manifest, certificate = SCHEMAS["manifest"], SCHEMAS["certificate"]
    assert manifest["properties"]["format"]["const"] == bundles.FORMAT
    assert manifest["properties"]["version"]["const"] == bundles.VERSION
    assert certificate["properties"]["version"]["const"] == certificates.VERSION
    assert tuple(manifest["$defs"]["dtype"]["enum"]) == DTYPES
    assert manifest["$defs"]["finding"] == certificate["$defs"]["finding"]
    for key, allowed in (("opset", OPSETS), ("ir_version", IR_VERSIONS)):
        limits = manifest["properties"][key]
        assert range(limits["minimum"], limits["maximum"] + 1) == allowed


@pytest.mark.parametrize("row", TARGETS.values(), ids=lambda row: row.name)
def test_every_target_of_the_table_fits(row: Any, export_once: Callable[..., Exported]) -> None:
    manifest = dict(export_once("lstm").bundle.manifest)
    manifest["targets"] = {"onnx": ["policy.onnx"], row.name: list(row.files)}
    assert problems("manifest", manifest) == []


STEPS = (
    rw.Tanh(),
    rw.ScaleOffset(scale=(0.25, 0.5), offset=1),
    rw.ScaleToBounds(low=(-1.0,), high=2.0),
    rw.Clip(low=float("-inf"), high=3.0),
    rw.Argmax(table=("left", 3), mask="allowed"),
    rw.MultiDiscrete(sizes=(2, 3)),
)
NORMALIZERS = (
    rw.EpsInsideRoot(mean=[0.5], var=[2.0], eps=1e-8, clip=10.0),
    rw.EpsOutsideRoot(mean=0.5, std=2.0, eps=1e-2),
)


def test_every_step_and_normaliser_fits(export_once: Callable[..., Exported]) -> None:
    manifest = copy.deepcopy(dict(export_once("lstm").bundle.manifest))
    manifest["recipe"]["action"] = [step.to_json() for step in STEPS]
    manifest["recipe"]["normalizers"] = {
        type(each).__name__: each.to_json() for each in NORMALIZERS
    } | {"obs": "module"}
    assert problems("manifest", manifest) == []
