"""What acts need not be `forward`: a method by its name, or any function of the module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import roadworthy as rw
from tests.capture.class_styles.classes import (
    ACT,
    OBS,
    Flagged,
    RlGamesModel,
    RslActorCritic,
    SkrlModel,
)


def test_a_method_is_exported_by_its_name(tmp_path: Path) -> None:
    model = RslActorCritic()
    bundle = rw.export(
        model, tmp_path / "b", method="act_inference", example={"observations": torch.zeros(1, OBS)}
    )
    assert bundle.manifest["recipe"]["method"] == "act_inference"
    obs = torch.randn(3, OBS)
    got = rw.load(tmp_path / "b").step({"observations": obs.numpy()})["actions"]
    assert torch.allclose(torch.from_numpy(got), model.act_inference(obs), atol=1e-5)
    # The bundle remembers what was called.
    rw.verify(tmp_path / "b", against=model).raise_if_failed()


def test_a_function_of_the_module_is_exported(tmp_path: Path) -> None:
    model = SkrlModel()

    def acting(m: SkrlModel, obs: torch.Tensor) -> torch.Tensor:
        return m.act({"states": obs}, role="policy")[0]

    rw.export(model, tmp_path / "b", method=acting, example={"obs": torch.zeros(2, OBS)})
    with pytest.raises(rw.UsageError, match="exported with a function") as error:
        rw.verify(tmp_path / "b", against=model)
    assert "method=lambda m, obs" in str(error.value)
    rw.verify(tmp_path / "b", against=model, method=acting).raise_if_failed()


def test_constants_reach_every_call(tmp_path: Path) -> None:
    model = Flagged()
    example = {"observation": torch.zeros(1, OBS)}
    bundle = rw.export(
        model, tmp_path / "b", example=example, constants={"deterministic": True, "mask": None}
    )
    assert bundle.manifest["recipe"]["constants"] == {"deterministic": True, "mask": None}
    assert [port.name for port in bundle.signature.inputs] == ["observation"]
    rw.verify(tmp_path / "b", against=model).raise_if_failed()


@pytest.mark.parametrize("value", [True, None, 3, "policy"])
def test_a_plain_value_in_the_example_leads_to_constants(value: object) -> None:
    source = rw.Source(Flagged(), example={"observation": torch.zeros(1, OBS), "mask": value})
    with pytest.raises(rw.UsageError) as error:
        _ = source.tensors
    assert f"constants={{'mask': {value!r}}}" in str(error.value)


def test_an_action_that_may_be_handed_in_is_no_memory(tmp_path: Path) -> None:
    class Agent(RslActorCritic):
        def get_action(self, x: torch.Tensor, action: torch.Tensor | None = None) -> Any:
            logits = self.actor(x)
            action = logits.argmax(-1) if action is None else action
            return action, logits[torch.arange(len(x)), action]

    bundle = rw.export(
        Agent(), tmp_path / "b", method="get_action", example={"x": torch.zeros(1, OBS)},
        outputs=("action", "logit"),
    )  # fmt: skip
    assert bundle.signature.memory == ()


def test_forward_that_raises_names_the_method_that_acts(tmp_path: Path) -> None:
    class Nameless(RslActorCritic):
        def forward(self, observations: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            raise NotImplementedError

    with pytest.raises(rw.ExportError) as error:
        rw.export(Nameless(), tmp_path / "b", example=torch.zeros(1, OBS))
    assert "method='act_inference'" in str(error.value)


def test_flags_inside_of_a_dict_are_said_by_a_function(tmp_path: Path) -> None:
    def acting(m: RlGamesModel, obs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = m({"obs": obs, "is_train": False, "rnn_states": None})["mus"]
        return result

    bundle = rw.export(
        RlGamesModel(), tmp_path / "b", method=acting, example={"obs": torch.zeros(1, OBS)}
    )
    assert bundle.signature.outputs[0].shape == ("batch", ACT)


def test_a_method_that_is_not_there_is_said() -> None:
    with pytest.raises(rw.UsageError, match="no method 'act_inferense'") as error:
        rw.Source(RslActorCritic(), example=torch.zeros(1, OBS), method="act_inferense")
    assert "act_inference" in str(error.value)


def test_a_tensor_is_no_constant() -> None:
    with pytest.raises(rw.UsageError, match="expected a plain value"):
        rw.Source(Flagged(), example=torch.zeros(1, OBS), constants={"mask": torch.ones(ACT)})


def test_diagnose_takes_the_same_words() -> None:
    diagnosis = rw.diagnose(
        RslActorCritic(), method="act_inference", example={"observations": torch.zeros(1, OBS)}
    )
    assert diagnosis.exported, str(diagnosis)
