"""Every mistake is refused with its place and the next step; what is no mistake is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import roadworthy as rw
from roadworthy import export_environment
from roadworthy.compat.exploy import export_environment_as_onnx
from roadworthy.environment import Group, Input, Memory, Output, add_actor_memory
from roadworthy.errors import CertificateFailed, ExportError, RoadworthyError, UsageError
from tests.environment.eager import differing, facts
from tests.environment.mistakes import (
    Branch,
    CountingBranch,
    Everything,
    ForgottenInput,
    ForgottenMemory,
    Harmless,
    NeverReset,
    Noise,
    Phase,
    PointerHistory,
    Sound,
    StepCounter,
    line,
)
from tests.environment.robot import Feedforward, Recurrent, Robot, feedforward

FORGOTTEN = "and is not registered: it would be frozen"
NUMBER = "is a Python number that changes, and the outputs depend on it: it would be frozen"


def refused(env: Robot, folder: Path, export: Callable = export_environment) -> list[rw.Finding]:
    """The findings of a refusal that leaves the environment as it was and no file behind."""
    actor = feedforward(env)
    before = facts(env, actor)
    with pytest.raises(RoadworthyError) as caught:
        export(env, actor, folder / "bundle")
    assert differing(before, facts(env, actor)) == []
    assert list(folder.iterdir()) == []
    return list(caught.value.findings)


def only(findings: list[rw.Finding]) -> rw.Finding:
    (finding,) = [each for each in findings if each.code != "RW340"]
    return finding


def with_component(*components: Input | Output) -> Sound:
    env = Sound()
    env.context_manager().add_components(components)
    return env


def test_the_sound_environment_is_exported(tmp_path: Path) -> None:
    env = Sound()
    assert export_environment(env, feedforward(env), tmp_path / "bundle").folder.is_dir()


def test_a_forgotten_input_is_named_with_the_line_that_reads_it(tmp_path: Path) -> None:
    finding = only(refused(ForgottenInput(), tmp_path))
    assert finding.code == "RW121"
    place = line(Sound, "doubled = source.bar * 2.0")
    assert finding.where == f"env.env.data_source.bar at {place}"
    assert finding.what == f"is read, changes between steps, {FORGOTTEN}"
    assert finding.hint.startswith(
        "env.context_manager().add_component(Input(name='bar', "
        "get_from_env_cb=lambda: env.env.data_source.bar))"
    )


def test_the_previous_action_must_be_memory(tmp_path: Path) -> None:
    finding = only(refused(ForgottenMemory(), tmp_path))
    assert finding.code == "RW121"
    assert finding.where == f"env.env.last at {line(Sound, 'before = self.env.last * 1.0')}"
    assert finding.what == f"is read, is written by the step, {FORGOTTEN}"
    assert finding.hint.startswith(
        "env.context_manager().add_component(Memory(name='last', "
        "get_from_env_cb=lambda: env.env.last))"
    )


def test_the_proposed_lines_make_the_export_pass(tmp_path: Path) -> None:
    env = ForgottenInput()
    hint = only(refused(env, tmp_path)).hint
    exec(hint, {"env": env, "Input": Input, "Memory": Memory})
    export_environment(env, feedforward(env), tmp_path / "bundle")


@pytest.mark.parametrize(
    ("kind", "path", "component"),
    [
        (StepCounter, "env.counter", "Memory"),
        (Phase, "env.phase_s", "Input"),
        (PointerHistory, "env.pointer", "Memory"),
    ],
)
def test_a_python_number_that_matters_is_named(
    kind: type[Robot], path: str, component: str, tmp_path: Path
) -> None:
    finding = only(refused(kind(), tmp_path))
    assert (finding.code, finding.where, finding.what) == ("RW121", path, NUMBER)
    name = path.rpartition(".")[2]
    assert finding.hint == (
        f"env.context_manager().add_component({component}(name={name!r}, "
        f"get_from_env_cb=lambda: {path}))"
    )


@pytest.mark.parametrize("kind", [StepCounter, Phase, PointerHistory])
def test_the_line_for_a_python_number_makes_the_export_pass(
    kind: type[Robot], tmp_path: Path
) -> None:
    env = kind()
    hint = only(refused(env, tmp_path)).hint
    exec(hint, {"env": env, "Input": Input, "Memory": Memory})
    export_environment(env, feedforward(env), tmp_path / "bundle")


def test_a_callback_that_computes_a_number_is_refused(tmp_path: Path) -> None:
    env = StepCounter()
    env.add(Memory("counter", lambda: env.counter + 7))
    finding = only(refused(env, tmp_path))
    assert (finding.code, finding.where) == ("RW120", "counter")
    assert finding.what.startswith("the callback returns the number 7, and no attribute holds ")
    assert finding.hint == "return the attribute itself, without arithmetic"


def test_memory_that_the_environment_does_not_reset_is_named(tmp_path: Path) -> None:
    with pytest.raises(CertificateFailed) as caught:
        export_environment(NeverReset(), feedforward(NeverReset()), tmp_path / "bundle")
    finding = only(list(caught.value.findings))
    assert finding.where == "free run"
    assert finding.what.startswith("memory counter after a reset at step ")
    assert "got 0 " in finding.what


def test_a_branch_on_a_registered_number_is_refused_at_its_line(tmp_path: Path) -> None:
    env = CountingBranch()
    finding = only(refused(env, tmp_path))
    assert finding.code == "RW103"
    assert "if self.counter > 5:" in finding.where


def test_all_hidden_inputs_are_reported_at_once(tmp_path: Path) -> None:
    findings = refused(Everything(), tmp_path)
    assert {finding.code for finding in findings} == {"RW121"}
    paths = [finding.where.partition(" at ")[0] for finding in findings]
    assert sorted(paths) == [
        "env.counter",
        "env.env.data_source.bar",
        "env.env.last",
        "env.phase_s",
    ]


def test_noise_in_the_observations_is_refused_at_its_line(tmp_path: Path) -> None:
    finding = only(refused(Noise(), tmp_path))
    assert finding.code == "RW123"
    assert finding.where == line(Noise, "return clean + 0.1 * torch.randn_like(clean)")
    assert finding.what == "the environment draws random numbers here, and a file must not"
    assert "register that as an Input" in finding.hint


def test_a_branch_on_a_tensor_is_refused_at_its_line(tmp_path: Path) -> None:
    finding = only(refused(Branch(), tmp_path))
    assert finding.code == "RW103"
    assert finding.where == line(Branch, "if self.env.data_source.foo.sum() > 0:")
    assert "branches on the value of a tensor" in finding.what


def test_what_moves_and_does_not_matter_is_no_mistake(tmp_path: Path) -> None:
    env = Harmless()
    export_environment(env, feedforward(env), tmp_path / "bundle")


def test_an_output_that_nothing_writes(tmp_path: Path) -> None:
    still = torch.zeros(1, 3)
    finding = only(refused(with_component(Output("still", lambda: still)), tmp_path))
    assert (finding.code, finding.where) == ("RW122", "still")
    assert finding.what == "no step writes this output"
    assert finding.hint == "return the tensor that apply_actions writes"


def test_two_components_on_one_tensor(tmp_path: Path) -> None:
    env = Sound()
    env.add(Input("twin", lambda: env.env.data_source.foo))
    finding = only(refused(env, tmp_path))
    assert (finding.code, finding.where) == ("RW122", "twin")
    assert finding.what == "is the same tensor as foo"


def test_a_name_that_is_used_twice(tmp_path: Path) -> None:
    env = Sound()
    env.add(Output("foo", lambda: env.env.command))
    finding = only(refused(env, tmp_path))
    assert (finding.code, finding.where) == ("RW122", "foo")
    assert finding.what == "the name is used 2 times"


def test_a_memory_that_is_registered_twice(tmp_path: Path) -> None:
    env = Sound()
    env.add(Memory("last", lambda: env.env.last))
    assert [f.where for f in refused(env, tmp_path)] == ["memory.last.in", "memory.last.out"]


def test_a_group_and_a_tensor_of_one_name(tmp_path: Path) -> None:
    env = Sound()
    extra = torch.zeros(1, 1)
    env.context_manager().add_group(Group("foo", [Input("extra", lambda: extra)]))
    assert "the name is used 2 times" in only(refused(env, tmp_path)).what


@pytest.mark.parametrize("name", ["", " ", "a\nb", "tab\t", " led"])
def test_a_name_that_onnx_cannot_carry(name: str, tmp_path: Path) -> None:
    env = Sound()
    env.add(Output(name, lambda: env.env.command))
    finding = only(refused(env, tmp_path))
    assert (finding.code, finding.where) == ("RW122", repr(name))
    assert finding.what == "not a usable port name"


@pytest.mark.parametrize("kind", [Input, Output])
@pytest.mark.parametrize("name", ["actions", "obs", "ctx.step_count"])
def test_a_name_that_belongs_to_the_policy(name: str, kind: type, tmp_path: Path) -> None:
    env = Sound()
    env.add(kind(name, lambda: env.env.command))
    finding = only(refused(env, tmp_path))
    assert (finding.code, finding.where) == ("RW122", name)
    assert finding.what == "the name is reserved for the policy"


def test_empty_actions_of_the_wrong_shape(tmp_path: Path) -> None:
    class Wide(Sound):
        def empty_actions(self) -> torch.Tensor:
            return torch.zeros(1, 3)

    env = Wide()
    with pytest.raises(ExportError) as caught:
        export_environment(env, feedforward(Sound()), tmp_path / "bundle")
    finding = only(list(caught.value.findings))
    assert (finding.code, finding.where) == ("RW122", "empty_actions")
    assert finding.what == "returns shape (1, 3), the actor's actions have (1, 2)"


def test_metadata_must_be_text(tmp_path: Path) -> None:
    class Talkative(Sound):
        def metadata(self) -> dict:
            return {"good": "yes", "rate": 50}

    finding = only(refused(Talkative(), tmp_path))
    assert (finding.code, finding.where) == ("RW122", "metadata 'rate'")
    assert (finding.what, finding.hint) == ("expected text, got int", "json.dumps(50)")


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_wide_dtypes_cross_a_bundle_and_not_the_contract(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    class Wide(Sound):
        def build(self) -> None:
            super().build()
            self.wide = torch.ones(1, 6, dtype=dtype)
            self.add(Input("wide", lambda: self.wide))

        def compute_observations(self) -> torch.Tensor:
            return super().compute_observations() + self.wide.float()

    finding = only(refused(Wide(), tmp_path, export_environment_as_onnx))
    assert (finding.code, finding.where) == ("RW122", "wide")
    assert finding.what == f"Exploy's controller cannot pass {str(dtype).removeprefix('torch.')}"
    assert finding.hint == "use float32, int32 or bool"
    env = Wide()
    export_environment(env, feedforward(env), tmp_path / "bundle")
    assert rw.load(tmp_path / "bundle").signature.inputs[-1].dtype == finding.what.split()[-1]


@pytest.mark.parametrize("copy", [lambda t: t.clone(), lambda t: t * 1.0], ids=["clone", "times"])
def test_a_callback_that_returns_a_copy(copy: Callable, tmp_path: Path) -> None:
    env = Sound()
    env.context_manager().get_input_components()[0]._get_from_env_cb = lambda: copy(
        env.env.data_source.foo
    )
    finding = next(f for f in refused(env, tmp_path) if f.where == "foo")
    assert finding.code == "RW120"
    assert finding.what.startswith("the callback returns a copy")
    assert "without clone" in finding.hint


def test_a_memory_callback_that_returns_a_copy(tmp_path: Path) -> None:
    env = Sound()
    env.context_manager().get_memory_components()[0]._get_from_env_cb = lambda: env.env.last.clone()
    finding = next(f for f in refused(env, tmp_path) if "last" in f.where)
    assert finding.code == "RW120"


def test_a_callback_that_returns_no_tensor(tmp_path: Path) -> None:
    finding = only(refused(with_component(Input("list", lambda: [0.0])), tmp_path))
    assert (finding.code, finding.where) == ("RW122", "list")
    assert finding.what == "the callback returns a list, expected a tensor"


def test_an_environment_without_inputs(tmp_path: Path) -> None:
    class Nothing(Sound):
        def register(self) -> None:
            """Nothing is registered."""

    finding = only(refused(Nothing(), tmp_path))
    assert (finding.code, finding.what) == ("RW122", "no Input is registered")


def test_all_mistakes_of_a_registration_are_reported_at_once(tmp_path: Path) -> None:
    env = Sound()
    env.add(Output("actions", lambda: env.env.command))
    env.add(Output("", lambda: env.env.command))
    env.add(Input("text", lambda: "text"))
    assert [f.where for f in refused(env, tmp_path)] == ["actions", "''", "text"]


def test_actor_memory_needs_a_first_forward() -> None:
    env = Sound()
    actor = Recurrent(nn.GRU, 6, 2)
    with pytest.raises(UsageError, match="the actor has no state yet") as caught:
        add_actor_memory(env.context_manager(), actor.get_state)
    assert "actor(env.empty_actor_observations())" in caught.value.findings[0].hint
    assert [each.name for each in env.context_manager().get_memory_components()] == ["last"]


def test_a_component_of_another_kind() -> None:
    with pytest.raises(UsageError, match="expected an Input, Output, Memory or Connection"):
        Sound().context_manager().add_component(nn.Linear(1, 1))


def test_an_actor_of_another_width_is_refused_with_both(tmp_path: Path) -> None:
    with pytest.raises(ExportError) as caught:
        export_environment(Sound(), Feedforward(9, 2).eval(), tmp_path / "b")
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == ("RW122", "compute_observations")
    width = Sound().compute_observations().shape[-1]
    assert f"observations of shape (1, {width})" in finding.what
    assert f"its layer net.0 takes 9 numbers, and got {width}" in finding.what
    assert "export the actor that was trained in this environment" in finding.hint


def test_an_actor_that_raises_for_another_cause_is_shown_as_it_is(tmp_path: Path) -> None:
    class Broken(Feedforward):
        def forward(self, obs: torch.Tensor) -> torch.Tensor:
            self.net(obs)
            raise ArithmeticError("as it is")

    width = Sound().compute_observations().shape[-1]
    with pytest.raises(UsageError, match="raised ArithmeticError: as it is"):
        export_environment(Sound(), Broken(width, 2).eval(), tmp_path / "b")
