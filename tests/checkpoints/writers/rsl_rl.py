"""Checkpoints by the runners of rsl_rl, in every layout from version 2 on."""

from __future__ import annotations

import contextlib
import copy
import importlib.metadata
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.checkpoints.recording import Written

OBS, ACTIONS = 10, 3
POLICY = {"policy": (OBS,)}
GROUPS = {"policy": (8,), "command": (2,)}
CAMERA = {"policy": (6,), "depth": (1, 12, 12)}
CNN = {"output_channels": [4, 6], "kernel_size": [3, 3], "stride": [2, 1], "padding": "zeros",
       "activation": "elu", "max_pool": [False, True]}  # fmt: skip
PLAIN = {"clip_actions": "none", "action_scale": "none"}


def cases(version: str) -> Iterator[Written]:
    """Checkpoints of the installed version, which must be this one."""
    generation = int(version.partition(".")[0])
    yield from {2: second, 3: third, 4: fourth}.get(generation, fifth)(version)


def second(version: str) -> Iterator[Written]:
    yield one_module(f"mlp-elu-{version}", activation="elu")
    yield one_module(f"mlp-normalised-{version}", normalised=True, activation="relu")
    yield one_module(f"lstm-{version}", kind="ActorCriticRecurrent", activation="tanh",
                     rnn_type="lstm", normalised=True)  # fmt: skip
    if version >= "2.2":
        yield one_module(f"gru-{version}", kind="ActorCriticRecurrent", activation="crelu",
                         rnn_type="gru", rnn_num_layers=2, noise_std_type="log")  # fmt: skip
    if version >= "2.3":
        yield one_module(f"student-{version}", kind="StudentTeacher", normalised=True,
                         activation="selu")  # fmt: skip


def third(version: str) -> Iterator[Written]:
    own = {"actor_obs_normalization": True, "critic_obs_normalization": True}
    yield one_module(f"mlp-{version}", activation="elu", **own)
    yield one_module(f"groups-{version}", shapes=GROUPS, activation="mish", **own)
    yield one_module(f"lstm-{version}", kind="ActorCriticRecurrent", rnn_type="lstm",
                     activation="elu", **own)  # fmt: skip
    yield one_module(f"student-{version}", kind="StudentTeacher", activation="elu",
                     student_obs_normalization=True)  # fmt: skip
    if version >= "3.1":
        yield one_module(f"state-dependent-{version}", activation="gelu",
                         state_dependent_std=True, **own)  # fmt: skip
    if version >= "3.2":
        yield one_module(f"cnn-{version}", kind="ActorCriticCNN", shapes=CAMERA, activation="elu",
                         actor_cnn_cfg=CNN, critic_cnn_cfg=CNN, **own)  # fmt: skip


def fourth(version: str) -> Iterator[Written]:
    yield models(f"mlp-{version}", activation="swish", stochastic=True)
    yield models(f"gru-{version}", class_name="RNNModel", rnn_type="gru", rnn_hidden_dim=8,
                 activation="elu", stochastic=True, noise_std_type="log")  # fmt: skip
    yield models(f"state-dependent-{version}", activation="elu", stochastic=True,
                 state_dependent_std=True, asked={"distribution": "heteroscedastic"})  # fmt: skip
    yield models(f"cnn-{version}", class_name="CNNModel", shapes=CAMERA, activation="elu",
                 cnn_cfg=CNN, stochastic=True)  # fmt: skip
    yield models(f"student-{version}", student=True, activation="lrelu", stochastic=True)


def fifth(version: str) -> Iterator[Written]:
    gaussian = {"class_name": "GaussianDistribution", "init_std": 1.0}
    yield models(f"mlp-{version}", activation="elu", distribution_cfg=gaussian)
    yield models(f"log-std-{version}", activation="softplus", hidden_dims=[8],
                 distribution_cfg={**gaussian, "std_type": "log"})  # fmt: skip
    yield models(f"groups-{version}", shapes=GROUPS, activation="elu", distribution_cfg=gaussian)
    yield models(f"lstm-{version}", class_name="RNNModel", rnn_hidden_dim=8, activation="elu",
                 distribution_cfg=gaussian)  # fmt: skip
    yield models(f"gru-{version}", class_name="RNNModel", rnn_type="gru", rnn_num_layers=2,
                 rnn_hidden_dim=8, activation="tanh", distribution_cfg=gaussian)  # fmt: skip
    yield models(f"cnn-{version}", class_name="CNNModel", shapes=CAMERA, activation="elu",
                 cnn_cfg=CNN, distribution_cfg=gaussian)  # fmt: skip
    yield models(
        f"state-dependent-{version}", activation="sigmoid", actions=4,
        distribution_cfg={"class_name": "HeteroscedasticGaussianDistribution"},
        asked={"distribution": "heteroscedastic"},
    )  # fmt: skip
    if version >= "5.3":
        yield models(
            f"beta-{version}", activation="elu",
            distribution_cfg={"class_name": "BetaDistribution", "action_range": (-0.5, 1.5)},
            asked={"distribution": "beta", "action_range": "-0.5,1.5"},
        )  # fmt: skip
    yield models(f"student-{version}", student=True, activation="elu", distribution_cfg=gaussian)


class Room:
    """As much of an environment as a runner asks for."""

    num_envs, max_episode_length, cfg, device = 2, 10, None, "cpu"
    num_privileged_obs, num_rewards = None, 1
    episode_length_buf = torch.zeros(2, dtype=torch.long)

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], actions: int, grouped: bool) -> None:
        self.shapes, self.num_actions, self.grouped = shapes, actions, grouped
        self.num_obs = OBS

    def get_observations(self) -> Any:
        if not self.grouped:
            obs = torch.zeros(2, OBS)
            return obs, {"observations": {"critic": obs, "teacher": torch.zeros(2, 7)}}
        from tensordict import TensorDict

        drawn = {name: torch.randn(2, *shape) for name, shape in self.shapes.items()}
        return TensorDict({**drawn, "teacher": torch.zeros(2, 7)}, [2])


def one_module(
    name: str,
    *,
    kind: str = "ActorCritic",
    normalised: bool = False,
    shapes: Mapping[str, tuple[int, ...]] = POLICY,
    activation: str,
    **policy: Any,
) -> Written:
    """Versions 2 and 3: one module for actor and critic, or for student and teacher."""
    version = importlib.metadata.version("rsl-rl-lib")
    grouped, student = version >= "3", kind.startswith("Student")
    part = "student" if student else "actor"
    sizes = {f"{part}_hidden_dims": [16, 12]}
    sizes |= {"teacher_hidden_dims": [8]} if student else {"critic_hidden_dims": [8]}
    if "Recurrent" in kind:
        sizes |= {"rnn_hidden_dim" if version >= "2.3" else "rnn_hidden_size": 8}
    names = list(shapes)
    settings: dict[str, Any] = {
        "num_steps_per_env": 4, "save_interval": 1, "empirical_normalization": normalised,
        "policy": {"class_name": kind, "activation": activation, **sizes, **policy},
        "algorithm": {"class_name": "Distillation" if student else "PPO"},
        "obs_groups": {"policy": names, "critic": ["policy"], "teacher": ["teacher"]},
    }  # fmt: skip
    if version >= "3":
        settings["algorithm"] |= {} if student else {"rnd_cfg": None, "symmetry_cfg": None}
        settings["obs_groups"]["critic"] = names if "CNN" in kind else ["policy"]
    runner = made(settings, Room(shapes, ACTIONS, grouped), student and grouped)
    runner.logger_type, runner.disable_logs = "tensorboard", True
    module = runner.alg.policy if hasattr(runner.alg, "policy") else runner.alg.actor_critic
    stir(module)
    if normalised:
        trained(runner.obs_normalizer, OBS)
    with contextlib.suppress(AttributeError):
        trained(
            getattr(module, f"{part}_obs_normalizer"),
            sum(s[0] for s in shapes.values() if len(s) == 1),
        )
    answer = runner.get_inference_policy()
    value = None
    if not student and len(shapes) == 1:
        value = valuing(runner, module, grouped, normalised)
    told = {"activation": activation, **PLAIN, **({"critic_obs": "same"} if value else {})}
    if grouped and (policy.get(f"{part}_obs_normalization") or "CNN" in kind):
        told["obs_groups"] = ",".join(f"{n}:{s[0]}" for n, s in shapes.items() if len(s) == 1)
    if "CNN" in kind:
        told |= image_words()
    ports = shapes if "obs_groups" in told else {"obs": (OBS,)}
    return Written(
        name=name,
        save=saving(runner),
        act=acting(answer, grouped, "policy" if len(shapes) == 1 else None, value),
        shapes=ports,
        assume=told,
        recurrent="Recurrent" in kind,
        value=None if value is None else value.answered,
    )


def models(
    name: str,
    *,
    shapes: Mapping[str, tuple[int, ...]] = POLICY,
    student: bool = False,
    actions: int = ACTIONS,
    asked: Mapping[str, object] | None = None,
    **model: Any,
) -> Written:
    """Versions 4 and 5: a model each."""
    part, other = ("student", "teacher") if student else ("actor", "critic")
    told: dict[str, Any] = {"activation": model["activation"], **PLAIN, **(asked or {})}
    told["obs_groups"] = ",".join(f"{n}:{s[0]}" for n, s in shapes.items() if len(s) == 1)
    if "cnn_cfg" in model:
        told |= image_words()
    own = {"class_name": "MLPModel", "hidden_dims": [16, 12], "obs_normalization": True,
           **copy.deepcopy(model)}  # fmt: skip
    # One critic sees what the policy sees, and remembers as it does; the others see more.
    shared = "rnn" in name or "lstm" in name or "gru" in name
    judging = {"class_name": "MLPModel", "hidden_dims": [8], "activation": model["activation"],
               "obs_normalization": not student}  # fmt: skip
    if shared:
        told["critic_obs"] = "same"
        judging |= {n: v for n, v in own.items() if n.startswith(("rnn_", "class_name"))}
    settings = {
        "num_steps_per_env": 4, "save_interval": 1, "multi_gpu": None,
        "obs_groups": {part: list(shapes), other: list(shapes) if shared else ["teacher"]},
        part: own, other: judging,
        "algorithm": {"class_name": "Distillation" if student else "PPO", "rnd_cfg": None,
                      "symmetry_cfg": None},
    }  # fmt: skip
    if student:
        for key in ("rnd_cfg", "symmetry_cfg"):
            settings["algorithm"].pop(key)  # type: ignore[attr-defined]
    kind = own["class_name"]  # which the runner takes out
    runner = made(settings, Room(shapes, actions, True), student)
    policy = runner.alg.get_policy() if hasattr(runner.alg, "get_policy") else runner.alg.actor
    stir(policy)
    trained(policy.obs_normalizer, sum(s[0] for s in shapes.values() if len(s) == 1))
    answer = runner.get_inference_policy()
    value = None
    if not student:
        stir(runner.alg.critic)
        trained(runner.alg.critic.obs_normalizer, OBS if shared else 7)
        value = Valuing(lambda ports: runner.alg.critic(ports))
    return Written(
        name=name,
        save=saving(runner),
        act=acting(answer, True, None, value),
        shapes={**shapes, **({} if shared or student else {"critic_obs": (7,)})},
        assume=told,
        recurrent="RNN" in kind,
        value=None if value is None else value.answered,
    )


class Valuing:
    """The critic, asked about every batch that the policy is asked about."""

    def __init__(self, ask: Any) -> None:
        self.ask, self.value = ask, torch.zeros(0)

    def answered(self) -> Any:
        return self.value.numpy()


def valuing(runner: Any, module: Any, grouped: bool, normalised: bool) -> Valuing:
    """Versions 2 and 3: the module's `evaluate`, behind the critic's own statistics."""
    if grouped:
        with contextlib.suppress(AttributeError):
            trained(module.critic_obs_normalizer, OBS)
        return Valuing(module.evaluate)
    names = ("critic_obs_normalizer", "privileged_obs_normalizer")
    statistics = next(getattr(runner, name) for name in names if hasattr(runner, name))
    if normalised:
        trained(statistics, OBS)
    return Valuing(lambda obs: module.evaluate(statistics(obs)))


def made(settings: dict[str, Any], env: Room, student: bool) -> Any:
    from rsl_rl import runners

    kind = "DistillationRunner" if student else "OnPolicyRunner"
    with contextlib.redirect_stdout(io.StringIO()):
        return getattr(runners, kind)(env, settings, device="cpu")


def stir(module: nn.Module) -> None:
    """Weights that are nowhere zero: fresh ones hide what is missing."""
    with torch.no_grad():
        for value in module.parameters():
            value.add_(0.1 * torch.randn_like(value))


def trained(normalizer: Any, size: int) -> None:
    normalizer.train()
    for _ in range(3):
        normalizer.update(1.5 * torch.randn(64, size) + 0.3)
    normalizer.eval()


def image_words() -> dict[str, str]:
    words = {name: ",".join(map(str, v)) if isinstance(v, list) else v for name, v in CNN.items()}
    return {"depth_size": "12x12", "depth_cnn": " ".join(f"{n}={v}" for n, v in words.items())}


def saving(runner: Any) -> Any:
    def save(folder: Path) -> str:
        if hasattr(runner, "logger"):
            runner.logger.writer = None  # which only learning makes
        runner.save(str(folder / "model_0.pt"))
        return "model_0.pt"

    return save


def acting(answer: Any, grouped: bool, alone: str | None, value: Valuing | None) -> Any:
    def act(ports: dict[str, Any]) -> Any:
        own = {"critic_obs": "teacher"}
        tensors = {alone or own.get(n, n): torch.from_numpy(each) for n, each in ports.items()}
        with torch.inference_mode():
            given: Any = next(iter(tensors.values()))
            if grouped:
                from tensordict import TensorDict

                given = TensorDict(tensors, [given.shape[0]])
            if value is not None:
                value.value = value.ask(given).clone()
            return answer(given).numpy()

    return act
