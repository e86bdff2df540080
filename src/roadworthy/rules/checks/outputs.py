"""Outputs that look like they lack their last step."""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch

from roadworthy.errors import Finding
from roadworthy.rules.patient import Patient
from roadworthy.rules.running import outputs
from roadworthy.spec.transforms import Tanh

_SQUASH = re.compile(r"squash|tanh|output_activation|final_activation")
_SQUASHING = re.compile(r"TanhTransform|TanhBijector|Squashed")
_ELSEWHERE = re.compile(r"critic|value|target|qf|q_net")
# A squashed action stays within ±1; a mean that is not leaves it on observations of this size.
_LARGE = 30.0


def unsquashed(patient: Patient) -> Iterator[Finding]:
    """A squash that the module holds, while its actions are not bounded."""
    analysis = patient.analysis
    if analysis is None or any(isinstance(step, Tanh) for step in analysis.source.steps):
        return
    held = next(_squashes(patient.module), None)
    if held is None:
        return
    results = outputs(analysis, scale=_LARGE)
    actions = results[0] if results else torch.zeros(1)
    if actions.is_floating_point() and float(actions.abs().max()) > 1.001:
        yield Finding(
            code="RW172",
            where=patient.at(held),
            what="squashes to [-1, 1], but the outputs reach "
            f"{float(actions.abs().max()):.3g}: it is not applied",
            hint="add action=rw.Tanh() if the environment was stepped with squashed actions",
            severity="warning",
        )


def _squashes(module: torch.nn.Module) -> Iterator[str]:
    """Paths of attributes that say or do a squash."""
    for path, each in module.named_modules():
        for name, value in (*vars(each).items(), *each._modules.items()):
            full = f"{path}.{name}" if path else name
            if _ELSEWHERE.search(full):
                continue
            named = _SQUASH.search(name) and (value is True or isinstance(value, torch.nn.Tanh))
            if named or _SQUASHING.search(type(value).__name__):
                yield full
