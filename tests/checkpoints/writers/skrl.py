"""Checkpoints by agents of skrl 1 and 2, with models of its instantiators and of users."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch import nn

from tests.checkpoints.recording import Written

OBSERVED = Box(-np.inf, np.inf, (10,), np.float32)
CAMERA = Box(-1.0, 1.0, (18, 14, 3), np.float32)
PIXELS = Box(0, 255, (18, 14, 3), np.uint8)
MOVES = Box(-1.0, 1.0, (3,), np.float32)
PLAIN = {"output": "plain"}
# Behind every schedule of exploration.
LATE = {"timestep": 10**9, "timesteps": 10**9}


def cases(version: str) -> Iterator[Written]:
    """Checkpoints of the installed version, which must be this one."""
    second, oldest = version >= "2", version.startswith("1.0")
    yield agent(version, "ppo-elu", "gaussian", activation="elu", scaled=True, assume=PLAIN)
    yield agent(version, "ppo-categorical", "categorical", space=Discrete(4), activation="relu",
                assume={"output": "argmax"})  # fmt: skip
    yield agent(version, "ppo-shared", "shared", activation="tanh", scaled=True, assume=PLAIN)
    if not oldest:
        yield agent(version, "ppo-tanh", "gaussian", activation="selu", output="tanh(ACTIONS)",
                    assume={"output": "tanh"})  # fmt: skip
        yield agent(
            version, "ppo-multicategorical", "multicategorical", space=MultiDiscrete([3, 4]),
            activation="elu", scaled=True, assume={"output": "multi_discrete", "sizes": "3,4"},
        )  # fmt: skip
        yield agent(version, "ppo-expression", "gaussian", activation="elu", scaled=True,
                    output="2 * tanh(ACTIONS)",
                    assume={"output": "2 * tanh(ACTIONS)"})  # fmt: skip
        yield agent(version, "ppo-softsign", "gaussian", activation="relu",
                    output="0.5 * softsign(ACTIONS) - 1",
                    assume={"output": "0.5 * softsign(ACTIONS) - 1"})  # fmt: skip
        seen = {"strides": "2,1", "padding": "0,1", "divisor": "255"}
        for name, by, space in (("ppo-cnn", "", CAMERA), ("ppo-cnn-bytes", " / 255.0", PIXELS)):
            yield agent(
                version, name, "gaussian", activation="relu", scaled=not by, observed=space,
                before=f"permute({{seen}}, (0, 3, 1, 2)){by}",
                assume={**PLAIN, **seen, "divisor": "255" if by else "1", "image": "18,14,3"},
            )  # fmt: skip
        yield agent(
            version, "ppo-cnn-categorical", "categorical", space=Discrete(4), activation="elu",
            observed=Box(-1.0, 1.0, (3, 18, 14), np.float32),
            assume={"output": "argmax", **seen, "divisor": "1", "image": "3,18,14"},
        )  # fmt: skip
    if second:
        clipped = {"output": "clip_to_bounds", "action_low": -1, "action_high": 1}
        yield agent(version, "ppo-clipped", "gaussian", activation="elu", clip_mean_actions=True,
                    assume=clipped)  # fmt: skip
        yield agent(version, "td3", "deterministic", kind="TD3", activation="relu", assume=PLAIN)
        yield agent(version, "ppo-lstm", "lstm", activation="elu", scaled=True, assume=PLAIN)
        yield agent(version, "ppo-gru", "gru", activation="relu", assume=PLAIN)


def agent(
    version: str,
    name: str,
    model: str,
    *,
    kind: str = "PPO",
    space: Any = MOVES,
    activation: str,
    scaled: bool = False,
    output: str = "ACTIONS",
    observed: Any = OBSERVED,
    before: str = "{seen}",
    assume: dict[str, object],
    **settings: Any,
) -> Written:
    second = version >= "2"
    spaces = {"observation_space": observed, "action_space": space, "device": "cpu"}
    if model in ("lstm", "gru"):
        policy = recurrent(model, activation, spaces)
    else:
        policy = instantiated(version, model, activation, output, spaces, settings, before)
    critic = None
    if kind == "PPO" and model not in ("lstm", "gru"):
        plain = {**spaces, "action_space": MOVES}
        one = (version, "deterministic", activation, "ONE", plain, {}, before)
        critic = policy if model == "shared" else instantiated(*one)
    # Their layers find their sizes when they first run.
    for role, each in (("policy", policy), ("value", critic)):
        if model not in ("lstm", "gru") and each is not None:
            with contextlib.suppress(AttributeError):
                each.init_state_dict(role=role)
    with torch.no_grad():
        for each in {policy, critic} - {None}:
            for value in each.parameters():
                value.add_(0.1 * torch.randn_like(value))
    made = holding(version, kind, policy, critic, spaces, scaled)
    scaler = made.checkpoint_modules.get(_preprocessor(version))
    if scaler is not None:
        width = int(np.prod(observed.shape))
        scaler(1.5 * torch.randn(256, width) + 0.3, train=True)
        if critic is not None:
            made.checkpoint_modules["value_preprocessor"](3 * torch.randn(256, 1) + 1, train=True)
    acting = Acting(made, scaler, second, space, model if model in ("lstm", "gru") else "")
    return Written(
        name=f"{name}-{version}",
        save=saving(made),
        act=acting,
        shapes={"obs": observed.shape},
        pixels=("obs",) if observed.dtype == np.uint8 else (),
        value=None if critic is None else acting.value,
        assume={"activation": activation, **assume},
        recurrent=model in ("lstm", "gru"),
    )


def instantiated(
    version: str, model: str, activation: str, output: str, spaces: Any, settings: Any, before: str
) -> Any:
    from skrl.utils.model_instantiators import torch as makers

    if version.startswith("1.0"):
        return first_ever(makers, model, activation, spaces, output)
    seen = "OBSERVATIONS" if version >= "2" else "STATES"
    layers: list[Any] = [16, 12]
    if len(spaces["observation_space"].shape) == 3:
        kind = {"out_channels": 8, "kernel_size": 3, "stride": 1, "padding": 1}
        layers = [{"conv2d": [6, 4, 2]}, {"conv2d": kind}, "flatten", 12]
    network = [{"name": "net", "input": before.format(seen=seen), "layers": layers,
                "activations": activation}]  # fmt: skip
    if model == "shared":
        acting = {"network": network, "output": "ACTIONS", "clip_actions": False,
                  "clip_log_std": True, "min_log_std": -20, "max_log_std": 2,
                  "initial_log_std": 0, "reduction": "sum"}  # fmt: skip
        valuing = {"network": network, "output": "ONE", "clip_actions": False}
        return makers.shared_model(
            **spaces, structure=["GaussianMixin", "DeterministicMixin"],
            roles=["policy", "value"], parameters=[acting, valuing],
        )  # fmt: skip
    return getattr(makers, f"{model}_model")(**spaces, network=network, output=output, **settings)


def first_ever(makers: Any, model: str, activation: str, spaces: Any, output: str) -> Any:
    own = {"hiddens": [16, 12], "hidden_activation": [activation] * 2,
           "input_shape": makers.Shape.STATES}  # fmt: skip
    if model == "shared":
        own |= {"clip_actions": False, "clip_log_std": True, "min_log_std": -20,
                "max_log_std": 2, "initial_log_std": 0}  # fmt: skip
        both = [{**own, "output_shape": shape, "output_activation": None, "output_scale": 1.0}
                for shape in (makers.Shape.ACTIONS, makers.Shape.ONE)]  # fmt: skip
        return makers.shared_model(
            **spaces, structure="", roles=["policy", "value"], parameters=both,
        )  # fmt: skip
    shape = makers.Shape.ONE if output == "ONE" else makers.Shape.ACTIONS
    kwargs = {**own, "output_shape": shape, "output_activation": None}
    if model == "gaussian":
        kwargs["output_scale"] = 1.0
    return getattr(makers, f"{model}_model")(**spaces, **kwargs)


def recurrent(kind: str, activation: str, spaces: Any) -> Any:
    from skrl.models.torch import GaussianMixin, Model

    class Policy(GaussianMixin, Model):  # type: ignore[misc]
        def __init__(self) -> None:
            Model.__init__(self, **spaces)
            GaussianMixin.__init__(self)
            cell = nn.LSTM if kind == "lstm" else nn.GRU
            self.rnn = cell(10, 8, batch_first=True)
            between = nn.ELU() if activation == "elu" else nn.ReLU()
            self.net = nn.Sequential(nn.Linear(8, 12), between, nn.Linear(12, 3))
            self.log_std_parameter = nn.Parameter(torch.zeros(3))

        def compute(self, inputs: dict[str, Any], role: str) -> Any:
            state = inputs["rnn"] if kind == "lstm" else inputs["rnn"][0]
            state = tuple(state) if kind == "lstm" else state
            out, after = self.rnn(inputs["observations"].view(-1, 1, 10), state)
            after = list(after) if kind == "lstm" else [after]
            action = self.net(out.flatten(0, 1))
            return action, {"log_std": self.log_std_parameter, "rnn": after}

    return Policy()


def holding(version: str, kind: str, policy: Any, critic: Any, spaces: Any, scaled: bool) -> Any:
    from skrl.resources.preprocessors.torch import RunningStandardScaler

    scaler = {
        _preprocessor(version): RunningStandardScaler,
        f"{_preprocessor(version)}_kwargs": {"size": spaces["observation_space"], "device": "cpu"},
    }
    if critic is not None:
        scaler |= {"value_preprocessor": RunningStandardScaler,
                   "value_preprocessor_kwargs": {"size": 1, "device": "cpu"}}  # fmt: skip
    cfg: Any = scaler if scaled else {}
    if version < "2":
        cfg = {**cfg, "experiment": {"write_interval": 0, "checkpoint_interval": 0}}
    models = {"policy": policy} | ({"value": critic} if critic is not None else {})
    models |= {"target_policy": policy} if kind == "TD3" else {}
    with contextlib.redirect_stdout(io.StringIO()):
        from skrl.agents.torch import ppo, td3

        made = {"PPO": ppo.PPO, "TD3": td3.TD3}[kind]
        agent = made(models=models, cfg=cfg, **spaces)
    # Without a value nothing is trained; a checkpoint has an optimizer all the same.
    optimizer = torch.optim.Adam(policy.parameters())
    agent.checkpoint_modules.setdefault("optimizer", optimizer)
    return agent


def _preprocessor(version: str) -> str:
    return "observation_preprocessor" if version >= "2" else "state_preprocessor"


def saving(made: Any) -> Any:
    def save(folder: Path) -> str:
        made.experiment_dir = str(folder)
        (folder / "checkpoints").mkdir(exist_ok=True)
        if hasattr(made.cfg, "experiment"):
            made.write_checkpoint(timestep=7, timesteps=7)
        else:
            made.checkpoint_store_separately = False
            made.write_checkpoint(7, 7)
        return "checkpoints/agent_7.pt"

    return save


class Acting:
    """What trainers do in evaluation: `mean_actions`, and the most probable choice."""

    def __init__(self, made: Any, scaler: Any, second: bool, space: Any, rnn: str) -> None:
        self.agent, self.scaler, self.second, self.space = made, scaler, second, space
        self.states = [torch.zeros(1, 5, 8)] * {"lstm": 2, "gru": 1}.get(rnn, 0)

    def value(self) -> Any:
        """Of the last observations, as PPO keeps it beside each of them."""
        with torch.no_grad():
            seen = self.seen if self.scaler is None else self.scaler(self.seen)
            inputs = {"observations" if self.second else "states": seen}
            value = self.agent.value.act(inputs, role="value")[0]
            scaler = self.agent.checkpoint_modules.get("value_preprocessor")
            return (value if scaler is None else scaler(value, inverse=True)).numpy()

    def __call__(self, ports: dict[str, Any]) -> Any:
        obs = torch.from_numpy(ports["obs"]).float().flatten(1)
        self.seen = obs
        with torch.no_grad():
            if self.states:
                seen = obs if self.scaler is None else self.scaler(obs)
                inputs = {"observations": seen, "rnn": self.states}
                first, outputs = self.agent.policy.act(inputs, role="policy")
                self.states = outputs["rnn"]
            elif self.second:
                first, outputs = self.agent.act(obs, None, **LATE)
            else:
                first, _, outputs = self.agent.act(obs, **LATE)
        logits = outputs.get("net_output")
        if isinstance(self.space, Discrete):
            return logits.argmax(-1).numpy()
        if isinstance(self.space, MultiDiscrete):
            parts = torch.split(logits, self.space.nvec.tolist(), dim=-1)
            return torch.stack([part.argmax(-1) for part in parts], -1).numpy()
        return outputs.get("mean_actions", first).numpy()
