"""The artifact does what the live module does, compared by hand and over long episodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

import roadworthy as rw
from roadworthy.errors import CertificateFailed
from roadworthy.spec.samples import draw
from tests.conftest import Exported
from tests.every_policy.eager import START, Eager
from tests.policies import CASES, MEAN, VAR
from tests.tiers import representative

ExportOnce = Callable[..., Exported]
STEPS = 1000


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def module_of(name: str) -> torch.nn.Module:
    return CASES[name].make().module.eval()


def test_every_recurrent_case_is_stepped_by_hand() -> None:
    declared = {name for name, case in CASES.items() if case.make().memory}
    assert declared == set(START)


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        *((name, "onnx") for name in START),
        *((name, "torch_export") for name in ("lstm", "own_cell", "keeps_buffer")),
    ],
)
def test_thousand_recurrent_steps_stay_within_1e_5(
    export_once: ExportOnce, name: str, engine: str
) -> None:
    policy = rw.load(export_once(name, engine).folder, engine=engine, trust=True)
    rows = policy.signature.fixed_rows or 3
    eager = Eager(name, module_of(name), rows)
    values = normal(STEPS, rows, 6)
    every = torch.ones(rows, dtype=torch.bool)
    resets = {411: every, 412: every, 800: torch.arange(rows) == 0, 900: torch.arange(rows) != 1}
    worst = 0.0
    for step, obs in enumerate(values):
        if step in resets and (resets[step].all() or rows > 1):
            eager.reset(resets[step])
            policy.reset(resets[step].numpy())
        expected = eager.step(obs).numpy()
        got = policy.act(obs.numpy())
        worst = max(worst, float(np.abs(got - expected).max()))
    assert worst <= 1e-5


@torch.no_grad()
def test_normaliser_uses_the_formula_of_stable_baselines(export_once: ExportOnce) -> None:
    # Around the clip: what is clipped alone would not tell where epsilon went.
    obs = (torch.from_numpy(MEAN) + 8 * normal(64, 6) * torch.from_numpy(VAR).sqrt()).float()
    scaled = (obs.double().numpy() - MEAN) / np.sqrt(VAR + 1e-8)
    assert 0 < (np.abs(scaled) > 10.0).mean() < 0.5
    clipped = torch.from_numpy(np.clip(scaled, -10.0, 10.0)).float()
    got = rw.load(export_once("normalized_sb3").folder).act(obs.numpy())
    expected = module_of("normalized_sb3")(clipped).numpy()
    assert np.abs(got - expected).max() <= 1e-5 * max(1, np.abs(expected).max())


@torch.no_grad()
def test_normaliser_uses_the_formula_of_rsl_rl(export_once: ExportOnce) -> None:
    obs = normal(64, 6)
    scaled = torch.from_numpy((obs.double().numpy() - MEAN) / (np.sqrt(VAR) + 1e-2)).float()
    got = rw.load(export_once("normalized_rsl_rl").folder).act(obs.numpy())
    expected = module_of("normalized_rsl_rl")(scaled).numpy()
    assert np.abs(got - expected).max() <= 1e-5 * max(1, np.abs(expected).max())


@torch.no_grad()
def test_squash_goes_to_the_bounds(export_once: ExportOnce) -> None:
    obs = 5 * normal(64, 6)
    mean, _ = module_of("squashed_gaussian")(obs)
    expected = np.array([-2.0, 0.0]) + (np.tanh(mean.numpy()) + 1) / 2 * np.array([4.0, 5.0])
    got = rw.load(export_once("squashed_gaussian").folder).act(obs.numpy())
    assert np.abs(got - expected).max() <= 1e-5


@torch.no_grad()
def test_forbidden_actions_are_never_chosen(export_once: ExportOnce) -> None:
    obs = normal(256, 6)
    logits = module_of("masked_discrete")(obs).numpy()
    mask = np.random.default_rng(0).random((256, 5)) < 0.4
    mask[:, 2] |= ~mask.any(axis=1)
    policy = rw.load(export_once("masked_discrete").folder)
    got = policy.act({"obs": obs.numpy(), "action_mask": mask})
    assert got.tolist() == np.where(mask, logits, -np.inf).argmax(axis=1).tolist()
    assert mask[np.arange(256), got].all()


@torch.no_grad()
def test_each_group_has_its_own_choice(export_once: ExportOnce) -> None:
    obs = normal(256, 6)
    logits = module_of("multi_discrete")(obs).numpy()
    got = rw.load(export_once("multi_discrete").folder).act(obs.numpy())
    expected = np.stack([logits[:, :3].argmax(1), logits[:, 3:].argmax(1)], axis=1)
    assert got.tolist() == expected.tolist()


@torch.no_grad()
def test_module_left_in_training_is_exported_as_it_evaluates(export_once: ExportOnce) -> None:
    obs = normal(32, 6)
    got = rw.load(export_once("left_in_training").folder).act(obs.numpy())
    assert np.abs(got - module_of("left_in_training")(obs).numpy()).max() <= 1e-5


@torch.no_grad()
@pytest.mark.parametrize("tokens", [1, 2, 4, 9])
def test_any_number_of_tokens_agrees(export_once: ExportOnce, tokens: int) -> None:
    obs, ref = normal(3, 6), normal(3, tokens, 5, seed=1)
    mask = torch.zeros(3, tokens, dtype=torch.bool)
    mask[1, 1:] = True
    expected = module_of("transformer_any_length")(obs, ref, mask).numpy()
    values = {"obs": obs.numpy(), "ref_obs": ref.numpy(), "ref_mask": mask.numpy()}
    got = rw.load(export_once("transformer_any_length").folder).act(values)
    assert np.abs(got - expected).max() <= 1e-5


def test_reset_policy_is_a_fresh_one_bit_for_bit(exported: Exported) -> None:
    used, fresh = rw.load(exported.folder), rw.load(exported.folder)
    rows = used.signature.fixed_rows or 3
    inputs = draw(used.signature, np.random.default_rng(1), steps=20, rows=rows)
    steps = [{name: array[i] for name, array in inputs.items()} for i in range(20)]
    for now in steps[:13]:
        used.step(now)
    used.reset()
    for now in steps[5:]:
        one, other = used.step(now), fresh.step(now)
        assert {k: v.tobytes() for k, v in one.items()} == {
            k: v.tobytes() for k, v in other.items()
        }
        assert {k: v.tobytes() for k, v in used.memory.items()} == {
            k: v.tobytes() for k, v in fresh.memory.items()
        }


def test_bundle_verifies_alone_with_any_seed(exported: Exported) -> None:
    certificate = rw.verify(exported.folder, seed=17).raise_if_failed()
    assert "fresh steps" not in [check.name for check in certificate.checks]
    assert certificate.steps > 256


def test_bundle_verifies_against_an_equal_module(exported: Exported) -> None:
    source = exported.case.make()
    own = source.normalizer if isinstance(source.normalizer, torch.nn.Module) else None
    certificate = rw.verify(exported.folder, against=source.module, normalizer=own, seed=3)
    assert "fresh steps" in [check.name for check in certificate.raise_if_failed().checks]


def test_normaliser_module_must_be_passed_again(export_once: ExportOnce) -> None:
    folder = export_once("normalized_by_module").folder
    with pytest.raises(rw.RoadworthyError) as caught:
        rw.verify(folder, against=module_of("normalized_by_module"))
    assert str(caught.value) == (
        "[RW001] the bundle was exported with a normaliser module for 'obs'\n  → pass it "
        "again: rw.verify(…, normalizer={'obs': module})"
    )


@pytest.mark.parametrize(
    ("name", "port"),
    [
        ("mlp", "actions"),
        ("normalized_sb3", "actions"),
        ("lstm", "actions"),
        ("keeps_pair", "actions"),
        ("nonzero_memory", "targets"),
        ("transformer", "actions"),
        ("squashed_gaussian", "actions"),
        ("dict_outputs", "targets"),
    ],
)
def test_one_other_weight_fails_with_port_and_step(
    export_once: ExportOnce, name: str, port: str
) -> None:
    exported = export_once(name)
    module = module_of(name)
    with torch.no_grad():
        list(module.parameters())[-1].view(-1)[0] += 1e-2
    if name == "squashed_gaussian":
        with torch.no_grad():
            module.mean.weight[0, 0] += 1e-2
    certificate = rw.verify(exported.folder, against=module)
    failed = [check.name for check in certificate.checks if not check.passed]
    # With a memory of its own the artifact departs as well.
    free = ["free run"] if exported.bundle.signature.memory else []
    assert failed == ["fresh steps", *free]
    pattern = (
        rf"\[RW300\] fresh steps: {port}\[\d\]\[\d\] at step \d+: "
        r"expected \S+, got \S+ \(off by "
    )
    with pytest.raises(CertificateFailed, match=pattern):
        certificate.raise_if_failed()


@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("name", representative(["lstm", "transformer"], ["lstm"]))
def test_oldest_and_newest_opset_pass_their_checks(tmp_path: Path, name: str, opset: int) -> None:
    options = rw.ExportOptions(opset=opset)
    bundle = rw.export(CASES[name].make(), tmp_path / name, options=options)
    assert onnx.load_from_string(bundle.files["policy.onnx"]).opset_import[0].version == opset
    rw.verify(tmp_path / name, against=module_of(name)).raise_if_failed()


@pytest.mark.parametrize(("field", "value"), [("opset", 17), ("opset", 24), ("ir_version", 12)])
def test_unknown_versions_are_refused(tmp_path: Path, field: str, value: int) -> None:
    with pytest.raises(rw.RoadworthyError, match=f"{field} {value} is not supported"):
        rw.export(CASES["mlp"].make(), tmp_path / "x", options=rw.ExportOptions(**{field: value}))
    assert list(tmp_path.iterdir()) == []
