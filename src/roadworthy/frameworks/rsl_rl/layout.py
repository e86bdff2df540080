"""Where the versions of rsl_rl put the actor's weights, and what their keys say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from roadworthy.frameworks.files.opening import Contents, state_dict
from roadworthy.frameworks.network.layers import under

# Everything that runners write at the top.
_TOP = {
    "model_state_dict", "optimizer_state_dict", "iter", "infos", "obs_norm_state_dict",
    "critic_obs_norm_state_dict", "privileged_obs_norm_state_dict", "rnd_state_dict",
    "rnd_optimizer_state_dict", "actor_state_dict", "critic_state_dict", "student_state_dict",
    "teacher_state_dict",
}  # fmt: skip
_NOISE = ("std", "log_std", "distribution.std_param", "distribution.log_std_param")
_OTHERS = (
    "critic.", "teacher.", "memory_c.", "memory_t.", "critic_obs_normalizer.",
    "teacher_obs_normalizer.", "critic_cnns.",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """The weights of one network: of the actor, or of the critic.

    statistics  of the normaliser: `_mean`, `_std`; empty where there is none
    """

    mlp: Mapping[str, Tensor]
    cell: Mapping[str, Tensor]
    cnns: Mapping[str, Mapping[str, Tensor]]
    statistics: Mapping[str, Tensor]

    @property
    def inputs(self) -> int:
        """How many numbers it takes, of which some may come from its CNNs."""
        first = self.cell["weight_ih_l0"] if self.cell else next(iter(self.mlp.values()))
        return int(first.shape[1])

    @property
    def cell_text(self) -> str:
        """In words: "LSTM 10 → 8"; empty where there is none."""
        if not self.cell:
            return ""
        hidden = self.cell["weight_hh_l0"].shape[1]
        kind = {4: "LSTM", 3: "GRU"}.get(self.cell["weight_hh_l0"].shape[0] // hidden, "RNN")
        return f"{kind} {self.cell['weight_ih_l0'].shape[1]} → {hidden}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """The actor's weights, the same for all versions.

    own         all of them, as the file names them
    head        what the last layer gives; empty where the keys leave it open
    grouped     whether observations come in groups, which an order makes one vector
    """

    version: str
    role: str
    own: Mapping[str, Tensor]
    actor: Part
    noise: tuple[str, ...]
    head: str
    grouped: bool
    unexplained: tuple[str, ...]
    critic: Part | None = None


def layout_of(contents: Contents) -> Layout:
    """The actor's part of the file."""
    strange = tuple(str(key) for key in contents.tree if key not in _TOP)
    for role in ("actor", "student"):
        weights = contents.tensors(f"{role}_state_dict")
        if weights:
            critic = contents.tensors("critic_state_dict")
            return _of_models(weights, role, strange, critic)
    return _of_one_module(contents, strange)


def _of_models(
    weights: Mapping[str, Tensor],
    role: str,
    strange: tuple[str, ...],
    critic: Mapping[str, Tensor],
) -> Layout:
    """Versions 4 and 5: a model of its own for the actor."""
    noise = tuple(name for name in _NOISE if name in weights)
    known = ("mlp.", "rnn.rnn.", "cnns.", "obs_normalizer.", *noise)
    outputs = _last(under(weights, "mlp"))
    version = "5" if any(name.startswith("distribution.") for name in noise) else "4 or 5"
    return Layout(
        version="4" if {"std", "log_std"} & set(noise) else version,
        role=role,
        own=weights,
        actor=_part(weights, "mlp", "rnn.rnn", "cnns", under(weights, "obs_normalizer")),
        noise=noise,
        # An odd number of outputs has no halves.
        head="deterministic" if noise or outputs % 2 else "",
        grouped=True,
        unexplained=(*strange, *(n for n in weights if not n.startswith(known))),
        critic=_or_none(_part(critic, "mlp", "rnn.rnn", "cnns", under(critic, "obs_normalizer"))),
    )


def _of_one_module(contents: Contents, strange: tuple[str, ...]) -> Layout:
    """Versions 1 to 3: actor and critic, or student and teacher, in one module."""
    weights = contents.tensors("model_state_dict")
    role = "student" if any(name.startswith("student.") for name in weights) else "actor"
    inside = under(weights, f"{role}_obs_normalizer")
    beside = state_dict(contents.tree.get("obs_norm_state_dict"))
    noise = tuple(name for name in _NOISE if name in weights)
    memory = f"memory_{role[0]}"
    own = (f"{role}.", f"{memory}.rnn.", f"{role}_obs_normalizer.", f"{role}_cnns.", *noise)
    third = bool(inside) or not noise or any("_cnns." in name for name in weights)
    grouped = third and not beside
    return Layout(
        version="3" if grouped else "1 or 2" if beside else "1 to 3",
        role=role,
        own={name: w for name, w in weights.items() if name.startswith(own)},
        actor=_part(weights, role, f"{memory}.rnn", f"{role}_cnns", inside or beside),
        noise=noise,
        # Without a deviation it depends on the state, and is the second half of the last layer.
        head="deterministic" if noise else "heteroscedastic",
        grouped=grouped,
        unexplained=(*strange, *(n for n in weights if not n.startswith((*own, *_OTHERS)))),
        critic=_or_none(
            _part(weights, "critic", "memory_c.rnn", "critic_cnns",
                  _of_critic(contents) or under(weights, "critic_obs_normalizer"))
        ),
    )  # fmt: skip


def _part(
    weights: Mapping[str, Tensor], mlp: str, cell: str, cnns: str, statistics: Mapping[str, Tensor]
) -> Part:
    """The network under these names."""
    return Part(mlp=under(weights, mlp), cell=under(weights, cell),
                cnns=_by_group(under(weights, cnns)), statistics=statistics)  # fmt: skip


def _or_none(part: Part) -> Part | None:
    return part if part.mlp else None


def _of_critic(contents: Contents) -> dict[str, Tensor]:
    """The statistics beside the module: version 2.3 gave them another name."""
    names = ("critic_obs_norm_state_dict", "privileged_obs_norm_state_dict")
    found = (state_dict(contents.tree.get(name)) for name in names)
    return next((each for each in found if each), {})


def _by_group(weights: Mapping[str, Tensor]) -> dict[str, Mapping[str, Tensor]]:
    names = dict.fromkeys(name.partition(".")[0] for name in weights)
    return {name: under(weights, name) for name in names}


def _last(weights: Mapping[str, Tensor]) -> int:
    places = [int(name.partition(".")[0]) for name in weights]
    return int(weights[f"{max(places)}.weight"].shape[0]) if places else 0
