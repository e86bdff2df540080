"""What the JSON in a Stable-Baselines3 archive says, with its pickled parts read as plain data."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roadworthy.errors import UsageError
from roadworthy.frameworks.files.opening import Contents, load_tensors, read_json, state_dict
from roadworthy.frameworks.files.pickles import ANY, read_pickle
from roadworthy.frameworks.network.layers import activation_name
from roadworthy.frameworks.reading import DAMAGED, NEEDS_TRUST, UNEXPLAINED
from roadworthy.frameworks.spaces import Space, space_from

NAME = "Stable-Baselines3"
DATA, WEIGHTS, VERSION = "data", "policy.pth", "_stable_baselines3_version"
_PICKLED = ":serialized:"
# Extractors that can be rebuilt; the weights say which of them it is.
_EXTRACTORS = {"FlattenExtractor", "NatureCNN", "CombinedExtractor"}
_TRUST = (
    "if you know who made the file, --trust lets Stable-Baselines3 load it, which runs what it "
    "says; or in Python: rw.export(PPO.load('model.zip'), folder, vecnormalize=…), with "
    "'vecnormalize.pkl', or 'none' where training had none"
)
_POLICIES = ("stable_baselines3.", "sb3_contrib.")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Settings:
    """The parts of the file that matter to the actions."""

    where: str
    version: str
    policy_class: str
    policy: Mapping[str, Any]
    observation: Space
    action: Space
    algorithm: str
    weights: Mapping[str, Any]
    use_sde: bool

    def activation(self, default: str) -> tuple[str, bool]:
        """The activation's name, and whether the file says it."""
        said = self.policy.get("activation_fn")
        if said is None:
            return default, False
        if not str(said).startswith("torch.nn.") or "<locals>" in str(said):
            raise _code_needed(self.where, f"the activation {said}")
        try:
            return activation_name(str(said)), True
        except KeyError:
            what = f"the activation {str(said).rpartition('.')[2]} is not rebuilt from a file"
            raise UsageError(what, where=self.where, code=NEEDS_TRUST, hint=_TRUST) from None


def settings_of(contents: Contents) -> Settings:
    """Everything that the archive says about the policy."""
    where = contents.where
    data = read_json(contents.members[DATA], f"{where}: {DATA}")
    policy = _value(data, "policy_kwargs", where) or {}
    if not isinstance(policy, Mapping):
        raise _broken(where, "policy_kwargs", policy)
    policy_class = str(_value(data, "policy_class", where))
    if not policy_class.startswith(_POLICIES):
        raise _code_needed(where, f"the policy class {policy_class}")
    extractor = str(policy.get("features_extractor_class") or "FlattenExtractor")
    if extractor.rpartition(".")[2] not in _EXTRACTORS or not (
        extractor == "FlattenExtractor" or extractor.startswith(_POLICIES)
    ):
        raise _code_needed(where, f"the features extractor {extractor}")
    weights = state_dict(load_tensors(contents.members[WEIGHTS], where=f"{where}: {WEIGHTS}"))
    return Settings(
        where=where,
        version=version_of(contents),
        policy_class=policy_class,
        policy=policy,
        observation=_space(data, "observation_space", where),
        action=_space(data, "action_space", where),
        algorithm=_algorithm(data, policy_class),
        weights=weights,
        use_sde=bool(data.get("use_sde")),
    )


def version_of(contents: Contents) -> str:
    """The version that wrote the file."""
    return contents.members.get(VERSION, b"").decode("utf-8", "replace").strip()


def algorithm_of(contents: Contents) -> str:
    """The name of the algorithm, whoever wrote its policy class."""
    where = contents.where
    data = read_json(contents.members[DATA], f"{where}: {DATA}")
    return _algorithm(data, str(_value(data, "policy_class", where)))


def _value(data: Mapping[str, Any], key: str, where: str) -> Any:
    """A value of the JSON; one that is pickled is read as plain data, and nothing of it is run."""
    value = data.get(key)
    if not isinstance(value, Mapping) or _PICKLED not in value:
        return value
    try:
        pickled = base64.b64decode(value[_PICKLED], validate=False)
    except (binascii.Error, TypeError, ValueError) as error:
        raise UsageError(
            f"its pickle is not base64: {error}",
            where=f"{where}: {key}",
            code=DAMAGED,
            hint="copy the file again from its source",
        ) from error
    return read_pickle(pickled, where=f"{where}: {key}", names=ANY)


def _space(data: Mapping[str, Any], key: str, where: str) -> Space:
    found = _value(data, key, where)
    try:
        return space_from(found)
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(
            f"expected {error}", where=f"{where}: {key}", code=UNEXPLAINED,
            hint="policies over such spaces are exported from Python: rw.export(module, folder, "
            "example=…)",
        ) from error  # fmt: skip


def _broken(where: str, key: str, value: object) -> UsageError:
    return UsageError(f"expected a dictionary, got a {type(value).__name__}",
                      where=f"{where}: {key}", code=DAMAGED)  # fmt: skip


def _code_needed(where: str, what: str) -> UsageError:
    return UsageError(
        f"{what} is somebody's own code, which is not in the file", where=where, code=NEEDS_TRUST,
        hint=f"where that code can be imported: {_TRUST}",
    )  # fmt: skip


def _algorithm(data: Mapping[str, Any], policy_class: str) -> str:
    """The algorithm, which no field names: by the policy's module, and by the fields it has."""
    module = policy_class.rpartition(".")[0]
    name = policy_class.rpartition(".")[2]
    if "Recurrent" in name:
        return "RecurrentPPO"
    if "Maskable" in name:
        return "MaskablePPO"
    for part, algorithm in (("crossq", "CrossQ"), ("tqc", "TQC"), ("qrdqn", "QRDQN"),
                            ("sac", "SAC"), ("dqn", "DQN")):  # fmt: skip
        if part in module.split("."):
            return algorithm
    if "td3" in module.split("."):
        plain = data.get("policy_delay") == 1 and data.get("target_policy_noise") == 0.0
        return "DDPG" if plain else "TD3"
    if "cg_max_steps" in data:
        return "TRPO"
    return "PPO" if "clip_range" in data else "A2C"
