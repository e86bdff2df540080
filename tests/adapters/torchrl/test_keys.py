"""Keys become ports; what the action does not need is left out; specs say what actions mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import CompositeDistribution, TensorDictModule, TensorDictSequential
from torch import distributions as D
from torch import nn
from torchrl.data import Categorical, Composite
from torchrl.envs import GymEnv, StepCounter, TransformedEnv
from torchrl.modules import (
    MLP,
    Actor,
    ActorValueOperator,
    EGreedyModule,
    ProbabilisticActor,
    QValueActor,
    QValueModule,
)

import roadworthy as rw
from roadworthy import frameworks
from roadworthy.errors import ExportError, UsageError
from roadworthy.frameworks.torchrl.live import describe
from tests.adapters.torchrl.policies import (
    BOX,
    EXAMPLE,
    ONE_HOT,
    POLICIES,
    exported,
    gaussian,
    inputs_for,
    seeded,
    torchrl_action,
)


def agents() -> Any:
    return seeded(
        lambda: TensorDictSequential(
            TensorDictModule(nn.Linear(4, 8), [("agents", "obs")], [("agents", "hidden")]),
            TensorDictModule(nn.Linear(8, 2), [("agents", "hidden")], [("agents", "action")]),
        )
    )


def test_nested_keys_join(tmp_path: Path) -> None:
    made = agents()
    example = TensorDict({"agents": TensorDict({"obs": torch.zeros(2, 5, 4)}, [2, 5])}, [2])
    policy = exported(made, tmp_path / "p", example=example)
    assert str(policy.signature) == (
        "input   agents_obs     float32 (batch, 5, 4)\noutput  agents_action  float32 (batch, 5, 2)"
    )
    given = torch.randn(3, 5, 4)
    with torch.no_grad():
        values = made(TensorDict({"agents": TensorDict({"obs": given}, [3, 5])}, [3]))
    got = policy.step({"agents_obs": given.numpy()})["agents_action"]
    np.testing.assert_allclose(got, values["agents", "action"].numpy(), atol=1e-5)


def test_keys_that_join_to_the_same_name_are_refused(tmp_path: Path) -> None:
    made = TensorDictModule(nn.Bilinear(4, 4, 2), [("a_b", "c"), ("a", "b_c")], ["action"])
    with pytest.raises(UsageError) as caught:
        rw.export(made, tmp_path / "p", example={"a_b_c": torch.zeros(1, 4)})
    assert str(caught.value) == (
        "[RW140] a_b_c: the keys ('a_b', 'c') and ('a', 'b_c') become the same port\n"
        "  → rename one of them in the policy, such as ('a', 'b_c_2')"
    )


def test_missing_example_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        rw.export(POLICIES["Normal"](), tmp_path / "p", example={"obs": torch.zeros(1, 4)})
    assert str(caught.value) == (
        "[RW144] observation: the policy reads 'observation', and nothing says what it looks like\n"
        "  → example={'observation': torch.zeros(1, …)}, or env=your_env"
    )


def test_policy_that_raises_on_the_example_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ExportError) as caught:
        rw.export(POLICIES["Normal"](), tmp_path / "p", example={"observation": torch.zeros(1, 5)})
    found = caught.value.findings[0]
    assert found.code == "RW102"
    assert "the policy raised RuntimeError: mat1 and mat2 shapes cannot be multiplied" in found.what
    assert found.hint == "call the policy on the example; its first axis is the batch, of any size"


def test_outputs_are_chosen_by_key_and_the_policy_keeps_its_own(tmp_path: Path) -> None:
    made = gaussian(D.Normal, return_log_prob=True)
    keys = list(made.out_keys)
    policy = exported(
        made, tmp_path / "p", example=EXAMPLE, outputs=["action", "loc", "action_log_prob"]
    )
    assert [port.name for port in policy.signature.outputs] == ["action", "loc", "action_log_prob"]
    assert list(made.out_keys) == keys
    inputs = inputs_for("Normal", 4)
    for key in ("loc", "action_log_prob"):
        expected = torchrl_action(made, "deterministic", inputs, key)
        np.testing.assert_allclose(policy.step(inputs)[key], expected, atol=1e-5)


def test_unknown_output_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        rw.export(POLICIES["Normal"](), tmp_path / "p", example=EXAMPLE, outputs=["actoin"])
    assert str(caught.value) == "[RW146] outputs: no output 'actoin'\n  → did you mean 'action'?"


def test_policy_without_a_clear_action_is_asked_about(tmp_path: Path) -> None:
    made = TensorDictSequential(
        TensorDictModule(nn.Linear(4, 2), ["observation"], ["torque"]),
        TensorDictModule(nn.Linear(4, 1), ["observation"], ["value"]),
    )
    with pytest.raises(UsageError) as caught:
        rw.export(made, tmp_path / "p", example=EXAMPLE)
    assert str(caught.value) == (
        "[RW146] outputs: which of 'torque', 'value' is the action?\n  → outputs=['value']"
    )


class Critic(nn.Module):
    def forward(self, hidden: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        return hidden.sum(-1, keepdim=True) + state


def test_value_head_and_its_inputs_are_left_out(tmp_path: Path) -> None:
    made = seeded(
        lambda: ActorValueOperator(
            TensorDictModule(nn.Linear(4, 8), ["observation"], ["hidden"]),
            TensorDictModule(nn.Linear(8, 2), ["hidden"], ["action"]),
            TensorDictModule(Critic(), ["hidden", "privileged"], ["state_value"]),
        )
    )
    policy = exported(made, tmp_path / "p", example=EXAMPLE)
    assert [port.name for port in policy.signature.inputs] == ["observation"]
    inputs = inputs_for("", 4)
    with torch.no_grad():
        expected = made[1].module(made[0].module(torch.from_numpy(inputs["observation"])))
    np.testing.assert_allclose(policy.step(inputs)["action"], expected.numpy(), atol=1e-5)


class TwoHeads(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x[..., :2], x[..., 2:].exp(), torch.cat([x, -x], -1)


@pytest.mark.parametrize("way", ["deterministic", "random"])
def test_composite_distribution_gives_every_action(way: str, tmp_path: Path) -> None:
    keys = [("params", "arm", "loc"), ("params", "arm", "scale"), ("params", "gear", "logits")]
    made = ProbabilisticActor(
        TensorDictModule(TwoHeads(), ["observation"], keys),
        in_keys=["params"],
        distribution_class=CompositeDistribution,
        distribution_kwargs={
            "distribution_map": {"arm": D.Normal, "gear": D.Categorical},
            "name_map": {"arm": ("action", "arm"), "gear": ("action", "gear")},
        },
    )
    policy = exported(
        made, tmp_path / "p", example=EXAMPLE, exploration=way,
        outputs=[("action", "arm"), ("action", "gear")],
    )  # fmt: skip
    inputs = inputs_for("", 3)
    got = policy.step(inputs)
    assert {name: value.shape for name, value in got.items()} == {
        "action_arm": (3, 2),
        "action_gear": (3,),
    }
    noise = [(p.name, p.shape, p.about.noise) for p in policy.signature.inputs[1:]]
    if way == "random":
        assert noise == [
            ("noise_0", ("batch", 2), "normal"),
            ("noise_1", ("batch", 1), "uniform"),
        ]
    else:
        assert noise == []
        for name in ("arm", "gear"):
            expected = torchrl_action(made, way, inputs, ("action", name))
            np.testing.assert_allclose(got[f"action_{name}"], expected, atol=1e-5)


def test_environment_gives_example_limits_and_meaning(tmp_path: Path) -> None:
    env = GymEnv("Pendulum-v1")
    made = seeded(Actor, nn.Linear(3, 1), spec=env.action_spec)
    policy = exported(made, tmp_path / "p", env=env)
    manifest = rw.Bundle.open(tmp_path / "p").manifest
    assert manifest["provenance"]["source"].endswith("actors.Actor")
    assert str(policy.signature) == (
        "input   observation  float32 (batch, 3)  [(-1.0, -1.0, -8.0), (1.0, 1.0, 8.0)]\n"
        "output  action       float32 (batch, 1)  [-2.0, 2.0]\n"
        "action  action       continuous in [-2.0, 2.0]"
    )


def test_one_hot_action_says_so_and_becomes_an_index_on_request(tmp_path: Path) -> None:
    made = seeded(QValueActor, nn.Linear(4, 6), spec=ONE_HOT)
    table = ("NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE")
    asked = describe(made, example=EXAMPLE)
    assert asked.about["action"].description == (
        "one-hot over 6 actions; action=rw.Argmax() exports the index"
    )
    policy = exported(made, tmp_path / "p", example=EXAMPLE, action=rw.Argmax(table=table))
    inputs = inputs_for("", 9)
    expected = torchrl_action(made, "deterministic", inputs).argmax(-1)
    np.testing.assert_array_equal(policy.step(inputs)["action"], expected)
    assert policy.signature.action is not None
    assert policy.signature.action.table == table


def test_table_says_what_an_index_means() -> None:
    asked = describe(POLICIES["QValue, index"](), example=EXAMPLE, table=range(6))
    assert asked.meaning is not None
    assert asked.meaning.table == (0, 1, 2, 3, 4, 5)


def test_bundle_is_verified_against_a_source_and_asks_for_it(tmp_path: Path) -> None:
    made = POLICIES["TanhNormal"]()
    folder = tmp_path / "p"
    rw.export(made, folder, example=EXAMPLE, exploration="deterministic")
    with pytest.raises(UsageError) as caught:
        rw.verify(folder, against=made)
    assert str(caught.value) == (
        "[RW147] against: a ProbabilisticActor alone does not say how it was exported "
        f"(exploration, env, outputs, …)\n  → rw.verify({str(folder)!r}, against=policy, "
        "exploration='deterministic', example=example)"
    )
    said = {"exploration": "deterministic", "example": EXAMPLE}
    certificate = rw.verify(folder, against=made, **said).raise_if_failed()
    assert rw.verify(folder, against=describe(made, **said)).passed
    assert [check.name for check in certificate.checks] == [
        "replay",
        "batch",
        "reset",
        "fresh steps",
    ]
    other = gaussian(D.Normal)
    assert not rw.verify(folder, against=describe(other, example=EXAMPLE)).passed


def test_line_that_describes_a_policy_again_has_every_keyword_that_was_given() -> None:
    made = POLICIES["QValue, index"]()
    given = {"outputs": ["action_value"], "about": {}, "batch": 1, "table": (), "transforms": ()}
    asked = describe(made, example=EXAMPLE, **given)
    assert asked.rewritten is not None
    assert asked.rewritten.keywords == (
        "example=example, transforms=transforms, outputs=outputs, about=about, batch=batch"
    )


def test_what_a_user_says_about_a_port_goes_over_what_the_specs_state() -> None:
    said = {"noise": rw.About(description="of the motors")}
    drawn = describe(POLICIES["Normal"](), example=EXAMPLE, exploration="random", about=said)
    assert drawn.about["noise"] == rw.About(description="of the motors", noise="normal")
    said = {
        "observation": rw.About(unit="rad", low=-1.0),
        "action": rw.About(description="torque", high=(9.0, 9.0, 9.0)),
    }
    bounded = seeded(Actor, nn.Linear(3, 3), spec=BOX)
    found = describe(bounded, env=GymEnv("Pendulum-v1"), about=said)
    assert found.about["observation"] == rw.About(unit="rad", low=-1.0, high=(1.0, 1.0, 8.0))
    low, high = (-2.0, -1.0, 0.0), (9.0, 9.0, 9.0)
    assert found.about["action"] == rw.About(description="torque", low=low, high=high)
    assert found.meaning is not None
    assert (found.meaning.low, found.meaning.high) == (low, high)


def test_noise_of_another_kind_than_the_policy_draws_is_refused() -> None:
    made = POLICIES["Normal"]()
    about = {"noise": rw.About(noise="uniform")}
    with pytest.raises(UsageError) as caught:
        describe(made, example=EXAMPLE, exploration="random", about=about)
    assert str(caught.value) == (
        "[RW001] about 'noise': the policy draws normal noise, got About(noise='uniform')\n"
        "  → leave `noise` out: the policy says which it needs"
    )


def test_number_of_agents_may_vary(tmp_path: Path) -> None:
    made = seeded(
        lambda: TensorDictModule(nn.Linear(4, 2), [("agents", "obs")], [("agents", "action")])
    )
    agents = TensorDict({"obs": torch.zeros(1, 3, 4)}, batch_size=[1, 3])
    example = TensorDict({"agents": agents}, batch_size=[1])
    dynamic = {"agents_obs": {1: "agents"}}
    rw.export(describe(made, example=example, dynamic=dynamic), tmp_path / "p")
    policy = rw.load(tmp_path / "p")
    assert [port.shape for port in policy.signature.inputs] == [("batch", "agents", 4)]
    for count in (1, 3, 8):
        inputs = np.ones((2, count, 4), np.float32)
        expected = made.module(torch.from_numpy(inputs))
        got = policy.step({"agents_obs": inputs})["agents_action"]
        np.testing.assert_allclose(got, expected.detach().numpy(), atol=1e-6)


def test_every_agent_tosses_a_coin_of_its_own() -> None:
    keys: list[Any] = [("agents", name) for name in ("action", "action_value", "chosen")]
    values = TensorDictModule(nn.Linear(4, 6), [("agents", "obs")], keys[1:2])
    choice = QValueModule("categorical", action_value_key=keys[1], out_keys=keys)
    index = Composite({"action": Categorical(6, shape=(3,))}, shape=(3,))
    explore = EGreedyModule(Composite({"agents": index}), action_key=keys[0])
    made = TensorDictSequential(values, choice, explore)
    agents = TensorDict({"obs": torch.zeros(1, 3, 4)}, batch_size=[1, 3])
    example = TensorDict({"agents": agents}, batch_size=[1])
    found = describe(made, example=example, exploration="random").example
    assert {name: tuple(value.shape) for name, value in found.items()} == {
        "agents_obs": (1, 3, 4), "noise_0": (1, 3), "noise_1": (1, 3),
    }  # fmt: skip


def test_unknown_keywords_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        rw.export(POLICIES["Normal"](), tmp_path / "p", example=EXAMPLE, explore="mode", rows=2)
    assert str(caught.value) == (
        "[RW001] export(…, explore=…): a torchrl policy takes no 'explore'\n"
        "  → did you mean 'exploration'?\n"
        "[RW001] export(…, rows=…): a torchrl policy takes no 'rows'\n"
        "  → beyond the common keywords it takes exploration, env, transforms, table"
    )
    with pytest.raises(UsageError) as caught:
        rw.export(nn.Linear(4, 2), tmp_path / "p", example=EXAMPLE, exploration="mode")
    assert str(caught.value) == (
        "[RW001] export(…, exploration=…): a plain Linear takes no 'exploration'\n"
        "  → beyond the common keywords it takes method, constants"
    )


def test_network_of_torchrl_without_keys_is_a_plain_module() -> None:
    assert frameworks.adapter_for(MLP(in_features=4, out_features=2)) is None
    found = frameworks.adapter_for(POLICIES["Normal"]())
    assert found is not None
    assert found.name == "torchrl"


def test_transforms_are_left_out_on_request() -> None:
    env = TransformedEnv(GymEnv("Pendulum-v1"), StepCounter())
    made = seeded(Actor, nn.Linear(3, 1), spec=env.action_spec)
    assert list(rw.to_source(made, env=env, transforms=()).example) == ["observation"]
