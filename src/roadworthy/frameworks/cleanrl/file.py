"""CleanRL: the state_dicts that its single-file scripts save, under the names they use."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from torch import Tensor

from roadworthy.frameworks.files.opening import Contents, refuse_bad_weights, state_dict
from roadworthy.frameworks.network.actor import Around, Network, Tensors
from roadworthy.frameworks.network.chain import chain_of, critic_of, refuse_no_chain
from roadworthy.frameworks.network.chain_network import chain_reading
from roadworthy.frameworks.network.images import ask_images
from roadworthy.frameworks.network.layers import Weights
from roadworthy.frameworks.questions import Head, ask_activation, ask_head, ask_no_normalizer
from roadworthy.frameworks.reading import DEFAULT, Answers, Reading
from roadworthy.spec.transforms import Argmax, ScaleOffset, Tanh

_NO_CRITIC = "the script's critics judge actions"


@dataclass(frozen=True, slots=True)
class Script:
    """What a script saves: names that must be there, and all names that may be."""

    algorithm: str
    needed: str
    known: str


# The more particular ones first.
SCRIPTS = (
    Script("C51", r"atoms", r"network\.\d+\..*|atoms"),
    Script("SAC", r"fc_mean\.weight", r"fc\w*\.(weight|bias)|action_(scale|bias)"),
    Script("TD3 or DDPG", r"fc_mu\.weight", r"fc\w*\.(weight|bias)|action_(scale|bias)"),
    Script("PPO, continuous", r"actor_mean\.0\..*", r"(actor_mean|critic)\.\d+\..*|actor_logstd"),
    Script("DQN", r"network\.0\..*", r"network\.\d+\..*"),
    Script("PPO with a shared network", r"network\.0\..*", r"(network|lstm|actor|critic)\..*"),
    Script("PPO, discrete", r"actor\.0\..*", r"(actor|critic)\.\d+\..*"),
)


def recognise(contents: Contents) -> str | None:
    """Why the file looks like one of CleanRL's: its names are those of one script."""
    weights = _weights(contents.tree)
    script = _script(weights)
    if script is None:
        return None
    return f"its names are those that CleanRL's script for {script.algorithm} saves"


def _weights(tree: object) -> dict[str, Tensor]:
    """The actor's state_dict: alone, first of a tuple (TD3, DDPG), or beside its args (C51)."""
    if isinstance(tree, (tuple, list)) and tree:
        tree = tree[0]
    if isinstance(tree, Mapping) and "model_weights" in tree:
        tree = tree["model_weights"]
    weights = state_dict(tree)
    return weights if isinstance(tree, Mapping) and len(weights) == len(tree) else {}


def _script(weights: Weights) -> Script | None:
    for script in SCRIPTS:
        if any(re.fullmatch(script.needed, name) for name in weights) and all(
            re.fullmatch(script.known, name) for name in weights
        ):
            return script
    return None


def read(contents: Contents, answers: Answers) -> Reading:
    """The actor; CleanRL saves neither its activation nor the statistics of observations."""
    weights = _weights(contents.tree)
    refuse_bad_weights(weights, contents.where)
    script = _script(weights)
    assert script is not None
    atoms, scale = weights.get("atoms"), weights.get("action_scale")
    apart = ("atoms", "action_", "fc_logstd", "actor_logstd")
    chain = chain_of({n: w for n, w in weights.items() if not n.startswith(apart)})
    refuse_no_chain(chain, contents.where)
    activation = ask_activation(
        answers, others=("CleanRL's own scripts: tanh for PPO on vectors, relu for all others",)
    )
    images = None
    if chain.of("conv"):
        # (8, 4, 3) wide, 84 × 84 pixels: the network that every Atari script has.
        usual = [each.weights["weight"].shape[-1] for each in chain.of("conv")] == [8, 4, 3]
        square = usual and chain.of("linear", "lstm")[0].inputs == 64 * 7 * 7
        channels = chain.layers[0].inputs
        images = ask_images(
            answers,
            chain.kernels,
            usual_shape=[(f"{channels},84,84" if square else None, DEFAULT)],
            divisor=[("255" if usual else None, DEFAULT)],
            strides=[("4,2,1" if usual else None, DEFAULT)],
            padding=[("0" if usual else None, DEFAULT)],
        )
    else:
        ask_no_normalizer(answers)
    critic = critic_of(weights, chain) if script.algorithm.startswith("PPO") else _NO_CRITIC
    size = chain.layers[-1].outputs
    head: Head | None
    if scale is not None:
        offset = weights["action_bias"].reshape(-1)
        head = Head(steps=(Tanh(), ScaleOffset(scale=scale.reshape(-1), offset=offset)))
        answers.note("action", "squashed by tanh, then action_scale and action_bias")
    elif script.algorithm == "PPO, continuous":
        head = ask_head(answers, size)
    else:
        head = Head(steps=(Argmax(),))

    return chain_reading(
        contents,
        answers,
        chain,
        activation=activation,
        images=images,
        head=head,
        outputs=("action", "action_raw"),
        critic=critic,
        algorithm=script.algorithm,
        around=None if atoms is None else lambda network: Atoms(network, atoms),
    )


class Atoms(Around):
    """C51: the expected value of each choice, over a distribution on fixed atoms."""

    atoms: Tensor

    def __init__(self, network: Network, atoms: Tensor) -> None:
        super().__init__(network)
        self.register_buffer("atoms", atoms.float())

    def step(self, ports: Tensors, wanted: Collection[str]) -> Tensors:
        result = self.network.step(ports, ())
        rows = result["action"].shape[0]
        shares = result["action"].reshape(rows, -1, self.atoms.shape[0]).softmax(dim=2)
        values = (shares * self.atoms).sum(dim=2)
        return {**result, "action": values, **{n: values for n in wanted if n != "action"}}
