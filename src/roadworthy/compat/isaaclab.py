"""Drop-in for `export_policy_as_onnx` of GBC and IsaacLab: same call, but checked, and whole.

obs                     → actions                     MLP and transformer actors
obs, ref_obs, ref_mask  → actions                     actors with reference observations
obs, h_in, c_in         → actions, h_out, c_out       recurrent actors (GRU: without c)
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from roadworthy.api.export import export_source
from roadworthy.api.options import ExportPlan
from roadworthy.capture.source import Source
from roadworthy.errors import UsageError
from roadworthy.errors.unforeseen import answers
from roadworthy.spec.bundle import CERTIFICATE, POLICY
from roadworthy.spec.certificate import Certificate


@answers
def export_policy_as_onnx(
    actor_critic: Any,
    path: str | os.PathLike[str],
    normalizer: Any = None,
    filename: str = "policy.onnx",
    verbose: bool = False,
    *,
    example: dict[str, Tensor] | None = None,
) -> Path:
    """The one `.onnx` file in `path`, after it passed every check against the live policy.

    `example` is needed only where the sizes of the inputs cannot be read off the layers.
    """
    source = described(actor_critic, normalizer, example)
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    say = _say if verbose else None
    with tempfile.TemporaryDirectory(dir=folder, prefix=".partial-") as scratch:
        bundle = export_source(source, Path(scratch) / "bundle", ExportPlan(progress=say))
        # One rename: whoever looks sees the old file or the new one, never half of it.
        (bundle.folder / POLICY).replace(folder / filename)
    if verbose:
        _say(str(bundle.signature))
        _say(str(Certificate.from_bytes(bundle.files[CERTIFICATE])))
    return folder / filename


def described(
    actor_critic: Any, normalizer: Any = None, example: dict[str, Tensor] | None = None
) -> Source:
    """The source for an actor-critic: which inputs it has and what it remembers."""
    actor = getattr(actor_critic, "actor", None)
    if not isinstance(actor, nn.Module):
        raise UsageError(
            f"{type(actor_critic).__name__} has no module .actor",
            hint="pass the actor-critic, or use rw.export(module, folder, example=…)",
        )
    _refuse_forgotten_normalizer(actor_critic, normalizer)
    if getattr(actor_critic, "is_recurrent", False):
        return _recurrent(actor, actor_critic.memory_a.rnn, normalizer, example)
    reference = getattr(actor, "ref_obs_embedding", None)
    if reference is not None or (example and "ref_obs" in example):
        given = example or {
            "obs": torch.zeros(1, _width(actor, "obs_embedding")),
            "ref_obs": torch.zeros(1, _width(actor, "ref_obs_embedding")),
            "ref_mask": torch.ones(1, dtype=torch.bool),
        }
        return Source(ReferenceActor(actor), example=given, normalizer=_for_obs(normalizer))
    given = example or {"obs": torch.zeros(1, _width(actor, "obs_embedding"))}
    return Source(PlainActor(actor), example=given, normalizer=_for_obs(normalizer))


class PlainActor(nn.Module):
    def __init__(self, actor: nn.Module) -> None:
        super().__init__()
        self.actor = actor

    def forward(self, obs: Tensor) -> Tensor:
        actions: Tensor = self.actor(obs)
        return actions


class ReferenceActor(nn.Module):
    """A BERT-form actor: the reference and its mask travel as a pair."""

    def __init__(self, actor: nn.Module) -> None:
        super().__init__()
        self.actor = actor

    def forward(self, obs: Tensor, ref_obs: Tensor, ref_mask: Tensor) -> Tensor:
        actions: Tensor = self.actor(obs, (ref_obs, ref_mask))
        return actions


class LstmActor(nn.Module):
    def __init__(self, actor: nn.Module, rnn: nn.Module) -> None:
        super().__init__()
        self.actor = actor
        self.rnn = rnn

    def forward(self, obs: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features, (h, c) = self.rnn(obs.unsqueeze(0), (h, c))
        return self.actor(features.squeeze(0)), h, c


class GruActor(nn.Module):
    def __init__(self, actor: nn.Module, rnn: nn.Module) -> None:
        super().__init__()
        self.actor = actor
        self.rnn = rnn

    def forward(self, obs: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        features, h = self.rnn(obs.unsqueeze(0), h)
        return self.actor(features.squeeze(0)), h


def _recurrent(
    actor: nn.Module, rnn: Any, normalizer: Any, example: dict[str, Tensor] | None
) -> Source:
    if not isinstance(rnn, (nn.LSTM, nn.GRU)):
        raise UsageError(
            f"memory_a.rnn is a {type(rnn).__name__}, expected nn.LSTM or nn.GRU",
            hint="use rw.export(module, folder, memory={…}) for a cell of your own",
        )
    names = ("h", "c") if isinstance(rnn, nn.LSTM) else ("h",)
    wrapper = LstmActor if isinstance(rnn, nn.LSTM) else GruActor
    zeros = torch.zeros(rnn.num_layers, 1, rnn.hidden_size)
    return Source(
        wrapper(actor, rnn),
        example=example or {"obs": torch.zeros(1, rnn.input_size)},
        memory={name: zeros.clone() for name in names},
        normalizer=_for_obs(normalizer),
    )


def _for_obs(normalizer: Any) -> dict[str, Any] | None:
    return None if normalizer is None else {"obs": normalizer}


def _refuse_forgotten_normalizer(actor_critic: Any, normalizer: Any) -> None:
    """rsl_rl keeps statistics beside the actor; an actor without them walks until it falls."""
    own = getattr(actor_critic, "actor_obs_normalizer", None)
    if normalizer is None and isinstance(own, nn.Module) and not isinstance(own, nn.Identity):
        raise UsageError(
            "the policy normalises its observations, but no normalizer was passed",
            code="RW031",
            where=f"{type(actor_critic).__name__}.actor_obs_normalizer",
            hint="normalizer=actor_critic.actor_obs_normalizer, or torch.nn.Identity() to leave "
            "it out on purpose",
        )


def _width(actor: nn.Module, embedding: str) -> int:
    """The number of observations, read off the first linear layer they meet."""
    layers = getattr(actor, embedding, None) or actor
    for layer in layers.modules():
        if isinstance(layer, nn.Linear) and layer.in_features > 0:
            return layer.in_features
    raise UsageError(
        f"the size of the observation cannot be read from {type(actor).__name__}",
        hint="pass example={'obs': torch.zeros(1, n)}",
    )


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
