"""What is wrong with a policy is said all at once, with its line, and nothing is raised."""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path

import pytest
import torch
from torch import nn

import roadworthy as rw
from roadworthy.rules.reading import code_patterns
from tests.networks import Mlp, RunningNorm
from tests.rules import patients

OBS = {"obs": torch.zeros(1, 6)}


def line(kind: type, code: str) -> str:
    """`patients.py:12 (code)`: where `code` stands in the source of `kind`."""
    lines, first = inspect.getsourcelines(kind)
    (offset,) = [index for index, text in enumerate(lines) if text.strip() == code]
    return f"patients.py:{first + offset} ({code})"


def found(diagnosis: rw.Diagnosis) -> list[tuple[str, str, str]]:
    return [(each.severity, each.code, each.where) for each in diagnosis.findings]


def test_four_mistakes_are_found_at_once_each_at_its_line() -> None:
    diagnosis = rw.diagnose(patients.FourMistakes(), example=OBS)
    kind = patients.FourMistakes
    assert found(diagnosis) == [
        ("error", "RW111", line(kind, "x = self.net(nn.functional.dropout(obs, 0.5))")),
        ("error", "RW103", line(kind, "if x.mean() > 0:")),
        ("error", "RW103", line(kind, "x = x * float(x.max())")),
        ("warning", "RW112", f"FourMistakes.calls at {line(kind, 'self.calls += 1')}"),
    ]
    assert not diagnosis.ok
    assert len(diagnosis.errors) == 3
    assert len(diagnosis.warnings) == 1
    text = str(diagnosis)
    assert text.startswith("FourMistakes: not ready, 3 to correct\n\nerrors:\n[RW111] patients.py:")
    assert "\n\nwarnings:\n[RW112] FourMistakes.calls at patients.py:" in text


def test_a_failed_export_carries_what_reading_found() -> None:
    with pytest.raises(rw.RoadworthyError) as caught:
        rw.export(patients.FourMistakes(), "nowhere", example=OBS)
    assert [each.code for each in caught.value.findings] == ["RW111", "RW103", "RW103", "RW112"]
    assert "if x.mean() > 0:" in str(caught.value)


def test_a_forgotten_normaliser_is_an_error_with_the_line_that_passes_it() -> None:
    (finding,) = rw.diagnose(patients.ActorCritic(), example=OBS).errors
    assert finding == rw.Finding(
        code="RW162",
        where="ActorCritic.obs_normalizer",
        what="holds observation statistics, and the outputs do not depend on them",
        hint="pass normalizer=actorcritic.obs_normalizer, or normalizer=torch.nn.Identity() if "
        "the policy was trained without it",
    )


def test_an_export_that_forgets_a_normaliser_of_the_module_is_refused(tmp_path: Path) -> None:
    policy = patients.ActorCritic()
    assert [(each.code, each.where) for each in _refused(policy)] == [
        ("RW162", "ActorCritic.obs_normalizer")
    ]
    rw.export(policy, tmp_path / "raw", example=OBS, normalizer=nn.Identity())


def test_a_normaliser_that_is_applied_is_no_error() -> None:
    assert [each.code for each in rw.diagnose(patients.Normalised(), example=OBS).findings] == [
        "RW166"
    ]


def test_the_normaliser_of_whoever_holds_the_actor_is_found() -> None:
    whole = patients.ActorCritic()
    assert [(each.code, each.where) for each in rw.diagnose(whole.actor).errors] == [
        ("RW162", "ActorCritic.obs_normalizer")
    ]
    assert rw.diagnose(whole.actor, example=OBS, normalizer=nn.Identity()).findings == ()


def test_statistics_beside_the_policy_of_a_runner_are_found() -> None:
    diagnosis = rw.diagnose(patients.Runner(), example=OBS)
    (finding,) = diagnosis.errors
    assert (finding.code, finding.where) == ("RW162", "Runner.obs_rms")
    assert finding.hint.startswith(
        "pass normalizer=rw.EpsInsideRoot(mean=runner.obs_rms.mean, var=runner.obs_rms.var, eps=…)"
    )
    assert ("note", "RW169", "Runner") in found(diagnosis)


def test_statistics_that_are_buffers_of_the_policy_are_found() -> None:
    (finding,) = rw.diagnose(patients.FlatStatistics(), example=OBS).errors
    assert (finding.code, finding.where) == ("RW162", "FlatStatistics")
    assert "std=flatstatistics.obs_std" in finding.hint


@pytest.mark.parametrize("kind", [patients.ActorCritic, patients.FlatStatistics])
def test_without_an_example_the_code_says_whether_a_normaliser_is_applied(
    kind: type[nn.Module],
) -> None:
    assert [each.code for each in rw.diagnose(kind()).errors] == ["RW162"]
    assert rw.diagnose(patients.Normalised()).errors == ()


def test_a_normaliser_that_still_learns_is_told_as_such() -> None:
    for findings in (
        rw.diagnose(patients.StillLearning(), example=OBS).errors,
        _refused(patients.StillLearning()),
    ):
        (finding,) = findings
        assert (finding.code, finding.where) == ("RW164", "StillLearning.obs_normalizer")
        assert finding.hint.startswith("update them only `if self.training:`")


def _refused(module: nn.Module) -> tuple[rw.Finding, ...]:
    with pytest.raises(rw.RoadworthyError) as caught:
        rw.export(module, "nowhere", example=OBS)
    return caught.value.findings


def test_state_that_shows_late_is_an_error() -> None:
    diagnosis = rw.diagnose(patients.EveryThousandth(), example=OBS)
    assert not diagnosis.exported
    assert found(diagnosis) == [("error", "RW112", "EveryThousandth.calls")]
    assert rw.diagnose(patients.EveryThousandth(), example=OBS, ignore=["calls"]).findings == ()


def test_actions_that_lack_their_squash_are_a_warning() -> None:
    (finding,) = rw.diagnose(patients.Unsquashed(), example=OBS).warnings
    assert (finding.code, finding.where) == ("RW172", "Unsquashed.squash_output")
    assert finding.hint.startswith("add action=rw.Tanh()")
    assert rw.diagnose(patients.Unsquashed(), example=OBS, action=rw.Tanh()).findings == ()


def test_a_target_network_in_the_place_of_the_actor_is_a_warning() -> None:
    diagnosis = rw.diagnose(patients.TargetActs(), example=OBS)
    assert [each.what for each in diagnosis.warnings] == [
        "the outputs come from 'actor_target', and 'actor' is not used"
    ]


def test_a_number_of_elements_that_depends_on_values_is_shown_beside_the_failure() -> None:
    diagnosis = rw.diagnose(patients.Gathers(), example=OBS)
    assert [each.code for each in diagnosis.findings] == ["RW113", "RW173"]


@pytest.mark.parametrize("spread", [1.0, 0.0])
def test_statistics_that_were_never_updated_are_a_warning(spread: float) -> None:
    policy = patients.Normalised()
    norm = policy.obs_normalizer
    assert isinstance(norm, RunningNorm)
    norm.mean.zero_()
    norm.std.fill_(spread)
    (finding,) = rw.diagnose(policy).warnings
    assert (finding.code, finding.where) == ("RW163", "Normalised.obs_normalizer")
    assert finding.what == f"its statistics were never updated: mean 0, std {spread:g}"


def test_the_page_of_the_docs_shows_what_its_code_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    (shown,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    (tmp_path / "page.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    runpy.run_path("page.py")
    assert capsys.readouterr().out == shown


def test_batch_norm_whose_statistics_were_not_loaded_is_a_warning() -> None:
    norm = nn.BatchNorm1d(8)
    actor = nn.Sequential(nn.Linear(6, 8), norm, nn.Linear(8, 2))
    assert [(each.code, each.where) for each in rw.diagnose(actor).warnings] == [
        ("RW161", "Sequential.1")
    ]
    norm(torch.randn(4, 8))
    assert rw.diagnose(actor).warnings == ()


@pytest.mark.filterwarnings("ignore:Lazy modules:UserWarning")
def test_a_lazy_module_that_never_ran_is_found_once() -> None:
    actor = nn.Sequential(nn.LazyLinear(3))
    for diagnosis in (rw.diagnose(actor), rw.diagnose(actor, example=OBS)):
        assert [(each.code, each.where) for each in diagnosis.errors] == [
            ("RW001", "Sequential.0.weight")
        ]


def test_what_only_reads_like_a_mistake_is_left_alone() -> None:
    assert code_patterns(patients.Innocent(), set()) == []
    assert [each.code for each in rw.diagnose(patients.Innocent().eval()).findings] == ["RW171"]


@pytest.mark.parametrize(
    ("module", "hint"),
    [
        (Mlp(48, 12), "pass example={'obs': torch.zeros(1, 48)}"),
        (nn.Sequential(nn.Conv2d(4, 8, 8)), "pass example={'obs': torch.zeros(1, 4, 84, 84)}"),
        (nn.Bilinear(2, 3, 4), "pass example={'obs': …}, batch axis first"),
    ],
)
def test_an_example_is_proposed_from_the_first_layer(module: nn.Module, hint: str) -> None:
    (finding,) = rw.diagnose(module).findings
    assert (finding.code, finding.severity, finding.hint) == ("RW171", "note", hint)


def test_a_thing_that_is_no_policy_is_an_error_and_not_an_exception() -> None:
    (finding,) = rw.diagnose(lambda obs: obs, example=OBS).errors
    assert finding.what == "expected a torch.nn.Module, got function"
    (finding,) = rw.diagnose(Mlp(), example={"obs": 3}).errors
    assert finding.what == "expected a tensor or an array, got int"


def test_the_second_opinion_drops_nothing_of_the_first(tmp_path: Path) -> None:
    """A line that the trial already names is not named twice."""
    from tests.capture import refused

    for kind in (refused.Branch, refused.ThroughNumpy, refused.HiddenInside):
        with pytest.raises(rw.RoadworthyError) as caught:
            rw.export(kind(), tmp_path / "bundle", example={"obs": torch.zeros(1, 4)})
        assert len(caught.value.findings) == 1


def test_findings_are_about_code_that_may_run() -> None:
    kind = patients.SetUpOtherwise
    torch.manual_seed(0)
    diagnosis = rw.diagnose(kind(), example=OBS)
    # The branch on a value may go the other way on the robot; those on settings may not.
    assert found(diagnosis) == [
        ("error", "RW103", line(kind, "if mean.sum() > 0:")),
        ("error", "RW103", line(kind, "mean = mean * float(mean.max())")),
    ]


def test_without_an_example_all_of_the_code_is_read() -> None:
    codes = [each.code for each in rw.diagnose(patients.SetUpOtherwise()).findings]
    assert codes.count("RW111") == 2
    assert "RW112" in codes
