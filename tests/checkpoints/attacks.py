"""Files that somebody made on purpose, as no framework would write them."""

from __future__ import annotations

import base64
import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import roadworthy.demo

FILES = Path(roadworthy.demo.__file__).parent
MARK = "ran.txt"


class Payload:
    """What a pickle can do: run a command when it is loaded."""

    def __init__(self, folder: Path) -> None:
        self.command = f"touch {folder / MARK}"

    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return os.system, (self.command,)


def model() -> dict[str, bytes]:
    """The members of a model that Stable-Baselines3 wrote."""
    with zipfile.ZipFile(FILES / "ppo_cartpole.zip") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(members: dict[str, bytes], **keywords: Any) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **keywords) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def saved(state: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def payload_in(field: str) -> Callable[[Path], bytes]:
    def made(folder: Path) -> bytes:
        members = model()
        data = json.loads(members["data"])
        pickled = base64.b64encode(pickle.dumps(Payload(folder))).decode()
        data[field] = {":type:": "<class 'dict'>", ":serialized:": pickled}
        return zipped({**members, "data": json.dumps(data).encode()})

    return made


def with_weights(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], bytes]:
    def made(folder: Path) -> bytes:
        members = model()
        weights = torch.load(io.BytesIO(members["policy.pth"]), weights_only=True)
        change(weights)
        return zipped({**members, "policy.pth": saved(weights)})

    return made


def _nan(weights: dict[str, Any]) -> None:
    weights["action_net.weight"][0, 0] = float("nan")


def _integers(weights: dict[str, Any]) -> None:
    weights["action_net.weight"] = weights["action_net.weight"].to(torch.int8)


def _narrow(weights: dict[str, Any]) -> None:
    weights["mlp_extractor.policy_net.2.weight"] = torch.zeros(16, 15)


def _stranger(weights: dict[str, Any]) -> None:
    weights["attention.weight"] = torch.zeros(3, 3)


def flipped(folder: Path) -> bytes:
    """One bit of one weight, in the member that is stored without compression."""
    data = bytearray(saved(nn.Linear(64, 64).state_dict()))
    with zipfile.ZipFile(io.BytesIO(bytes(data))) as archive:
        entry = max(archive.infolist(), key=lambda each: each.file_size)
    name, extra = struct.unpack("<HH", data[entry.header_offset + 26 : entry.header_offset + 30])
    data[entry.header_offset + 30 + name + extra + 100] ^= 1
    return bytes(data)


def duplicated(folder: Path) -> bytes:
    # zipfile warns of a name that is there already: the bytes of another one are changed instead.
    members = model()
    data = zipped({**members, "policy.ptX": members["policy.pth"]})
    return data.replace(b"policy.ptX", b"policy.pth")


def bomb(folder: Path) -> bytes:
    members = {**model(), "policy.optimizer.pth": bytes(64 * 2**20)}
    return zipped(members, compression=zipfile.ZIP_DEFLATED)


def outside(folder: Path) -> bytes:
    return zipped({**model(), "../../evil.txt": b"x"})


def truncated(folder: Path) -> bytes:
    return zipped(model())[:-200]


def pickled_module(folder: Path) -> bytes:
    return saved({"model": Payload(folder)})


def script(folder: Path) -> bytes:
    return zipped(
        {"archive/data.pkl": b"\x80\x02.", "archive/code/x.py": b"", "archive/version": b"3"}
    )


def no_json(folder: Path) -> bytes:
    return zipped({**model(), "data": b"\xff{"})


# Name → how the file is made, and what the user reads.
ATTACKS: dict[str, tuple[Callable[[Path], bytes], str]] = {
    "a payload as the observation space": (
        payload_in("observation_space"), "observation_space: the pickle wants to call posix.system",
    ),
    "a payload as the policy's keywords": (
        payload_in("policy_kwargs"), "policy_kwargs: the pickle wants to call posix.system",
    ),
    "a payload as the policy class": (
        payload_in("policy_class"), "policy_class: the pickle wants to call posix.system",
    ),
    "a member outside of the archive": (outside, "'../../evil.txt' points outside of the archive"),
    "a member that is there twice": (duplicated, "policy.pth is in the archive 2 times"),
    "a bomb": (bomb, "policy.optimizer.pth unpacks from"),
    "an archive that is cut off": (truncated, "the archive is cut off or damaged"),
    "a flipped bit": (flipped, "the archive is cut off or damaged: Bad CRC-32"),
    "a payload for torch.load": (pickled_module, "it holds more than tensors and numbers"),
    "a TorchScript program": (script, "this is a TorchScript program, not a checkpoint"),
    "data that is no JSON": (no_json, "this is no JSON"),
    "weights that are NaN": (with_weights(_nan), "1 of 32 weights are NaN or infinite"),
    "weights that are integers": (
        with_weights(_integers), "action_net.weight: expected floating-point weights, got int8",
    ),
    "weights of another shape": (with_weights(_narrow), "the weights do not fit together"),
    "weights that nobody knows": (with_weights(_stranger), "nothing explains attention.weight"),
}  # fmt: skip


class VecNormalize:
    """Stands for the library's, whose name takes the place of its own in the pickle."""


class RunningMeanStd:
    """The same."""


def statistics(**fields: Any) -> bytes:
    """A pickle that looks like VecNormalize's, with other fields."""
    rms, made = RunningMeanStd(), VecNormalize()
    vars(rms).update({"mean": np.zeros(4), "var": np.ones(4), "count": 1.0, **fields})
    vars(made).update(obs_rms=rms, clip_obs=10.0, epsilon=1e-8, norm_obs=True)
    pickled, common = pickle.dumps(made, protocol=2), b"cstable_baselines3.common."
    here = f"c{__name__}\n".encode()
    return pickled.replace(
        here + b"VecNormalize", common + b"vec_env.vec_normalize\nVecNormalize"
    ).replace(here + b"RunningMeanStd", common + b"running_mean_std\nRunningMeanStd")
