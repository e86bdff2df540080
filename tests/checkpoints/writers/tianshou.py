"""Checkpoints of Tianshou: a policy's state_dict, alone or with its environment's statistics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete

from tests.checkpoints.recording import Written

MOVES = Box(np.float32([-1, -2, 0]), np.float32([1, 2, 3]))
BOUNDS = {"action_low": "-1,-2,0", "action_high": "1,2,3"}
SCALED = {"action_bound_method": "clip", "action_scaling": "true", **BOUNDS}


def cases(version: str) -> Iterator[Written]:
    """Checkpoints of the installed version, which must be this one."""
    yield continuous(version, "ppo-normalised", unbounded=True, normalised=True)
    yield continuous(version, "ppo-bounded", unbounded=False)
    yield discrete(version, "ppo-discrete")
    yield dqn(version, "dqn", body(torch.nn.ReLU, 4), {"activation": "relu"})
    duel = ({"hidden_sizes": [8]}, {"hidden_sizes": [6]})
    yield dqn(version, "dqn-dueling", body(torch.nn.Tanh, 4, dueling_param=duel),
              {"activation": "tanh"})  # fmt: skip
    from tianshou.utils.net.common import Recurrent

    memory = Recurrent(layer_num=1, state_shape=(10,), action_shape=4, hidden_layer_size=8)
    yield dqn(version, "dqn-recurrent", memory, {}, recurrent=True)
    yield recurrent_actor(version, "ppo-recurrent")


def body(activation: Any, outputs: int = 0, **more: Any) -> Any:
    from tianshou.utils.net.common import Net

    shape: dict[str, Any] = {"action_shape": outputs} if outputs else {}
    return Net(state_shape=(10,), hidden_sizes=[16, 12], activation=activation, **shape, **more)


def ppo(version: str, actor: Any, critic: Any, space: Any, dist: Any) -> Any:
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()])
    if version >= "2":
        from tianshou.algorithm import PPO
        from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
        from tianshou.algorithm.optim import AdamOptimizerFactory

        policy = ProbabilisticActorPolicy(
            actor=actor, dist_fn=dist, action_space=space, deterministic_eval=True,
            action_scaling=isinstance(space, Box),
            action_bound_method="clip" if isinstance(space, Box) else None,
        )  # fmt: skip
        return PPO(policy=policy, critic=critic, optim=AdamOptimizerFactory())
    from tianshou.policy import PPOPolicy

    same = {"dist_fn": dist, "action_space": space, "deterministic_eval": True,
            "action_scaling": isinstance(space, Box)}  # fmt: skip
    if version >= "1":
        return PPOPolicy(actor=actor, critic=critic, optim=optimizer, **same)
    return PPOPolicy(actor, critic, optimizer, **same)


def continuous(
    version: str, name: str, *, unbounded: bool, normalised: bool = False
) -> Written:  # fmt: skip
    from torch.distributions import Independent, Normal

    if version >= "2":
        from tianshou.utils.net.continuous import ContinuousActorProbabilistic as ActorProb
        from tianshou.utils.net.continuous import ContinuousCritic as Critic
    else:
        from tianshou.utils.net.continuous import ActorProb, Critic
    net = {"preprocess_net": body(torch.nn.Tanh)}
    actor = ActorProb(**net, action_shape=(3,), unbounded=unbounded)
    critic = Critic(preprocess_net=body(torch.nn.Tanh))

    def dist(*given: Any) -> Any:
        loc, scale = given[0] if len(given) == 1 else given
        return Independent(Normal(loc, scale), 1)

    policy = ppo(version, actor, critic, MOVES, dist)
    return written(
        version, name, policy, normalised,
        {"activation": "tanh", "max_action": "none" if unbounded else 1.0, **SCALED},
    )  # fmt: skip


def discrete(version: str, name: str) -> Written:
    from torch.distributions import Categorical

    if version >= "2":
        from tianshou.utils.net.discrete import DiscreteActor as Actor
        from tianshou.utils.net.discrete import DiscreteCritic as Critic
    else:
        from tianshou.utils.net.discrete import Actor, Critic
    actor = Actor(preprocess_net=body(torch.nn.ReLU), action_shape=4)
    critic = Critic(preprocess_net=body(torch.nn.ReLU))
    policy = ppo(version, actor, critic, Discrete(4), lambda probs: Categorical(probs))
    return written(version, name, policy, False, {"activation": "relu", "action_space": "discrete"})


def recurrent_actor(version: str, name: str) -> Written:
    from tianshou.utils.net.continuous import RecurrentActorProb
    from torch.distributions import Independent, Normal

    if version >= "2":
        from tianshou.utils.net.continuous import ContinuousCritic as Critic
    else:
        from tianshou.utils.net.continuous import Critic
    actor = RecurrentActorProb(
        layer_num=2, state_shape=(10,), action_shape=(3,), hidden_layer_size=8, unbounded=True
    )

    def dist(*given: Any) -> Any:
        loc, scale = given[0] if len(given) == 1 else given
        return Independent(Normal(loc, scale), 1)

    policy = ppo(version, actor, Critic(preprocess_net=body(torch.nn.Tanh)), MOVES, dist)
    return written(version, name, policy, False, {"max_action": "none", **SCALED}, recurrent=True)


def dqn(
    version: str, name: str, net: Any, assume: dict[str, object], *, recurrent: bool = False
) -> Written:
    if version >= "2":
        from tianshou.algorithm import DQN
        from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
        from tianshou.algorithm.optim import AdamOptimizerFactory

        acting = DiscreteQLearningPolicy(model=net, action_space=Discrete(4), eps_inference=0.0)
        policy = DQN(policy=acting, optim=AdamOptimizerFactory(), target_update_freq=1)
        return written(version, name, policy, False, assume, recurrent=recurrent)
    from tianshou.policy import DQNPolicy

    kwargs: dict[str, Any] = {"optim": torch.optim.Adam(net.parameters())}
    if version >= "1":
        kwargs["action_space"] = Discrete(4)
    policy = DQNPolicy(model=net, target_update_freq=1, **kwargs)
    return written(version, name, policy, False, assume, recurrent=recurrent)


def written(
    version: str,
    name: str,
    policy: Any,
    normalised: bool,
    assume: dict[str, object],
    *,
    recurrent: bool = False,
) -> Written:
    from tianshou.data import Batch
    from tianshou.utils import RunningMeanStd

    policy.eval()
    with torch.no_grad():
        for value in policy.parameters():
            value.add_(0.1 * torch.randn_like(value))
    statistics = RunningMeanStd()
    statistics.update(1.5 * np.random.randn(256, 10) + 0.3)

    def save(folder: Path) -> str:
        state = policy.state_dict()
        torch.save({"model": state, "obs_rms": statistics} if normalised else state,
                   folder / "policy.pth")  # fmt: skip
        return "policy.pth"

    state: Any = None

    def act(ports: dict[str, Any]) -> Any:
        nonlocal state
        obs = statistics.norm(ports["obs"]) if normalised else ports["obs"]
        acting = policy.policy if version >= "2" else policy
        acting.is_within_training_step = False
        with torch.no_grad():
            answer = acting(Batch(obs=obs, info={}), state)
            state = answer.state if recurrent else None
            return np.asarray(acting.map_action(np.asarray(answer.act)))

    told = assume if normalised else {**assume, "normalizer": "none"}
    return Written(name=f"{name}-{version}", save=save, act=act, shapes={"obs": (10,)}, assume=told,
                   recurrent=recurrent)  # fmt: skip
