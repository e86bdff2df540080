"""Modules that a graph could not follow are refused, with the line or the attribute to change."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import roadworthy as rw
from tests.capture import refused
from tests.capture.conftest import Refuse

OBS = {"obs": torch.zeros(1, 4)}
TENSOR_FIRST = "keep it in a tensor with a batch axis, then "


@pytest.mark.parametrize(
    ("kind", "path", "hint"),
    [
        (refused.HiddenAttribute, "hidden", "declare what persists: memory={'hidden': 'hidden'}"),
        (
            refused.HiddenInside,
            "encoder.hidden",
            "declare what persists: memory={'hidden': 'encoder.hidden'}",
        ),
        (
            refused.HiddenBuffer,
            "trace",
            f"{TENSOR_FIRST}declare what persists: memory={{'trace': 'trace'}}",
        ),
        (
            refused.HiddenCounter,
            "calls",
            "declare what persists: memory={'calls': 'calls'}",
        ),
        (
            refused.HiddenList,
            "past",
            f"{TENSOR_FIRST}declare what persists: memory={{'past': 'past'}}",
        ),
    ],
)
def test_hidden_state_is_named(refuse: Refuse, kind: type[nn.Module], path: str, hint: str) -> None:
    (finding,) = refuse(kind(), example=OBS)
    assert (finding.code, finding.where) == ("RW112", f"{kind.__name__}.{path}")
    assert finding.what.startswith("a call writes it, and a later call reads it")
    assert finding.hint == f"{hint}; if it does not matter: ignore=[{path!r}]"


def test_state_that_shows_at_the_tenth_call_is_refused_before_anything_is_compared(
    refuse: Refuse,
) -> None:
    (finding,) = refuse(refused.EveryTenth(), example=OBS)
    assert (finding.code, finding.where) == ("RW112", "EveryTenth.calls")


def test_ignored_state_that_matters_fails_the_certificate(refuse: Refuse) -> None:
    findings = refuse(refused.EveryTenth(), example=OBS, ignore=["calls"])
    line = refused.line(refused.EveryTenth, "self.calls += 1")
    assert [(each.code, each.where) for each in findings] == [
        ("RW112", f"EveryTenth.calls at {line}"), ("RW300", "replay"), ("RW300", "fresh steps"),
    ]  # fmt: skip
    assert all(" at step 9: expected " in each.what for each in findings[1:])


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (refused.TorchRandom, "return torch.normal(self.net(obs), 0.1)"),
        (refused.NumpyRandom, "return self.net(obs) + np.random.randn()"),
    ],
)
def test_random_outputs_are_refused_at_their_line(
    refuse: Refuse, kind: type[nn.Module], code: str
) -> None:
    (finding,) = refuse(kind(), example=OBS)
    assert finding == rw.Finding(
        code="RW111",
        where=refused.line(kind, code),
        what="the outputs are random: the same inputs gave different values",
        hint="return the mean or the mode of the distribution instead of a sample",
    )


def test_state_outside_of_the_module_is_named(refuse: Refuse) -> None:
    (finding,) = refuse(refused.GlobalCounter(), example=OBS)
    assert (finding.code, finding.where) == ("RW112", "refused._CALLS[0]")
    assert "return self.net(obs) + _CALLS[0]" in finding.what


def test_ignored_state_that_matters_at_once_is_shown_by_its_values(refuse: Refuse) -> None:
    (finding,) = refuse(refused.GlobalCounter(), example=OBS, ignore=["refused._CALLS[0]"])
    assert (finding.code, finding.where) == ("RW112", "GlobalCounter")
    match = re.match(
        r"two calls with the same inputs gave (\S+) and (\S+) for actions\[\d\]\[\d\]", finding.what
    )
    assert match is not None
    assert float(match[2]) - float(match[1]) == pytest.approx(1.0, abs=1e-4)
    assert finding.what.endswith(": what is ignored matters: refused._CALLS[0]")
    assert finding.hint.endswith("and take it out of ignore=")


def test_generator_of_the_modules_own_is_refused_and_put_back(refuse: Refuse) -> None:
    module = refused.OwnGenerator()
    before = module.rng.get_state()[1:3]
    (finding,) = refuse(module, example=OBS)
    assert (finding.code, finding.where) == ("RW111", "OwnGenerator.rng")
    assert [str(each) for each in module.rng.get_state()[1:3]] == [str(each) for each in before]


@pytest.mark.parametrize(
    ("kind", "code", "what", "hint"),
    [
        (
            refused.Branch,
            "if obs.sum() > 0:",
            "the code branches on the value of a tensor; a graph would freeze one side",
            "compute both sides and choose: torch.where(condition, a, b)",
        ),
        (
            refused.Float,
            "return self.net(obs) * float(obs.max())",
            "the value of a tensor is read as a Python number; a graph would freeze it",
            "stay with tensors: drop .item(), float(), int() and bool()",
        ),
        (
            refused.ThroughNumpy,
            "return torch.from_numpy(np.tanh(self.net(obs).detach().numpy()))",
            "the code leaves PyTorch for NumPy; a graph would freeze what comes back",
            "use torch.tanh instead of np.tanh, without .numpy() or from_numpy()",
        ),
    ],
)
def test_value_that_leaves_the_graph_is_refused_at_its_line(
    refuse: Refuse, kind: type[nn.Module], code: str, what: str, hint: str
) -> None:
    where = refused.line(kind, code)
    (finding,) = refuse(kind(), example=OBS)
    assert finding == rw.Finding(code="RW103", where=where, what=what, hint=hint)


def test_rows_that_are_mixed_fail_the_certificate(refuse: Refuse) -> None:
    finding, *others = refuse(refused.MixesRows(), example=OBS)
    cause = next(each for each in others if each.code == "RW320")
    assert (finding.code, finding.where) == ("RW300", "batch")
    assert finding.hint == "RW320 names the likely cause"
    assert cause.what == "rows of a batch influence each other"


def test_number_that_mixes_rows_is_named_before_the_certificate_it_fails(refuse: Refuse) -> None:
    line = refused.line(refused.Item, "return self.net(obs) * obs.max().item()")
    findings = refuse(refused.Item(), example=OBS)
    assert [(each.code, each.where) for each in findings[:2]] == [
        ("RW103", line),
        ("RW300", "batch"),
    ]


@pytest.mark.parametrize(
    ("kind", "rows", "other", "code"),
    [
        (refused.FixedView, 3, 4, "return self.net(obs).view(3, -1)"),
        (refused.FixedConstant, 5, 3, "return self.net(obs) + torch.zeros(5, 4)"),
        (
            refused.FixedRow,
            1,
            3,
            "return torch.cat([self.net(obs), torch.zeros(1, 2)], dim=-1)",
        ),
    ],
)
def test_fixed_number_of_rows_is_refused_at_its_line(
    refuse: Refuse, kind: type[nn.Module], rows: int, other: int, code: str
) -> None:
    (finding,) = refuse(kind(), example={"obs": torch.zeros(rows, 4)})
    assert finding.code == "RW101"
    assert finding.where == refused.line(kind, code)
    assert finding.what.startswith(
        f"forward runs on the example, but with {other} rows it raised RuntimeError: "
    )
    assert finding.hint.endswith("or export for one batch size: rw.export(…, batch=1)")


def test_branch_on_the_number_of_rows_is_refused(refuse: Refuse) -> None:
    (finding,) = refuse(refused.SizeBranch(), example=OBS)
    where = refused.line(refused.SizeBranch, "if obs.shape[0] == 3:")
    assert (finding.code, finding.where) == ("RW101", where)
    assert finding.what.startswith("the code does something else for some sizes of 'batch': 3 <= ")


@pytest.mark.parametrize("kind", [refused.FixedRow, refused.SizeBranch])
def test_fixed_number_of_rows_is_exported_on_purpose(tmp_path: Path, kind: type[nn.Module]) -> None:
    bundle = rw.export(rw.Source(kind(), example=OBS, batch=1), tmp_path / "bundle")
    assert bundle.signature.fixed_rows == 1


def test_error_of_forward_is_shown_with_its_line(refuse: Refuse) -> None:
    (finding,) = refuse(refused.Raises(), example=OBS)
    assert finding.code == "RW102"
    assert finding.where == refused.line(refused.Raises, "return self.net(obs[:, :2])")
    assert finding.what.startswith("forward raised RuntimeError: mat1 and mat2 shapes cannot be")


def test_mixed_rows_can_be_waived_and_the_waiver_is_recorded(tmp_path: Path) -> None:
    options = rw.ExportOptions(allow_uncertified=True)
    bundle = rw.export(refused.MixesRows(), tmp_path / "bundle", example=OBS, options=options)
    assert bundle.manifest["waivers"] == ["uncertified"]
    certificate = rw.Certificate.from_bytes(bundle.files["certificate.json"])
    assert not certificate.passed
    assert "batch" in [check.name for check in certificate.checks if not check.passed]
    assert rw.load(tmp_path / "bundle").act(torch.ones(3, 4).numpy()).shape == (3, 4)


def test_waiver_is_recorded_only_where_it_was_needed(tmp_path: Path) -> None:
    options = rw.ExportOptions(allow_uncertified=True)
    bundle = rw.export(refused.Base(), tmp_path / "bundle", example=OBS, options=options)
    assert bundle.manifest["waivers"] == []


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning")
def test_scripted_module_is_refused(refuse: Refuse) -> None:
    scripted = torch.jit.trace(nn.Linear(4, 2), torch.zeros(1, 4))
    (finding,) = refuse(scripted, example=OBS)
    assert finding.what == "a TorchScript module cannot be captured"
    assert finding.hint == "pass the Python module that it was made from"


@pytest.mark.filterwarnings("ignore:Lazy modules:UserWarning")
def test_lazy_module_that_never_ran_is_refused(refuse: Refuse) -> None:
    (finding,) = refuse(nn.Sequential(nn.LazyLinear(3)), example=OBS)
    assert finding.where == "Sequential.0.weight"
    assert finding.what == "the parameter has no size yet: its lazy module has never run"


@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning")
@pytest.mark.parametrize("way", ["to_sparse", "to_sparse_csr"])
def test_sparse_weights_are_refused_and_go_in_as_the_hint_says(
    refuse: Refuse, tmp_path: Path, way: str
) -> None:
    module = refused.Adjacent(getattr(torch.eye(4), way)())
    (finding,) = refuse(module, example=OBS)
    assert finding.where == "Adjacent.weights"
    assert finding.hint == ("make it dense before the export: weights.to_dense(); multiply with @")
    rw.export(refused.Adjacent(module.weights.to_dense()), tmp_path / "bundle", example=OBS)


def test_sparse_result_is_refused(refuse: Refuse) -> None:
    (finding,) = refuse(refused.Sparse(), example=OBS)
    assert (finding.code, finding.what) == (
        "RW190", "forward returns a tensor that is torch.sparse_coo",
    )  # fmt: skip


def test_function_is_no_module(refuse: Refuse) -> None:
    (finding,) = refuse(lambda obs: obs, example=OBS)
    assert finding.what == "expected a torch.nn.Module, got function"


@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")
@pytest.mark.parametrize("wrap", [torch.compile, nn.DataParallel], ids=["compile", "parallel"])
def test_wrappers_of_training_are_taken_off(tmp_path: Path, wrap: type[nn.Module]) -> None:
    module = refused.Base()
    bundle = rw.export(wrap(module), tmp_path / "bundle", example=OBS)
    assert bundle.manifest["provenance"]["source"] == "tests.capture.refused.Base"
    rw.verify(tmp_path / "bundle", against=module).raise_if_failed()
