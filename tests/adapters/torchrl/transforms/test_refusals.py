"""What cannot be exact is refused by name, with what to do; everything wrong is said at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torchrl.data import Unbounded
from torchrl.envs import GymEnv, SerialEnv, TransformedEnv
from torchrl.envs.transforms import (
    ActionDiscretizer,
    ActionScaling,
    CatFrames,
    CatTensors,
    ClipTransform,
    Compose,
    DiscreteActionProjection,
    DoubleToFloat,
    ExcludeTransform,
    FlattenAction,
    FrameSkipTransform,
    NoopResetEnv,
    ObservationNorm,
    RenameTransform,
    Resize,
    RewardScaling,
    RewardSum,
    SelectTransform,
    StepCounter,
    TargetReturn,
    TensorDictPrimer,
    UnsqueezeTransform,
    VecNorm,
    VecNormV2,
    _observation,
)

from roadworthy.errors import ExportError, UsageError
from roadworthy.frameworks.torchrl.transforms import stages
from tests.adapters.torchrl.transforms.following import pendulum

OBS = {"in_keys": ["observation"]}
HIDDEN = {"hidden": Unbounded(shape=(4,))}


def cart_pole() -> GymEnv:
    return GymEnv("CartPole-v1")


def refused(transforms: Any, *keys: str, action_key: str = "action") -> list[str]:
    with pytest.raises(ExportError) as caught:
        stages(transforms, in_keys=keys or ("observation",), action_key=action_key)
    assert all(finding.hint for finding in caught.value.findings)
    return [str(finding).splitlines()[0] for finding in caught.value.findings]


ALONE: dict[str, tuple[Callable[[], Any], str]] = {
    "statistics": (
        lambda: ObservationNorm(**OBS),
        "[RW151] transforms[0] ObservationNorm: ObservationNorm has no statistics yet",
    ),
    "bounds": (
        ActionScaling,
        "[RW151] transforms[0] ActionScaling: ActionScaling takes its bounds from an environment, "
        "and there is none",
    ),
    "intervals": (
        lambda: ActionDiscretizer(5),
        "[RW151] transforms[0] ActionDiscretizer: ActionDiscretizer takes its intervals from an "
        "environment, and there is none",
    ),
    "a shape": (
        FlattenAction,
        "[RW151] transforms[0] FlattenAction: FlattenAction takes its shape from an environment, "
        "and there is none",
    ),
    "keys to join": (
        lambda: CatTensors(out_key="observation"),
        "[RW151] transforms[0] CatTensors: CatTensors finds its in_keys in an environment, and "
        "there is none",
    ),
    "frames": (
        lambda: CatFrames(2, -1, **OBS),
        "[RW151] transforms[0] CatFrames: CatFrames remembers 'observation', whose shape is not "
        "known",
    ),
    "statistics in the data": (
        lambda: VecNormV2(["observation"], stateful=False),
        "[RW150] transforms[0] VecNormV2: VecNormV2 keeps its statistics in the data and moves "
        "them at every step",
    ),
    "random actions": (
        lambda: ActionDiscretizer(5, sampling=ActionDiscretizer.SamplingStrategy.RANDOM),
        "[RW150] transforms[0] ActionDiscretizer: ActionDiscretizer draws each action at random "
        "from its interval",
    ),
    "random projection": (
        lambda: DiscreteActionProjection(2, 4),
        "[RW150] transforms[0] DiscreteActionProjection: DiscreteActionProjection replaces the "
        "actions 2 to 3 at random",
    ),
    "the future": (
        lambda: CatFrames(2, -1, **OBS, future=True),
        "[RW150] transforms[0] CatFrames: CatFrames has future, which works on samples of a "
        "replay buffer",
    ),
    "a positive dim": (
        lambda: UnsqueezeTransform(0, **OBS, allow_positive_dim=True),
        "[RW150] transforms[0] UnsqueezeTransform: UnsqueezeTransform counts its dim 0 from the "
        "front, and no environment says where a row starts",
    ),
    "inverse exclusion": (
        lambda: ExcludeTransform("x", inverse=True),
        "[RW150] transforms[0] ExcludeTransform: ExcludeTransform has inverse=True, which gives "
        "the environment's reset back unread",
    ),
    "a filter for files": (
        lambda: Resize(4, interpolation="lanczos", **OBS),
        "[RW150] transforms[0] Resize: Resize has interpolation='lanczos', which works on files, "
        "not on tensors",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ALONE)
def test_a_transform_alone_says_what_it_lacks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_observation, "_has_tv", True)
    make, message = ALONE[name]
    assert refused([make()]) == [message]


def test_casts_without_keys_and_without_an_environment_name_both_lists() -> None:
    assert refused(DoubleToFloat()) == [
        "[RW151] transforms[0] DoubleToFloat: DoubleToFloat has no in_keys, and without an "
        "environment nothing says which keys it casts",
        "[RW151] transforms[0] DoubleToFloat: DoubleToFloat has no in_keys_inv, and without an "
        "environment nothing says which keys it casts",
    ]


@pytest.mark.filterwarnings("ignore:This class is to be deprecated:FutureWarning")
@pytest.mark.parametrize(
    "make", [lambda: VecNorm(["observation"], new_api=False), lambda: VecNormV2(["observation"])]
)
def test_a_norm_that_has_seen_nothing_has_no_statistics(make: Callable[[], Any]) -> None:
    env = TransformedEnv(pendulum(), make())
    name = type(env.transform).__name__
    assert refused(env) == [
        f"[RW151] transforms[0] {name}: {name} has seen no 'observation' yet, so its statistics "
        "are not known"
    ]


@pytest.mark.filterwarnings("ignore:Support of VecNormV2:UserWarning")
def test_statistics_of_each_environment_of_a_batch_are_refused() -> None:
    env = TransformedEnv(SerialEnv(2, pendulum), VecNormV2(["observation"]))
    env.rollout(3)
    assert refused(env) == [
        "[RW150] transforms[0] VecNormV2: VecNormV2 holds other values for each of 2 environments"
    ]
    env.close()


READ: dict[str, tuple[Callable[[], Any], str, str]] = {
    "a sum of rewards": (
        RewardSum, "episode_reward",
        "[RW152] transforms[0] RewardSum: the policy reads 'episode_reward', which RewardSum "
        "writes in training only",
    ),
    "a reward under another name": (
        lambda: ClipTransform(["reward"], ["clipped"], low=0.0), "clipped",
        "[RW152] transforms[0] ClipTransform: ClipTransform makes 'clipped' from the reward "
        "'reward', which a deployed policy does not get",
    ),
    # TorchRL does not even apply it to the first observation of an episode.
    "a reward's scale on an observation": (
        lambda: RewardScaling(0.0, 2.0, **OBS), "observation",
        "[RW152] transforms[0] RewardScaling: the policy reads 'observation', which RewardScaling "
        "writes in training only",
    ),
    "what is excluded": (
        lambda: ExcludeTransform("observation"), "observation",
        "[RW152] transforms[0] ExcludeTransform: 'observation' is needed, and ExcludeTransform "
        "removes it",
    ),
    "what is not selected": (
        lambda: SelectTransform("pixels"), "observation",
        "[RW152] transforms[0] SelectTransform: 'observation' is needed, and SelectTransform "
        "removes it",
    ),
    "what was joined": (
        lambda: CatTensors(["observation"], "joined"), "observation",
        "[RW152] transforms[0] CatTensors: 'observation' is needed, and CatTensors removes it",
    ),
    "what was renamed": (
        lambda: RenameTransform(["observation"], ["new"]), "observation",
        "[RW152] transforms[0] RenameTransform: 'observation' is needed, and RenameTransform "
        "removes it",
    ),
    "what is left of a return": (
        lambda: TargetReturn(10.0), "target_return",
        "[RW150] transforms[0] TargetReturn: TargetReturn subtracts each reward from the target, "
        "and a deployed policy has no reward",
    ),
    "a random start": (
        lambda: TensorDictPrimer(HIDDEN, random=True), "hidden",
        "[RW150] transforms[0] TensorDictPrimer: TensorDictPrimer starts 'hidden' at random",
    ),
    "a start from a function": (
        lambda: TensorDictPrimer(HIDDEN, default_value=lambda: torch.zeros(4)), "hidden",
        "[RW150] transforms[0] TensorDictPrimer: TensorDictPrimer starts 'hidden' at what a "
        "function returns",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_a_policy_that_reads_what_will_not_be_there_is_refused(name: str) -> None:
    make, key, message = READ[name]
    assert refused(TransformedEnv(pendulum(), make()), key) == [message]


@pytest.mark.parametrize("name", [name for name in READ if "observation" not in READ[name][1]])
def test_the_same_is_left_out_where_the_policy_does_not_read_it(name: str) -> None:
    env = TransformedEnv(pendulum(), READ[name][0]())
    made = stages(env, in_keys=["observation"], action_key="action")
    assert (made.observation, made.primed) == ((), {})
    assert [each.name for each in made.left_out] == [type(env.transform).__name__]


def test_an_action_that_never_arrives_is_refused() -> None:
    env = TransformedEnv(pendulum(), ActionScaling())
    assert refused(env, action_key="torque") == [
        "[RW152] action_key: the action 'torque' of the policy does not become 'action', which "
        "the environment takes"
    ]


def actions_sent(chain: Compose) -> list[float]:
    """What reaches the bare environment in one step with the action 0.5."""
    env = TransformedEnv(pendulum(), chain)
    sent, step = [], env.base_env._step
    env.base_env._step = lambda td: (sent.append(td["action"].item()), step(td))[1]
    env.step(env.reset().set("action", torch.tensor([0.5])))
    return sent


def test_frame_skip_behind_an_action_transform_is_refused_because_torchrl_scales_twice() -> None:
    def behind() -> Compose:
        return Compose(ActionScaling(), FrameSkipTransform(2))

    def in_front() -> Compose:
        return Compose(FrameSkipTransform(2), ActionScaling())

    assert actions_sent(behind()) == [1.0, 2.0]
    assert actions_sent(in_front()) == [1.0, 1.0]
    assert refused(TransformedEnv(pendulum(), behind())) == [
        "[RW153] transforms[1] FrameSkipTransform: FrameSkipTransform stands behind ActionScaling, "
        "so TorchRL runs ActionScaling once more for every step that it adds"
    ]
    env = TransformedEnv(pendulum(), in_front())
    assert stages(env, in_keys=["observation"], action_key="action").action


@pytest.mark.parametrize("last", [FrameSkipTransform(2), NoopResetEnv(3)], ids=["skip", "noop"])
def test_steps_added_behind_memory_are_refused(last: Any) -> None:
    env = TransformedEnv(pendulum(), Compose(CatFrames(2, -1, **OBS), last.clone()))
    name = type(last).__name__
    assert refused(env) == [
        f"[RW153] transforms[1] {name}: {name} stands behind CatFrames, so TorchRL runs CatFrames "
        "once more for every step that it adds"
    ]


def test_steps_added_behind_what_is_the_same_twice_are_not_refused() -> None:
    env = TransformedEnv(
        pendulum(),
        Compose(
            ClipTransform(in_keys_inv=["action"], low=-1.0, high=1.0),
            DoubleToFloat(),
            FrameSkipTransform(4),
            ActionScaling(),
            FrameSkipTransform(1),
        ),
    )
    made = stages(env, in_keys=["observation"], action_key="action")
    assert [stage.name for stage in made.action] == ["ActionScaling", "ClipTransform"]


def test_transforms_inside_the_workers_of_a_batch_are_not_overlooked() -> None:
    inner = SerialEnv(2, lambda: TransformedEnv(pendulum(), StepCounter()))
    assert refused(TransformedEnv(inner, ActionScaling())) == [
        "[RW154] SerialEnv: the environments inside SerialEnv have transforms of their own, which "
        "cannot be seen from outside"
    ]


def test_all_that_is_wrong_is_said_at_once() -> None:
    env = TransformedEnv(
        pendulum(),
        Compose(
            ObservationNorm(**OBS, out_keys=["norm"]),
            CatFrames(2, -1, in_keys=["observation"], out_keys=["frames"]),
            ActionScaling(),
            FrameSkipTransform(2),
            RewardSum(in_keys=["reward"], out_keys=["episode_reward"]),
            TargetReturn(1.0, in_keys=["reward"], out_keys=["target_return"]),
        ),
    )
    found = refused(env, "norm", "frames", "episode_reward", "target_return")
    assert [line[1:6] for line in found] == ["RW150", "RW152", "RW151", "RW153"]


def test_what_torchrl_cannot_say_is_refused_too() -> None:
    # Its shape is that of an observation which the environment does not have.
    env = TransformedEnv(pendulum(), Compose(RewardSum(in_keys=["missing"], out_keys=["x"])))
    env.append_transform(CatFrames(2, -1, **OBS))
    (found,) = refused(env)
    assert found.startswith("[RW150] transforms[1] CatFrames: CatFrames cannot be read: ValueError")


def test_what_is_no_transform_is_a_wrong_call() -> None:
    with pytest.raises(UsageError, match="expected transforms, got str"):
        stages("observation", in_keys=["observation"], action_key="action")
